"""Requests of RocketMQ's remoting protocol in, their bytes out; bytes of a connection in, whole frames out.

A frame is ``int32 size, int32 mark, header, body``, big-endian: ``size`` counts what follows it, the mark's high byte
is the header's format (0 JSON, 1 ROCKETMQ), its other three the header's length. Source: RemotingCommand,
RocketMQSerializable, NettyDecoder (4.3.0 to 5.5.0).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

LONGEST_FRAME = 16_777_216  # com.rocketmq.remoting.frameMaxLength: Java's own clients take no longer one
# MQVersion of 5.3.3. From 401 (4.9.4) on name servers answer routes in standard JSON.
ASKER_VERSION = 479
_IS_ANSWER = 1
_JSON, _ROCKETMQ = 0, 1
_TWO_INTS = struct.Struct(">ii")
_ROCKETMQ_HEAD = struct.Struct(">hbhiii")  # code, language, version, opaque, flag, length of the remark


class FrameError(ValueError):
    """Raised for bytes that are no frame: from there on the connection cannot be read."""


class Frame(NamedTuple):
    """What a server sent; ``code`` is the response code where ``is_answer``, else that of a request of its own."""

    code: int
    opaque: int
    is_answer: bool
    remark: str | None
    body: bytes


def encode_request(code: int, opaque: int, fields: Mapping[str, str]) -> bytes:
    """The frame of a request without a body; ``opaque`` (an int32) comes back in its answer."""
    header = orjson.dumps(
        {
            "code": code,
            "language": "OTHER",
            "version": ASKER_VERSION,
            "opaque": opaque,
            "flag": 0,
            "extFields": dict(fields),
            "serializeTypeCurrentRPC": "JSON",
        }
    )
    return _TWO_INTS.pack(4 + len(header), len(header)) + header


class FrameDecoder:
    """Bytes of one connection, cut anywhere; holds no more than one unfinished frame and what was fed last."""

    def __init__(self, longest: int = LONGEST_FRAME) -> None:
        self._longest = longest
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole with these bytes; to be read to its end.

        Raises: FrameError: a length that cannot be, longer than ``longest`` bytes in all, or an unreadable header.
        """
        self._bytes += data
        at = 0
        try:
            while len(self._bytes) - at >= _TWO_INTS.size:
                size, mark = _TWO_INTS.unpack_from(self._bytes, at)
                header_length = mark & 0xFFFFFF
                self._check(size, header_length)
                end = at + 4 + size
                if len(self._bytes) < end:
                    break
                body_at = at + _TWO_INTS.size + header_length
                header = bytes(self._bytes[at + _TWO_INTS.size : body_at])
                body = bytes(self._bytes[body_at:end])
                at = end
                yield _frame(mark >> 24 & 0xFF, header, body)
        finally:
            del self._bytes[:at]

    def _check(self, size: int, header_length: int) -> None:
        if not 4 <= size <= self._longest - 4:
            raise FrameError(f"a frame of {size:,} bytes, expected 4 to {self._longest - 4:,}")
        if header_length > size - 4:
            raise FrameError(f"a header of {header_length:,} bytes in a frame of {size:,}")


def _frame(header_format: int, header: bytes, body: bytes) -> Frame:
    if header_format == _JSON:
        return _of_json(header, body)
    if header_format == _ROCKETMQ:
        return _of_rocketmq(header, body)
    raise FrameError(f"a header of format {header_format}, expected 0 (JSON) or 1 (ROCKETMQ)")


def _of_json(header: bytes, body: bytes) -> Frame:
    try:
        fields = orjson.loads(header)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"a header that is no JSON: {error}") from None
    if not isinstance(fields, dict):
        raise FrameError("a header that is no JSON object")
    code, opaque, flag = (_int32(fields, name) for name in ("code", "opaque", "flag"))
    remark = fields.get("remark")
    if remark is not None and not isinstance(remark, str):
        raise FrameError("a header whose 'remark' is no text")
    return Frame(code, opaque, bool(flag & _IS_ANSWER), remark, body)


def _int32(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise FrameError(f"a header whose {name!r} is no 32-bit number")
    return value


def _of_rocketmq(header: bytes, body: bytes) -> Frame:
    if len(header) < _ROCKETMQ_HEAD.size:
        raise FrameError(f"a ROCKETMQ header of {len(header)} bytes")
    code, _language, _version, opaque, flag, length = _ROCKETMQ_HEAD.unpack_from(header)
    remark = header[_ROCKETMQ_HEAD.size : _ROCKETMQ_HEAD.size + max(length, 0)]
    if length < 0 or len(remark) < length:
        raise FrameError(f"a ROCKETMQ header with a remark of {length:,} bytes in {len(header)}")
    return Frame(code, opaque, bool(flag & _IS_ANSWER), remark.decode(errors="replace") or None, body)


_NAMES = {"accessKey": "access_key", "secretKey": "secret_key", "securityToken": "security_token"}


class CredentialsError(ValueError):
    """Raised for credentials that cannot be used; the message repeats none of them."""


@dataclass(frozen=True)
class Credentials:
    """A key pair, and a token where one belongs to it; its ``repr`` shows the access key alone."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def hidden_in(self, text: str) -> str:
        """A text of a server's without the secret key and the token, should it repeat them."""
        # The longer one first: it may hold the other.
        for secret in sorted((self.secret_key, self.security_token or ""), key=len, reverse=True):
            text = text.replace(secret, "***") if secret else text
        return text


def signed_fields(fields: Mapping[str, str], credentials: Credentials) -> dict[str, str]:
    """The fields of a request without a body, with ``AccessKey``, ``SecurityToken`` if there is one, ``Signature``."""
    told = {**fields, "AccessKey": credentials.access_key}
    if credentials.security_token:
        told["SecurityToken"] = credentials.security_token
    text = "".join(told[name] for name in sorted(told))
    digest = hmac.new(credentials.secret_key.encode(), text.encode(), hashlib.sha1).digest()
    return {**told, "Signature": base64.b64encode(digest).decode()}


def read_credentials(text: str) -> Credentials:
    """Credentials from lines ``accessKey: ...``, ``secretKey: ...`` and perhaps ``securityToken: ...``.

    That is what rocketmq-tools' own ``conf/tools.yml`` holds; ``=`` in place of the colon and quotes are taken too.
    Raises: CredentialsError: a line of another name, or no key pair.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        at = min((at for at in (line.find(":"), line.find("=")) if at >= 0), default=0)
        name = line[:at].strip()
        if name not in _NAMES:
            raise CredentialsError(f"line {number} is none of {', '.join(_NAMES)}.")
        found[_NAMES[name]] = line[at + 1 :].strip().strip("\"'")
    return credentials_of(**found)


def credentials_of(
    access_key: str | None = None, secret_key: str | None = None, security_token: str | None = None
) -> Credentials:
    """The credentials of these words; raises CredentialsError where the access key or the secret key is missing."""
    if not access_key or not secret_key:
        raise CredentialsError(f"there is no {'access key' if secret_key else 'secret key'}.")
    return Credentials(access_key, secret_key, security_token or None)
