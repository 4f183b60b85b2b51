"""The text of a logback or log4j2 PatternLayout in, its conversions and the texts between them out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hindsight.udfs.logs.pattern_dates import PatternError

MESSAGE = frozenset({"m", "msg", "message"})
# What prints nothing, or nothing on the message's own line.
_NOTHING = "n ex exception throwable xEx xException xThrowable wEx rEx rException rThrowable nopex nopexception"
# What colours, bounds or escapes a part of the pattern.
_AS_THEY_ARE = (
    "clr highlight style enc encode maxLen maxLength black red green yellow blue magenta cyan white gray boldRed "
    "boldGreen boldYellow boldBlue boldMagenta boldCyan boldWhite"
)
_OTHERS = (
    "c logger lo C class F file l location M method X mdc MDC x NDC K map marker markerSimpleName replace "
    "notEmpty varsNotEmpty variablesNotEmpty equals u uuid caller contextName cn property tid threadId tp "
    "threadPriority fqcn N nano i I applicationName esb correlationId p level le pid processId r relative sn "
    "sequenceNumber L line t thread tn threadName d date"
)
_WORDS = MESSAGE.union(_NOTHING.split(), _AS_THEY_ARE.split(), _OTHERS.split())
_CONVERSION = re.compile(r"%(?P<width>-?0?\d{0,4}(?:\.-?\d{1,4})?)(?P<word>[A-Za-z]+|(?=\())")
_DEFAULT_OF = re.compile(r"\$\{[^{}]*?:-([^{}]*)\}")


@dataclass(frozen=True)
class Part:
    """A conversion (``word``), or the text between two (``word`` empty)."""

    text: str
    word: str = ""
    options: tuple[str, ...] = ()
    is_padded: bool = False


def parts_of(pattern: str) -> list[Part]:
    """The parts of a pattern, those left out that print nothing; groups that print their contents are opened.

    Raises: PatternError: a parenthesis or brace that is not closed, a placeholder without a default.
    """
    return list(_joined(part for part in _parts(_with_defaults(pattern)) if part.word not in _NOTHING.split()))


def _with_defaults(pattern: str) -> str:
    """The pattern with its placeholders' defaults in place; one whose default is blank stands for any text."""
    while (filled := _DEFAULT_OF.sub(lambda found: found[1] if found[1].strip() else "%property", pattern)) != pattern:
        pattern = filled
    if "${" in pattern:
        raise PatternError("write what stands for ${...}")
    return pattern


def _joined(parts: Iterator[Part]) -> Iterator[Part]:
    """The same with adjacent texts as one."""
    before: Part | None = None
    for part in parts:
        if before is not None and not before.word and not part.word:
            before = replace(before, text=before.text + part.text)
            continue
        if before is not None:
            yield before
        before = part
    if before is not None:
        yield before


def _parts(pattern: str) -> Iterator[Part]:
    """The pattern's conversions and the texts between them; groups that print their contents are opened."""
    text, at = "", 0
    while at < len(pattern):
        if pattern[at] == "\\" and at + 1 < len(pattern):
            text, at = text + _unescaped(pattern[at + 1]), at + 2
        elif pattern.startswith("%%", at):
            text, at = text + "%", at + 2
        elif (found := _CONVERSION.match(pattern, at)) is None:
            text, at = text + pattern[at], at + 1
        else:
            if text:
                yield Part(text)
            text = ""
            word, rest = _known_word(found["word"])
            inner, options, at = _arguments(pattern, found.end() - len(rest))
            yield from _conversion(word, inner, options, is_padded=bool(found["width"]))
    if text:
        yield Part(text)


def _conversion(word: str, inner: str | None, options: tuple[str, ...], *, is_padded: bool) -> Iterator[Part]:
    content = inner if inner is not None else (options[0] if options else "")
    holds_message = any(part.word in MESSAGE for part in _parts(content)) if "%" in content else False
    is_open = word in _AS_THEY_ARE.split() and (inner is not None or "%" in content)
    if is_open or word == "" or holds_message:
        yield from _parts(content)
    else:
        yield Part("", word, options, is_padded)


def _unescaped(letter: str) -> str:
    return {"t": "\t", "n": "\n"}.get(letter, letter)


def _known_word(letters: str) -> tuple[str, str]:
    """The conversion's word, and the letters after it that are text: ``%mfoo`` begins with ``%m``."""
    for size in range(len(letters), 0, -1):
        if letters[:size] in _WORDS:
            return letters[:size], letters[size:]
    return letters, ""


def _arguments(pattern: str, at: int) -> tuple[str | None, tuple[str, ...], int]:
    """What stands in a conversion's parentheses, in its braces, and where it ends."""
    inner = None
    if pattern.startswith("(", at):
        inner, at = _enclosed(pattern, at, "(", ")")
    options = []
    while pattern.startswith("{", at):
        option, at = _enclosed(pattern, at, "{", "}")
        options.append(option)
    return inner, tuple(options), at


def _enclosed(pattern: str, at: int, opens: str, closes: str) -> tuple[str, int]:
    depth = 0
    for place in range(at, len(pattern)):
        if pattern[place - 1] == "\\" and place > at:
            continue
        depth += (pattern[place] == opens) - (pattern[place] == closes)
        if depth == 0:
            return pattern[at + 1 : place], place + 1
    raise PatternError(f"{opens} is not closed at character {at}")
