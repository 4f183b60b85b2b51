"""Bytes of a text in which nothing says how they were encoded in; the encoding out, or why it must be declared.

Guessed is between encodings that read the ASCII parts of a log alike: names, instants, messages of RocketMQ. UTF-8 is
told by its form; what is none is GB18030 (of which GBK and GB2312 are parts), as Chinese systems write. UTF-16 is read
where a mark says so. Japanese and Korean encodings have the form of GB18030 as well, and Western ones swallow ASCII
letters in it: a text that looks like one of these, or like UTF-16 without a mark, is refused until its encoding is
declared.
"""

from __future__ import annotations

import codecs
import re

GUESSED = ""
GB18030 = "gb18030"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_WIDE = re.compile(r"utf[-_]?(?:16|32)(?:[-_]?[lb]e)?", re.IGNORECASE)
_PAIR = re.compile(
    rb"(?P<four>[\x81-\xfe][\x30-\x39][\x81-\xfe][\x30-\x39])|(?P<kana>\xa4[\xa1-\xf3]|\xa5[\xa1-\xf6])"
    rb"|(?P<two>[\x81-\xfe][\x80-\xfe])|(?P<low>[\x81-\xfe][\x40-\x7e])|(?P<odd>[\x80-\xff])"
)
_KANA_OF_SHIFT_JIS = re.compile(rb"\x82[\x9f-\xf1]|\x83[\x40-\x96]")
# Common in texts of programs: syllables of Korean, characters of Chinese, each as its encoding's bytes.
_KOREAN = frozenset(
    char.encode("euc-kr")
    for char in "이다는을에가로서습니하지고의은한를도연결실패오류시간초과요청버작종료완성메송수신소비처리할없입됩었"
)
_CHINESE = frozenset(
    char.encode("gb2312")
    for char in (
        "的是不在有了时间连接失败超异常错误请求服务器启动停止成功消息队列发送费端口地址配置参数为空重试关闭"
        "打开文件数据库线程已未找到系统无法处理完始结束当前用户主题组订单"
    )
)
_ENOUGH = 3  # signs of another encoding
_WIDE_SHARE = 0.3  # of zeros, in what is UTF-16
LOOK_BYTES = 4096


def mark_of(begin: bytes) -> str | None:
    """The encoding that a mark at a text's beginning names; None: no mark, but perhaps UTF-8's."""
    return next((name for mark, name in _MARKS.items() if begin.startswith(mark)), None)


def is_wide(encoding: str) -> bool:
    """Whether an encoding has characters of which a byte may be that of a line's end: UTF-16, UTF-32."""
    return _WIDE.fullmatch(encoding) is not None


def lacks_mark(begin: bytes) -> bool:
    """Whether a text looks like UTF-16 of which nothing says in which order its bytes stand."""
    begin = begin[:LOOK_BYTES]
    return len(begin) > 3 and begin.count(0) > _WIDE_SHARE * len(begin)


class Guess:
    """What a file's text shows of its encoding, block by block."""

    def __init__(self) -> None:
        self.heard: set[str] = set()  # encodings in which lines were read
        self.refused: str | None = None  # why no line is read any more
        self._counts = dict.fromkeys(("high", "low", "kana", "shift_jis", "korean", "chinese"), 0)

    def look(self, block: bytes) -> None:
        """Take note of bytes that are not all UTF-8."""
        if self.refused is None:
            for line in block.split(b"\n"):
                if not line.isascii() and not is_utf_8(line):
                    self._count(line)
            self.refused = self._other_encoding()

    def _count(self, line: bytes) -> None:
        counts = self._counts
        for found in _PAIR.finditer(line):
            kind = found.lastgroup
            counts["kana"] += kind == "kana"
            # Across two characters of GB18030 its bytes say nothing.
            counts["shift_jis"] += _KANA_OF_SHIFT_JIS.fullmatch(found[0]) is not None
            counts["low"] += kind in ("low", "odd")
            counts["high"] += kind in ("four", "two")
            counts["korean"] += found[0] in _KOREAN
            counts["chinese"] += found[0] in _CHINESE

    def _other_encoding(self) -> str | None:
        counts = self._counts
        if counts["shift_jis"] >= _ENOUGH and counts["shift_jis"] > counts["chinese"]:
            return "this looks like Shift_JIS: declare the encoding"
        if counts["kana"] >= _ENOUGH and counts["kana"] > counts["chinese"]:
            return "this looks like EUC-JP: declare the encoding"
        if counts["korean"] >= _ENOUGH and counts["korean"] > 2 * counts["chinese"]:
            return "this looks like EUC-KR: declare the encoding"
        return None

    def decoded(self, raw: bytes) -> str:
        """A line that is no UTF-8.

        Raises: UnicodeDecodeError: it is no GB18030 either, or bytes beyond ASCII swallow ASCII ones in it.
        """
        counts = self._counts
        if counts["low"] > counts["high"] + counts["kana"]:
            raise UnicodeDecodeError(GB18030, raw, 0, 1, "looks like a Western encoding, which must be declared")
        text = raw.decode(GB18030)
        self.heard.add(GB18030)
        return text


def is_utf_8(raw: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
