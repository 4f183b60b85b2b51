"""What a producer's ``start`` says of its language and release in, the one text of both out, and why it has no windows.

Only Java's producers have a fault table. A Go client's release 5.1.4 is not Java's: the text of another language's
release begins with the language, so that no rule of Java's ever meets it.
"""

from __future__ import annotations

JAVA = "JAVA"
_NO_TABLE = "no release of it has a fault table"
# Language codes of RocketMQ, and GRPC for gRPC clients in whatever language: why their sends are not replayed.
NOT_REPLAYED = {
    "GO": f"a Go client: {_NO_TABLE}",
    "CPP": "a C++ client: it leaves out single queues after a failure, in active mode only, never brokers",
    "GRPC": "a gRPC client: it isolates endpoints, and the proxy decides which queue stores a message",
    **dict.fromkeys(
        ("DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "PHP", "OMS", "RUST", "NODE_JS"),
        "a client of another language: its rules are not known",
    ),
}
LANGUAGES = (JAVA, *NOT_REPLAYED)
_BY_TURNS = ("GO", "CPP")


def stated_release(language: str | None, release: str | None) -> str | None:
    """``4.9.8`` for Java, ``GO 2.1.2`` for others, ``GO`` where the release is not told."""
    if language in (None, JAVA):
        return release
    return " ".join(filter(None, (language, release)))


def why_not_replayed(stated: str | None) -> str | None:
    """Why a client that stated this has no windows by its nature; None: it is a Java client, or nobody told."""
    return NOT_REPLAYED.get((stated or "").partition(" ")[0])


def takes_turns(stated: str | None) -> bool:
    """Whether a client that stated this takes one queue after the other: its choices are judged by that."""
    return (stated or "").partition(" ")[0] in _BY_TURNS


def names_each_attempt(stated: str | None) -> bool:
    """Whether a client that stated this makes a message id for each attempt, not for each send."""
    return (stated or "").partition(" ")[0] == "CPP"
