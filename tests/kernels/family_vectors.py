"""The vectors that Go, C++ and gRPC clients' own code wrote, and which family each release is of."""

import gzip
import json
import os
from pathlib import Path

from hindsight.udfs.client_families import family_of_release

FOLDERS = [Path(__file__).parents[1] / "golden" / "vectors" / "other_clients"]
if "HINDSIGHT_VECTORS" in os.environ:
    FOLDERS.append(Path(os.environ["HINDSIGHT_VECTORS"]) / "other_clients")
UNRELEASED = {"master-7c8b7f8": "C1", "re_dev-2adad61": "C1"}


def vector_files(kind: str) -> list[Path]:
    return [path for folder in FOLDERS for path in sorted(folder.glob(f"{kind}_*.jsonl.gz"))]


def rows_of(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def profile_of(row: dict) -> str:
    found = UNRELEASED.get(row["version"]) or family_of_release(row["client"], row["version"])
    assert found is not None, row["version"]
    return found
