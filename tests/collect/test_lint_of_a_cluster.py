"""Each wrong setting that ``hindsight lint`` knows, made once on a real cluster; and the same cluster without any."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from hindsight.jobs.asking.config_lint import RULES
from tests.collect.real_cluster import CLIENT, cluster, create_topic, hindsight, java_program, mqadmin
from tests.collect.test_send_recorder import build

pytestmark = pytest.mark.soak

RELEASE = "5.3.3"
RIGHT = (
    "consumer;g_right;Plain;*;AVG;right-1",
    "consumer;g_right;Plain;*;AVG;right-2",
    "producer;p_right;Plain;3000;on;10",
)
# By release, a client of each fault; a group's second process stands in OTHERS.
WRONG = {
    RELEASE: (
        *(f"consumer;g_{name};Plain;*;AVG;{name}" for name in ("off", "no_queue", "no_retries", "quiet", "differ")),
        *(f"consumer;g_many;Few;*;AVG;many-{number}" for number in range(3)),
        "consumer;g_tags;Plain;a;AVG;tags-1",
        "consumer;g_mixed;Plain;*;AVG;mixed-1",
        "consumer;g_twice;Plain;*;AVG;twice",
        "producer;p_short;Plain;500;on;10",
        "producer;p_big;Plain;0;off;3900000",
    ),
    "5.1.4": ("producer;p_514;Plain;3000;on;10",),
    "4.8.0": ("producer;p_480;Plain;3000;off;10", "consumer;g_old;Plain;*;AVG;"),
    "4.7.1": ("producer;p_471;Plain;3000;on;10",),
}
OTHERS = (
    "consumer;g_tags;Plain;b;AVG;tags-2",
    "consumer;g_mixed;Plain;*;CIRCLE;mixed-2",
    "consumer;g_twice;Plain;*;AVG;twice",
)
GROUPS = {
    "g_off": ("-s", "false"),
    "g_no_queue": ("-q", "0"),
    "g_no_retries": ("-r", "0"),
    "g_quiet": ("-a", "false"),
}
FOUND = {
    ("CONSUME_OFF", "g_off"),
    ("NO_RETRY_QUEUE", "g_no_queue"),
    ("NO_RETRIES", "g_no_retries"),
    ("NOTIFY_OFF", "g_quiet"),
    ("BROKERS_DIFFER", "g_differ"),
    ("FEWER_QUEUES_THAN_MEMBERS", "g_many"),
    ("MORE_WRITE_THAN_READ_QUEUES", "Narrow"),
    ("QUEUES_ON_ONE_BROKER", "Lonely"),
    ("CLIENT_ID_TWICE", "g_twice"),
    ("SUBSCRIPTIONS_DIFFER", "g_tags"),
    ("STRATEGIES_DIFFER", "g_mixed"),
    ("TIMEOUT_UNDER_THE_LADDER", "p_short"),
    ("RETRIES_DO_NOT_FIT", "p_big"),
    ("FAULT_SWITCH_WITHOUT_DETECTOR", "p_514"),
    ("RETRIES_GO_BACK", "p_471"),
    ("COUNTER_STICKS", "p_480"),
    ("IDS_BY_PID", "g_old"),
}


@pytest.fixture(scope="module")
def jar(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("recorder") / "java", "4.7.1")


class Place:
    """A running cluster and a lake of what it showed."""

    def __init__(self, folder: Path, of: str, name_servers: str, jar: Path, stack: ExitStack) -> None:
        self.of, self.landing, self.lake = of, folder / of / "landing", folder / of / "lake"
        self._folder, self._name_servers, self._jar, self._stack = folder, name_servers, jar, stack

    def start(self, *specs: str, release: str = RELEASE) -> None:
        """A process of clients."""
        given = self._name_servers, self.landing / "producer_hook" / "cluster=real", *specs
        how = {"jar": self._jar, "parts": CLIENT, "log": f"{self.of}-{specs[0].split(';')[1]}"}
        self._stack.enter_context(java_program("Configured", release, self._folder, *given, **how))

    def linted(self) -> set[tuple[str, str]]:
        """Codes and subjects that a lake of two minutes of records gives."""
        places = ["--landing", str(self.landing)]
        asked = ["--name-server", self._name_servers, "--every", "3", "--rounds", "40"]
        hindsight("collect", "--cluster", "real", *places, *asked)
        hindsight("run-pipeline", *places, "--lake", str(self.lake))
        told = hindsight("lint", "--lake", str(self.lake), "--json")
        return {(row["code"], row["subject"]) for row in map(json.loads, told.splitlines())}


def seed(folder: Path, name_servers: str) -> None:
    """Set topics and groups wrongly."""
    first = (folder / "broker-a" / "settings").read_text().partition("listenPort=")[2].split()[0]
    for group, setting in GROUPS.items():
        mqadmin(RELEASE, folder, name_servers, "updateSubGroup", "-c", "Real", "-g", group, *setting)
    mqadmin(RELEASE, folder, name_servers, "updateSubGroup", "-c", "Real", "-g", "g_differ")
    mqadmin(RELEASE, folder, name_servers, "updateSubGroup", "-b", f"127.0.0.1:{first}", "-g", "g_differ", "-r", "3")
    mqadmin(RELEASE, folder, name_servers, "updateTopic", "-c", "Real", "-t", "Few", "-r", "1", "-w", "1")
    mqadmin(RELEASE, folder, name_servers, "updateTopic", "-c", "Real", "-t", "Narrow", "-r", "2", "-w", "4")
    mqadmin(
        RELEASE, folder, name_servers, "updateTopic", "-b", f"127.0.0.1:{first}", "-t", "Lonely", "-r", "4", "-w", "4"
    )


def test_each_fault_is_found_and_nothing_else(tmp_path, jar):
    assert {code for code, _ in FOUND} == {rule.code for rule in RULES}
    with cluster(RELEASE, tmp_path, name_servers=1) as name_servers, ExitStack() as stack:
        create_topic(RELEASE, tmp_path, name_servers, "Plain")
        right = Place(tmp_path, "right", name_servers, jar, stack)
        right.start(*RIGHT)
        assert right.linted() == set()
        seed(tmp_path, name_servers)
        wrong = Place(tmp_path, "wrong", name_servers, jar, stack)
        for release, specs in WRONG.items():
            wrong.start(*specs, release=release)
        wrong.start(*OTHERS)
        assert wrong.linted() == FOUND
