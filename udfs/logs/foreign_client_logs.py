"""A line of a client log in, whether another language's client told of queues, locks or sends in it, and how, out.

Lines in the layouts of Go's and C++'s own logs are read (``other_client_logs``). What a Go client's application writes
through a logger of its own is told from Java's by its words, and refused.
Source: rocketmq-client-cpp 1.2.0 to 2.2.0 and its master, rocketmq-client-go 2.0.0-alpha1 to 2.1.2 and its master.
"""

from __future__ import annotations

import re

from hindsight.udfs.lines.parsed_line import RefusedLineError

# One of them stands in each line that is recognised here, or one of those of the Java client's messages.
_NEEDLES = (
    "mq:",
    " mqs",
    "defaultConsumer",
    "for mq",
    "of mq",
    "next mq",
    "range is:",
    "empty consumer",
    "consumer list of",
    "rIdsChanged",
    "MessageQueue changed",
    "clientI",
    "end failed of",
    "retrying to send",
    "Allocation result",
    "not in cidAll",
    "ock MessageQueue",
    "notification to consumer",
    "unnecessary mq",
    "in group failed",
    "heart beat to broker",
)
_BEGINS = frozenset("[{tTDIWEF\x1b0123456789")  # of a stamp, a level, ``time=``, or JSON
_GO = re.compile(
    r"do balance (?:done|result changed|in group failed)|PullConsumer rebalance result changed|\[BALANCE-SKIP\]"
    r"|remove unnecessary mq (?:when updateProcessQueueTable|because )|do defaultConsumer, (?:add a new mq|mq already)"
    r"|\[BUG\] ConsumerId not in cidAll|get consumer list of group from broker error|\b(?:un)?lock MessageQueue\b"
    r"|receive broker's notification to consumer group|the topic route info changed|\bMessageQueue changed\b"
    r"|send heart beat to broker (?:error|failed|success)|start retrying to send, |fetch offset of mq from broker"
    r"|no broker found for mq|the message queue not be able to consume, because it was dropped"
    r"|pull consumer assign new mqs|delete mq from offset table|get next mq error"
)


def may_be_foreign(text: str) -> bool:
    """False: the line is none of those that are recognised here and hold nothing like a message of Java's client."""
    return text[:1] in _BEGINS and any(needle in text for needle in _NEEDLES)


def refuse_foreign(text: str) -> None:
    """Refused: FOREIGN_CLIENT_LOG, what a Go client tells as Java's does in a wanted line, in a layout not known."""
    if _GO.search(text):
        raise RefusedLineError("FOREIGN_CLIENT_LOG", "a line of the Go client, in a layout that is not read")
