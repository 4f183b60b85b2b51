"""The processes of this machine, for tests that kill some of those they started."""

from __future__ import annotations

from pathlib import Path


def processes() -> dict[int, tuple[str, int]]:
    """Of each process its command and parent."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode().replace("\0", " ")
            _, parent, *_ = (process / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        found[int(process.name)] = (command, int(parent))
    return found


def below(ancestor: int) -> list[tuple[int, str]]:
    """Number and command of each process that this one, or one of its own, started."""
    there = processes()
    generation, found = {ancestor}, []
    while generation:
        found += [(pid, there[pid][0]) for pid in generation if pid != ancestor]
        generation = {pid for pid, (_, parent) in there.items() if parent in generation}
    return found
