"""What stands in each text column: the name of something, a word of the product's own, or a text for people.

A column is known by its name, in whichever table and however deep it lies. What is not listed is a text for people:
no rule reads it, and no bundle holds it.
"""

from __future__ import annotations

from collections.abc import Mapping

# Names: each kind has new names of its own.
NAMED: Mapping[str, str] = {
    **dict.fromkeys(("cluster",), "cluster"),
    **dict.fromkeys(("collector",), "collector"),
    **dict.fromkeys(("name_server",), "name server"),
    **dict.fromkeys(("consumer_group", "producer_group", "client_group"), "group"),
    **dict.fromkeys(("topic", "topics"), "topic"),
    **dict.fromkeys(
        ("broker_name", "last_broker_name", "broker_asked", "logical_broker_name", "admissible", "brokers_sent"),
        "broker",
    ),
    **dict.fromkeys(
        ("client_id", "from_client_id", "owner", "claimants", "members", "member_ids", "expected_client_ids"), "client"
    ),
    **dict.fromkeys(("joined", "left"), "client"),
    "address": "address",
    "thread": "thread",
    "msg_id": "message",
    "tags": "tag",
    "sub_string": "expression",
    "source_file": "file",
    "log_folder": "log folder",
    "lines": "evidence",
    "line_digest": "line",
    "incident_id": "incident",
    "error": "error",
    "exception": "exception",
    "strategy": "strategy",
    "client_version": "release",
    "order_topic_conf": "order conf",
    "detail": "detail",
    "queue_selected_by": "chooser",
}
# Words of RocketMQ's and of the product's own, which rules go by.
WORDS = frozenset(
    [
        "also",
        "assumed",
        "certainty",
        "client_kind",
        "code",
        "codes",
        "consume_from_where",
        "consume_type",
        "doubts",
        "end_reason",
        "expression_type",
        "finding_state",
        "kind",
        "language",
        "message_model",
        "mode",
        "outcome",
        "phase",
        "profile",
        "queue_kind",
        "result",
        "retry_verdict",
        "role",
        "root_cause",
        "rule",
        "severity",
        "shows",
        "source",
        "sources",
        "state",
        "stored_twice",
        "stored_twice_reasons",
        "strategy_source",
        "told_by",
        "trigger_kind",
        "trust",
        "verdict",
        "woken_by",
    ]
)
# Digests of names: they differ with these, and are not compared.
DIGESTS = frozenset({"incident_id", "member_list_hash", "queue_list_hash", "claims_hash", "line_digest"})
# Columns of these names hold names inside of words, or are words about names.
TOLD = frozenset({("allocation_drift", "kind"), ("drift_incident", "findings"), ("rebalance_event", "exceptions")})
# A state of several dates, as JSON: its texts are told by their places in it.
STATES = frozenset({("group_drift_state", "state"), ("rebalance_state", "state")})
