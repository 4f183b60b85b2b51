"""Java strings in, Java's answers out: order, bytes, blanks and splits as RocketMQ's clients see them.

Java compares and walks strings in UTF-16 code units, Python in code points. The two differ as soon as a
character beyond U+FFFF meets one in U+E000..U+FFFF: ``a😀`` sorts before ``a～`` (U+FF5E) in Java only.
"""

from collections.abc import Callable

# Space separators of Unicode that Character.isWhitespace leaves out: they do not break lines.
_NO_BREAK_SPACES = "\u00a0\u2007\u202f"
# Python's str.isspace counts it, Character.isWhitespace does not.
_NEXT_LINE = "\u0085"


def java_string_key(s: str) -> bytes:
    """Sort key of Java's ``String.compareTo``: ``sorted(ids, key=java_string_key)`` is ``Collections.sort``.

    Lone surrogates, which Java allows, keep their place.
    Example: ``A1 < a#1 < a-1 < a10 < a2 < a@1 < a_1``; digits compare as text.
    Source: java.lang.String#compareTo.
    """
    return s.encode("utf-16-be", "surrogatepass")


def utf8_key(s: str) -> bytes:
    """Sort key of Go's and C++'s strings: bytes of UTF-8. ``a～`` (U+FF5E) sorts before ``a😀``, unlike in Java.

    Source: Go's sort.Strings and strings.Compare, C++'s std::string::compare.
    """
    return s.encode("utf-8", "surrogatepass")


def java_encoder(charset: str) -> Callable[[str], bytes]:
    """The function ``String.getBytes(charset)``: what the charset cannot write becomes one ``?``.

    A lone surrogate is one ``?`` too. ``charset`` may be spelled as Java or as Python spells it. UTF-8, ASCII and
    single-byte charsets agree with Java byte for byte. East Asian ones agree for everyday characters only: they
    differ in rare Hangul (EUC-KR), private-use characters and ``€`` (GBK), and a few signs in the others.

    Raises: ValueError: for a charset that Python does not know or that is no JVM's default (UTF-16 and such).
    Source: java.lang.String#getBytes(Charset).
    """
    advice = "Give the JVM's file.encoding under a name that Python's codecs know, such as 'UTF-8' or 'US-ASCII'."
    try:
        letter = "a".encode(charset)
    except LookupError:
        raise ValueError(f"charset {charset!r} is not known to Python. {advice}") from None
    if len(letter) != 1:
        raise ValueError(
            f"charset {charset!r} writes the letter a in {len(letter)} bytes, as no default does. {advice}"
        )

    def encode(text: str) -> bytes:
        try:
            return text.encode(charset)
        except UnicodeEncodeError:
            # Two halves of a pair that came separately are one character to Java: one "?", not two.
            paired = java_string_key(text).decode("utf-16-be", "surrogatepass")
            return paired.encode(charset, "replace")

    return encode


def java_is_blank(text: str) -> bool:
    """Whether ``text`` is empty or consists of Java whitespace only; a no-break space is not blank.

    Source: org.apache.commons.lang3.StringUtils#isBlank over java.lang.Character#isWhitespace.
    """
    return all(char.isspace() and char not in _NO_BREAK_SPACES and char != _NEXT_LINE for char in text)


def java_split(text: str, separator: str) -> list[str]:
    """The parts of ``text`` between ``separator``s, without empty ones at the end.

    Example, by ``@``: ``r1@`` gives ``[r1]``, ``@a`` gives ``["", a]``, ``a@b@`` gives ``[a, b]``, ``@`` gives
    ``[]``; a text without separator is one part, even when it is empty.
    Source: java.lang.String#split for a separator of one plain character.
    """
    if separator not in text:
        return [text]
    return text.rstrip(separator).split(separator) if text.strip(separator) else []
