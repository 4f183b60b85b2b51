"""A line of a client log in, whose other client wrote it out: lines that tell of queues, locks and sends.

Clients of other languages write to files of the same names, in their own words. Their lines are not read.

- C++: ``[2026-Jan-05 10:15:00.123456](info):text[function:line]``, later ``[2026-01-05 10:15:00.123] [info] text``
- Go: ``time="2026-01-05T10:15:00+08:00" level=info msg="text" key=value``, or the text in a logger of one's own

Source: rocketmq-client-cpp 1.2.0 to 2.2.0 and its master, rocketmq-client-go 2.0.0-alpha1 to 2.1.2 and its master.
"""

from __future__ import annotations

import re

from udfs.parsed_line import RefusedLineError

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
)
_BEGINS = frozenset("[{tTDIWEF\x1b0123456789")  # of a stamp, a level, ``time=``, or JSON
_CPP_HEAD = re.compile(
    r"\[\d{4}-(?:[A-Z][a-z]{2}|\d\d)-\d\d \d\d:\d\d:\d\d\.\d{3,9}\]"
    r"(?:\([a-z]{4,7}\):| \[(?:trace|debug|info|warning|error|critical)\] )"
)
_CPP = re.compile(
    r"Allocation result for \[Consumer Group:|range is:-?\d++, index is:|getConsumerIdList from broker:"
    r"|Get empty consumer IDs\.|could not find clientId from Broker|Queues to allocate are empty"
    r"|allocated queue is empty for topic:|(?:[Aa]dd|[Dd]rop|allocate) mq:|client id:|try to lock:"
    r"|notifyConsumerIdsChanged:|start dorebalance for consumer:|(?:lock|LockBatch|lockBatchMQ) (?:success|fails)"
    r"| broker mqs|mqs of broker:|mq on broker:|message queue:.*? was not locked|lock success of mq|lock fails of mq"
    r"|updateNonServiceMessageQueue of mq:|send failed of|send new error, broker:"
    r"|MQClient start,groupname:|[cC]lientI[dD]:| of mq:| for mq:| with mq:|MessageQueue \["
)
_GO_LOG = re.compile(r'time="[^"]*+" level=[a-z]++ msg="')
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
    """Refused: FOREIGN_CLIENT_LOG, what another language's client tells as Java's does in a wanted line."""
    if _CPP_HEAD.match(text):
        if _CPP.search(text):
            raise _foreign("C++")
    elif _GO.search(text):
        raise _foreign("Go")


def refuse_foreign_head(text: str) -> None:
    """The same for a line that holds a message of Java's, which both write: its head tells."""
    if _CPP_HEAD.match(text):
        raise _foreign("C++")
    if _GO_LOG.match(text):
        raise _foreign("Go")


def _foreign(language: str) -> RefusedLineError:
    return RefusedLineError("FOREIGN_CLIENT_LOG", f"a line of the {language} client, whose logs are not read")
