"""What a message id says of itself: by which process it was made and when, or where a broker stored the message.

A unique key (MessageClientIDSetter) is the client's: address, process, class loader, time in the month, counter. An
offset message id (MessageDecoder#createMessageId) is the broker's: address, port, place in the commit log. Both have
32 hex digits with IPv4 and 56 with IPv6; ids of gRPC clients have 34 and begin with their version.

>>> days_of("7F000001000418B4AAC2" + "0A4CB800" + "0001")
(2, 3, 4)
>>> is_offset_id("7F00000100002A9F00000000000001F4")
True
>>> is_offset_id("7F000001000418B4AAC20A4CB8000001")
False
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

_HEX = re.compile(r"[0-9A-Fa-f]+")
_GRPC_DIGITS, _GRPC_EPOCH = 34, datetime(2021, 1, 1, tzinfo=UTC)
_DIGITS = {32: 8, 56: 32}  # of the whole, and of the address in it
_DAY_MS = 86_400_000
_MONTH_MS = 31 * _DAY_MS


def is_offset_id(msg_id: str) -> bool:
    """It can be a broker's: where the port stands is one."""
    address = _DIGITS.get(len(msg_id))
    return bool(address and _HEX.fullmatch(msg_id) and 0 < int(msg_id[address : address + 8], 16) < 65_536)


def days_of(msg_id: str) -> tuple[int, ...] | date | None:
    """When a client made the id: days of a month, or for gRPC the date; None: it does not say.

    The month began in the client's own zone, so the days beside it count too.
    """
    if not _HEX.fullmatch(msg_id):
        return None
    if len(msg_id) == _GRPC_DIGITS:
        return (_GRPC_EPOCH + timedelta(seconds=int(msg_id[18:26], 16))).date()
    if len(msg_id) not in _DIGITS:
        return None
    since_ms = int(msg_id[-12:-4], 16)
    if since_ms >= _MONTH_MS + _DAY_MS:
        return None
    day = since_ms // _DAY_MS + 1
    return (day - 1, day, day + 1)


def may_be_of(day: date, told: tuple[int, ...] | date | None) -> bool:
    """Whether a message with such an id may have been sent on a date."""
    if told is None:
        return True
    if isinstance(told, date):
        return abs((day - told).days) <= 1
    # Of 0 it is the last day of the month before, and of a day behind a month's end the first of the next.
    after = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
    last = (after - timedelta(days=1)).day
    wanted = {one for one in told if 1 <= one <= last}
    return day.day in wanted or (day.day == last and 0 in told) or (day.day == 1 and max(told) > 28)
