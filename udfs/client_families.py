"""What is recorded of a client in, the family of clients whose rules it follows out: Go, C++ and gRPC clients.

Java's families are ``PROFILES`` in ``udfs/release_profiles.py``. A connection's ``version`` means a release of Java
only where its ``language`` is JAVA: every Go client since 2.0.0-alpha3 sends 317, the number of Java's 4.5.2, every
C++ client since 1.2.5 sends 333, and a proxy sends its own number for the gRPC clients behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hindsight.udfs.clients.client_kinds import GRPC_CLIENT_ID
from hindsight.udfs.release_profiles import UnknownReleaseError, profile_for

GO, CPP, GRPC, JAVA = "GO", "CPP", "GRPC", "JAVA"


@dataclass(frozen=True)
class ClientFamily:
    """How the releases of one family behave.

    Attributes:
        id: name of the family.
        language: GO, CPP or GRPC; the first two as connections carry it.
        releases: the releases that it was read from or run against.
        source: classes and files that say so.
        strategies: which allocation strategies its clients have: "go" those of Go's own, "all_average" AVG under every
            name, "average" AVG and no other, "none": the server assigns.
        brokers_descending: topics and brokers are sorted from the last to the first before they are shared.
        error_drops_topic: without a list of members (error answer, or empty) it drops all queues of the topic; else it
            keeps what it has.
        rebalance_period_ms: how often it rebalances without being told to.
        unlocks: when an orderly consumer gives locks of queues back to the broker.
        unregisters: tells the broker that it leaves; else it is missed once its channel closes.
        client_id: form of the id that it makes up by default.
        publish_order: brokers in its list of queues to send to: as the name server tells them, from the last to the
            first, or by name; "counter" is the list of alpha1's route object, which was not run.
        attempts: of a SYNC send, by default.
        retried_codes: codes of broker errors after which a SYNC send is tried again; None: all, and all statuses.
        avoids_last: modes in which a retry leaves out the broker that failed.
        trace_pub_fields: how many fields a Pub trace record has; 0: it writes none.
    """

    id: str
    language: Literal["GO", "CPP", "GRPC"]
    releases: str
    source: str
    strategies: Literal["go", "all_average", "average", "none"]
    brokers_descending: bool
    error_drops_topic: bool
    rebalance_period_ms: int
    unlocks: Literal["never", "at_shutdown", "on_removal"]
    unregisters: bool
    client_id: str
    publish_order: Literal["counter", "server", "reversed", "by_name"]
    attempts: int
    retried_codes: tuple[int, ...] | None
    avoids_last: frozenset[str]
    trace_pub_fields: int


_G0 = ClientFamily(
    id="G0",
    language="GO",
    releases="2.0.0-alpha1, 2.0.0-alpha2",
    source="kernel/client.go, consumer/strategy.go, consumer/consumer.go, producer/producer.go",
    strategies="all_average",
    brokers_descending=True,
    error_drops_topic=True,
    rebalance_period_ms=10_000,
    unlocks="never",
    unregisters=False,
    client_id="<ip>@DEFAULT",
    publish_order="counter",
    attempts=4,  # alpha1: 3
    retried_codes=(),
    avoids_last=frozenset(),
    trace_pub_fields=0,
)
_G1 = replace(
    _G0,
    id="G1",
    releases="2.0.0-alpha3, 2.0.0-rc1",
    source="consumer/strategy.go, consumer/consumer.go, internal/route.go, producer/selector.go",
    strategies="go",
    rebalance_period_ms=20_000,  # alpha3: 10,000
    publish_order="reversed",
    trace_pub_fields=14,
)
_G2 = replace(
    _G1,
    id="G2",
    releases="2.0.0-rc2, 2.0.0, 2.1.0-rc1 to 2.1.0",
    brokers_descending=False,  # #420
    client_id="<ip>@<pid>",  # 2.0.0-rc2: <ip>@DEFAULT
)
_G3 = replace(_G2, id="G3", releases="2.1.1-rc1, 2.1.1-rc2", publish_order="server", trace_pub_fields=15)
_G4 = replace(_G3, id="G4", releases="2.1.1-rc3, 2.1.1", publish_order="reversed")
_G5 = replace(_G4, id="G5", releases="2.1.2.rc1", publish_order="server", unlocks="at_shutdown")
_G6 = replace(  # #1014
    _G5,
    id="G6",
    releases="2.1.2.rc2, 2.1.2",
    retried_codes=(1, 14, 16, 17),
    avoids_last=frozenset({"ONEWAY"}),  # of a SYNC send the last broker is forgotten at once
)
_G7 = replace(
    _G6, id="G7", releases="master of 2025-12-26", publish_order="by_name", avoids_last=frozenset({"ONEWAY", "SYNC"})
)
_C0 = ClientFamily(
    id="C0",
    language="CPP",
    releases="1.2.0 to 1.2.4, and what wraps them",
    source="src/consumer/AllocateMQStrategy.h, src/consumer/Rebalance.cpp, src/producer/TopicPublishInfo.h",
    strategies="average",
    brokers_descending=False,
    error_drops_topic=False,
    rebalance_period_ms=10_000,
    unlocks="on_removal",
    unregisters=True,
    client_id="<pid>-<ip>@<instance>",
    publish_order="by_name",
    attempts=5,
    retried_codes=None,
    avoids_last=frozenset({"SYNC", "ASYNC", "ONEWAY"}),
    trace_pub_fields=0,
)
_C1 = replace(
    _C0,
    id="C1",
    releases="1.2.5 to 2.2.0 and master, and what wraps them",
    client_id="<ip>@<pid>#<instance>",
    trace_pub_fields=14,  # from 2.1.0
)
_R = replace(
    _C1,
    id="R",
    language="GRPC",
    releases="all of rocketmq-clients",
    source="proxy/grpc/v2/route/RouteActivity#queryAssignment",
    strategies="none",
    rebalance_period_ms=5_000,
    unlocks="never",
    client_id="<host>@<pid>@<index>@<base36 time>",
    publish_order="server",
    attempts=3,
    avoids_last=frozenset(),
    trace_pub_fields=0,
)

CLIENT_FAMILIES: Mapping[str, ClientFamily] = {
    family.id: family for family in (_G0, _G1, _G2, _G3, _G4, _G5, _G6, _G7, _C0, _C1, _R)
}

# The releases themselves, as people and module files name them.
_RELEASES_OF: Mapping[str, str] = {
    "G0": "2.0.0-alpha1 2.0.0-alpha2",
    "G1": "2.0.0-alpha3 2.0.0-rc1",
    "G2": "2.0.0-rc2 2.0.0 2.1.0-rc1 2.1.0-rc2 2.1.0-rc3 2.1.0-rc4 2.1.0-rc5 2.1.0-rc6 2.1.0",
    "G3": "2.1.1-rc1 2.1.1-rc2",
    "G4": "2.1.1-rc3 2.1.1",
    "G5": "2.1.2.rc1",
    "G6": "2.1.2.rc2 2.1.2",
    "G7": "2.1.3-0.20251226070945",
    "C0": "1.2.0 1.2.1 1.2.2 1.2.3 1.2.4",
    "C1": "1.2.5 2.0.0 2.0.1 2.1.0 2.2.0",
}
_FAMILY_OF_RELEASE: Mapping[tuple[str, str], str] = {
    (CLIENT_FAMILIES[name].language, release): name
    for name, releases in _RELEASES_OF.items()
    for release in releases.split()
}
_GO_FAMILIES = tuple(name for name, family in CLIENT_FAMILIES.items() if family.language == GO)
_CPP_FAMILIES = ("C0", "C1")
# internal/client.go, clientVersion: it lags behind the release that states it.
_GO_STATED: Mapping[str, tuple[str, ...]] = {
    "v2.0.0-alpha3": ("G1", "G2"),
    "v2.0.0": ("G2",),
    "v2.1.0": ("G2", "G3", "G4"),
    "v2.1.1": ("G5", "G6", "G7"),
}
_BY_CONNECTION: Mapping[tuple[str, int], tuple[str, ...]] = {
    (GO, 137): ("G0",),
    (GO, 317): _GO_FAMILIES[1:],
    (CPP, 63): ("C0",),
    (CPP, 333): ("C1",),
}
_GRPC_ID = re.compile(GRPC_CLIENT_ID)
_OLD_CPP_ID = re.compile(r"\d+-[^@]+@.+", re.DOTALL)  # <pid>-<ip>@<instance>


def families_of(
    language: str | None, version: int | None = None, client_version: str | None = None, client_id: str = ""
) -> tuple[str, ...]:
    """Every family that a client may be of, by what is recorded of it; none where nothing is known of it.

    Args:
        language: the language code of its connection; None: none was seen. Then only Go's releases tell who it is:
            a C++ client states one of Java's.
        version: the number in its connection, as that language means it.
        client_version: PROP_CLIENT_VERSION of its running info (``V5_3_3``, ``v2.1.1``), or the release that a record
            or the settings name, or a family's id.
        client_id: its id; that of a gRPC client has a form of its own, and its language tells nothing of its rules.

    Returns: ids of ``PROFILES`` for a Java client, else of ``CLIENT_FAMILIES``, in their order.
    Source: MQVersion of Java; internal/client.go of Go; MQVersion.h of C++; proxy ClientActivity, 5.x.
    """
    if _GRPC_ID.fullmatch(client_id):
        return ("R",)
    if client_version in CLIENT_FAMILIES:
        return (client_version or "",)
    spoken = (language or "").strip().upper() or (GO if client_version in _GO_STATED else "")
    if spoken == GO:
        return _GO_STATED.get(client_version or "") or _BY_CONNECTION.get((GO, version or 0), _GO_FAMILIES)
    if spoken == CPP:
        by_id = ("C0",) if _OLD_CPP_ID.fullmatch(client_id) else _CPP_FAMILIES
        return _BY_CONNECTION.get((CPP, version or 0), by_id)
    return _java(client_version if version is None else version) if spoken == JAVA else ()


def family_of_release(language: str, release: str) -> str | None:
    """The family of a Go or C++ client's release as its module or package names it (``2.1.2``, ``v2.1.2``).

    A running info states other numbers than its release has: ``families_of`` reads those.
    """
    return _FAMILY_OF_RELEASE.get((language.strip().upper(), release.strip().removeprefix("v")))


def _java(version: str | int | None) -> tuple[str, ...]:
    if version is None:
        return ()
    try:
        return (profile_for(version).id,)
    except UnknownReleaseError:
        return ()
