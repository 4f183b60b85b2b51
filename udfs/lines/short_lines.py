"""Lines of a collector's file in, the same out with answers that are as before left out, or put in again.

A collector asks the same questions again and again, and much is answered as before. Such reads of one kind and place
share a short line. It has of each its subject, when it began (milliseconds from ``ts`` on), how long it took, and the
digest of the answer that it repeats: that of the last whole line with the same question in the file. So each file
stands by itself. Whoever knows no short lines refuses them, as their kind is no text.

    {"ts":1,"ts_end":2,"kind":"consumerIdList","subject":"g","broker":"b","error":null,"raw":"[\\"c@1\\"]"}
    {"ts":3,"kind":{"asBefore":"consumerIdList"},"broker":"b","reads":[["g",0,2,"DIGEST"]]}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import chain, groupby
from typing import NamedTuple

from hindsight.udfs.lines.bounded_lines import Line
from hindsight.udfs.lines.parsed_line import ParsedLine

MOST_BYTES = 256 * 2**20  # of last answers that a reader keeps of a file; who writes ends the file at half of it
# Of what short lines repeat, and how many times their file: more was made to cost. As of archives.
_REPEATED_FREELY, _MOST_TIMES = 64 * 2**20, 300
_READS = 100  # of a short line, at most
# None repeats within a repetition what could match in two ways, so none takes longer than its line.
_TEXT = rb'"(?:[^"\\]|\\.)*+"'
_PLACE = rb'((?:"\w+":' + _TEXT + rb",)*)"
_ASKED = rb'\{"ts":(\d+),"ts_end":(\d+),"kind":("\w+"),"subject":(' + _TEXT + rb")," + _PLACE
_WHOLE = re.compile(_ASKED + rb'("error":(?:null|' + _TEXT + rb'),"raw":(?:null|".*"))\}')
_SHORT = re.compile(rb'\{"ts":(\d{1,15}),"kind":\{"asBefore":("\w+")\},' + _PLACE + rb'"reads":\[(.*)\]\}')
_READ = re.compile(rb"\[(" + _TEXT + rb'),(\d{1,15}),(\d{1,15}),"([0-9a-f]{16})"\]')


_OWN_WORDS = b'"consumerRunningInfo"'


class _Question(NamedTuple):
    """What is asked, as JSON has it; ``place``: of whom, and by which collector, with a comma behind each."""

    kind: bytes
    subject: bytes
    place: bytes

    @property
    def asked(self) -> _Question:
        """Without whom, where the answer is a client's own words, whichever broker passes them on."""
        return self._replace(place=b"") if self.kind == _OWN_WORDS else self

    def digest(self, answer: bytes) -> bytes:
        """Of the question too: so no answer is taken for another question's."""
        return blake2b(b"".join((*self, answer)), digest_size=8).hexdigest().encode()

    def line(self, begun: int, ended: int, answer: bytes) -> str:
        """The line of a read."""
        asked = b'{"ts":%d,"ts_end":%d,"kind":%s,"subject":%s,%s' % (begun, ended, *self)
        return b"".join((asked, answer, b"}")).decode()


class _Known(NamedTuple):
    """The last whole answer to a question: its digest, and its bytes."""

    digest: bytes = b""
    size: int = 0


class _Read(NamedTuple):
    """When it began, how long it took, and the digest of its answer."""

    begun: int
    took: int
    digest: bytes


class Shortener:
    """Makes the lines of one file short; ``is_on`` False: none.

    A line repeats only what was written: so whatever is lost of a file, what stands in it stands on what is before it.
    """

    def __init__(self, *, is_on: bool) -> None:
        self._is_on = is_on
        self._last: dict[_Question, _Known] = {}
        self._fresh: dict[_Question, _Known] = {}  # of whole lines that are not written yet
        self._short: dict[_Question, list[tuple[_Question, _Read]]] = {}
        self._bytes = 0

    def __call__(self, line: bytes) -> list[bytes]:
        """What is to be written of a line now; nothing if its answer is as before: ``rest`` has it."""
        whole = _WHOLE.fullmatch(line) if self._is_on else None
        if whole is None:
            return [line]
        begun, ended, answer = int(whole[1]), int(whole[2]), whole[6]
        question = _Question(whole[3], whole[4], whole[5])
        asked = question.asked
        digest = asked.digest(answer)
        last = self._last.get(asked, _Known())
        if last.digest == digest and asked not in self._fresh and begun <= ended:
            self._short.setdefault(asked, []).append((question, _Read(begun, ended - begun, digest)))
            return []
        before = self.rest() if asked in self._short else []
        self._bytes += len(answer) - self._fresh.get(asked, last).size
        self._fresh[asked] = _Known(digest, len(answer))
        return [*before, line]

    def rest(self) -> list[bytes]:
        """The short lines of what was as before."""
        short, self._short = self._short, {}
        of_place: dict[tuple[bytes, bytes], list[tuple[bytes, _Read]]] = {}
        for (kind, subject, place), read in chain.from_iterable(short.values()):
            of_place.setdefault((kind, place), []).append((subject, read))
        return [
            _short_line(*place, reads[n : n + _READS])
            for place, reads in of_place.items()
            for n in range(0, len(reads), _READS)
        ]

    def written(self) -> None:
        """All that was given out is in the file."""
        self._last |= self._fresh
        self._fresh.clear()

    def lost(self) -> None:
        """What was given out since it was written is not in the file."""
        self._fresh.clear()
        self._bytes = sum(known.size for known in self._last.values())

    @property
    def waiting(self) -> int:
        """Reads that ``rest`` has."""
        return sum(map(len, self._short.values()))

    @property
    def is_full(self) -> bool:
        """A reader should keep no more of one file."""
        return self._bytes >= MOST_BYTES // 2


def _short_line(kind: bytes, place: bytes, reads: list[tuple[bytes, _Read]]) -> bytes:
    since = min(read.begun for _, read in reads)
    told = (b'[%s,%d,%d,"%s"]' % (subject, begun - since, took, digest) for subject, (begun, took, digest) in reads)
    return b'{"ts":%d,"kind":{"asBefore":%s},%s"reads":[%s]}' % (since, kind, place, b",".join(told))


class _Answers:
    """The last whole answer to each question of a file, and how much was repeated of them."""

    def __init__(self) -> None:
        self._last: dict[_Question, bytes] = {}
        self._kept = self._seen = self._repeated = 0

    def see(self, text: bytes) -> None:
        """Take in a line."""
        self._seen += len(text)
        if whole := _WHOLE.fullmatch(text):
            question, answer = _Question(whole[3], whole[4], whole[5]).asked, whole[6]
            self._kept += len(answer) - len(self._last.get(question, b""))
            if self._kept > MOST_BYTES:
                self._last, self._kept = {}, len(answer)
            self._last[question] = answer

    def repeated(self, question: _Question, digest: bytes) -> bytes:
        """The answer that a read repeats; where that is nowhere, an answer that says so."""
        question = question.asked
        answer = self._last.get(question, b"")
        self._repeated += len(answer)
        is_bomb = self._repeated > max(_REPEATED_FREELY, _MOST_TIMES * self._seen)
        return b'"raw":{"asBefore":"%s"}' % digest if is_bomb or question.digest(answer) != digest else answer


def whole_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines of a file; of a short one a line for each read, as it would be if it were whole, of the same number."""
    answers = _Answers()
    for line in lines:
        text = line.text.encode() if line.refusal is None and line.text.startswith('{"ts":') else b""
        answers.see(text)
        short = _SHORT.fullmatch(text)
        reads = list(_READ.finditer(short[4])) if short else []
        if short is None or not reads or b",".join(read[0] for read in reads) != short[4]:
            yield line
            continue
        for read in reads:
            question, begun = _Question(short[2], read[1], short[3]), int(short[1]) + int(read[2])
            yield line._replace(text=question.line(begun, begun + int(read[3]), answers.repeated(question, read[4])))


def one_a_line(parsed: Iterable[ParsedLine]) -> Iterator[ParsedLine]:
    """What came of the reads of a line, as of one line: the first that is refused says why it is."""
    for _, reads in groupby(parsed, key=lambda one: one.line.number):
        first, *others = reads
        if not others:
            yield first
            continue
        shown = next((read for read in (first, *others) if read.refusal is not None), first)
        records = chain.from_iterable(read.records for read in (first, *others))
        yield ParsedLine(shown.line, tuple(records), shown.refusal)
