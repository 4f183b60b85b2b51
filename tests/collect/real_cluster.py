"""RocketMQ itself on loopback, by Maven: name servers, brokers, clients and rocketmq-tools. For soak tests only."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hindsight.udfs.formats.fastjson import parse_fastjson
from hindsight.udfs.remoting.remoting_frames import FrameDecoder, broker_addresses, encode_request

JAVA, NATIVE = (Path(__file__).parent / folder for folder in ("java", "native"))
HINDSIGHT = [sys.executable, "-m", "hindsight.jobs.command_line"]
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>x</groupId>
<artifactId>x</artifactId><version>1</version><packaging>pom</packaging><dependencies>{}</dependencies></project>"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_OPENED = ("nio", "lang", "util")
_OPTIONS = [
    *("-Xmx320m", "-Xms64m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *(word for name in _OPENED for word in ("--add-opens", f"java.base/java.{name}=ALL-UNNAMED")),
    *("--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens", "java.base/jdk.internal.ref=ALL-UNNAMED"),
    *("--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED", "-Djava.net.preferIPv4Stack=true"),
]
_LOGBACK = '<configuration><root level="OFF"/></configuration>'
_STARTS_WITHIN_S = 90


SERVERS_AND_TOOLS, CLIENT = ("broker", "namesrv", "tools"), ("client",)


def class_path(release: str, folder: Path, parts: tuple[str, ...] = SERVERS_AND_TOOLS) -> str:
    """The class path of parts of a release."""
    return resolved([("org.apache.rocketmq", f"rocketmq-{name}", release) for name in parts], folder)


def resolved(artifacts: list[tuple[str, str, str]], folder: Path) -> str:
    """The class path of artifacts (group, name, version), with all that they need."""
    folder.mkdir(parents=True, exist_ok=True)
    told = "".join(_DEPENDENCY.format(*artifact) for artifact in artifacts)
    (folder / "pom.xml").write_text(_POM.format(told))
    out = folder / "class.path"
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
    subprocess.run(["mvn", "-q", "-B", goal, f"-Dmdep.outputFile={out}"], cwd=folder, check=True, timeout=600)
    return out.read_text()


def free_port() -> int:
    """A free port with free neighbours: brokers also listen two below and one above.

    Below the ports that the system gives to outgoing connections, which would take a neighbour now and then.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        try:
            with ExitStack() as probes:
                for each in range(port - 2, port + 2):
                    probes.enter_context(socket.socket()).bind(("", each))
            return port
        except OSError:
            continue


@contextmanager
def cluster(
    release: str,
    folder: Path,
    *,
    brokers: int = 2,
    name_servers: int = 2,
    acl: str = "",
    older: tuple[str, ...] = (),
    more: str = "",
) -> Iterator[str]:
    """A cluster that is up; gives its name servers' addresses, joined by ``;``.

    ``older``: releases of more brokers; ``more``: settings of the brokers, a line each.
    """
    classes = class_path(release, folder / "maven")
    of_brokers = [classes] * brokers + [class_path(one, folder / f"maven-{one}") for one in older]
    home = folder / "home" / "conf"
    home.mkdir(parents=True)
    for name in ("namesrv", "broker"):
        (home / f"logback_{name}.xml").write_text(_LOGBACK)
    (home / "plain_acl.yml").write_text(acl)
    with ExitStack() as stack:
        ports = [free_port() for _ in range(name_servers)]
        for port in ports:
            settings = f"listenPort={port}\nbindAddress=127.0.0.1\n"
            stack.enter_context(_server(classes, "namesrv.NamesrvStartup", settings, folder / f"ns{port}", port))
        addresses = ";".join(f"127.0.0.1:{port}" for port in ports)
        for number, own_classes in enumerate(of_brokers):
            name, port = f"broker-{'abcd'[number]}", free_port()
            store = folder / name / "store"
            settings = (
                f"brokerClusterName=Real\nbrokerName={name}\nbrokerId=0\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n"
                f"namesrvAddr={addresses}\nlistenPort={port}\nstorePathRootDir={store}\n"
                f"storePathCommitLog={store}/commitlog\nmapedFileSizeCommitLog=33554432\nmappedFileSizeTimerLog=4194304\n"
                "maxIndexNum=200000\nmaxHashSlotNum=50000\ndefaultTopicQueueNums=4\ndiskMaxUsedSpaceRatio=98\n"
                f"flushDiskType=ASYNC_FLUSH\naclEnable={'true' if acl else 'false'}\n{more}"
            )
            store.mkdir(parents=True)
            stack.enter_context(_server(own_classes, "broker.BrokerStartup", settings, folder / name, port))
        for port in ports:
            _await_registered(port, len(of_brokers))
        yield addresses


@contextmanager
def replica(folder: Path, name_servers: str, of: str) -> Iterator[int]:
    """A replica of a broker of a cluster that is up; gives its process id."""
    place, port = folder / f"replica-of-{of}", free_port()
    own = {"brokerId": 1, "brokerRole": "SLAVE", "listenPort": port}
    own |= {"storePathRootDir": place / "store", "storePathCommitLog": place / "store" / "commitlog"}
    lines = (folder / of / "settings").read_text().splitlines()
    kept = [line for line in lines if line.partition("=")[0] not in own]
    (place / "store").mkdir(parents=True)
    settings = "\n".join([*kept, *(f"{name}={value}" for name, value in own.items())])
    with _server((folder / "maven" / "class.path").read_text(), "broker.BrokerStartup", settings, place, port):
        yield int((place / "pid").read_text())


def looker(
    release: str, folder: Path, name_servers: str, more_groups: int = 0
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Clients that produce and consume, and rocketmq-tools, all of one release; see ``Look.java``."""
    return java_program("Look", release, folder, name_servers, more_groups)


def offset_story(release: str, folder: Path, name_servers: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Groups whose offsets are moved by what is written to its stdin; see ``Offsets.java``."""
    return java_program("Offsets", release, folder, name_servers)


def popping(release: str, folder: Path, name_servers: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Members of a group that let brokers assign, and a producer, of a release; see ``Pops.java``."""
    return java_program("Pops", release, folder, name_servers)


@contextmanager
def java_program(
    name: str,
    release: str,
    folder: Path,
    *arguments: object,
    jar: Path | None = None,
    parts: tuple[str, ...] = SERVERS_AND_TOOLS,
    options: tuple[str, ...] = (),
    within: tuple[str, ...] = (),
    log: str = "",
) -> Iterator[subprocess.Popen[str]]:
    """A program of ``java/`` with parts of a release, talked to by stdin and stdout, from when it says it is ready.

    ``jar``: that of the recorders, if it has one; ``within``: a command that starts it; ``log``: its name, if not the
    program's.
    """
    classes = class_path(release, folder / ("maven" if parts == SERVERS_AND_TOOLS else f"maven-{release}"), parts)
    own = [f"-Duser.home={folder}", *options, "-cp", f"{jar}:{classes}" if jar else classes]
    command = [*within, "java", *_OPTIONS, *own, str(JAVA / f"{name}.java"), *map(str, arguments)]
    with (
        (folder / f"{log or name.lower()}.log").open("w") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            told(process, "ready")
            yield process
        finally:
            process.kill()


def sender(
    release: str, folder: Path, name_servers: str, landing: Path, jar: Path, *options: str, within: tuple[str, ...] = ()
) -> AbstractContextManager[subprocess.Popen[str]]:
    """A producer of a release, whose group is named after it, with the send recorder; see ``Sends.java``.

    ``within``: a command that starts it.
    """
    given = name_servers, landing, folder / "truth", f"pg_{release}".replace(".", "_")
    return java_program("Sends", release, folder, *given, jar=jar, parts=CLIENT, options=options, within=within)


@contextmanager
def native_program(name: str, folder: Path, *arguments: object, log: str = "") -> Iterator[subprocess.Popen[str]]:
    """A program of ``native/`` with RocketMQ's C++ library, talked to as those of ``java/``; ``log``: its name."""
    python = Path(__file__).parent.parent.parent / ".venv-stores" / "bin" / "python"
    assert python.exists(), f"there is no {python}; `make soak` makes that environment."
    environment = {**os.environ, "HOME": str(folder)}  # it writes its log there
    command = [str(python), str(NATIVE / f"{name}.py"), *map(str, arguments)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with (
        (folder / f"native-{log or name}.log").open("w") as errors,
        subprocess.Popen(command, stderr=errors, **pipes) as process,
    ):
        try:
            told(process, "ready")
            yield process
        finally:
            process.kill()


def create_topic(
    release: str, folder: Path, name_servers: str, topic: str, *, queues: int = 4, broker: str | None = None
) -> None:
    """A topic with so many queues at each broker, or at one alone, by mqadmin."""
    where = ["-c", "Real"]
    if broker:
        settings = (folder / broker / "settings").read_text().splitlines()
        port = next(line.removeprefix("listenPort=") for line in settings if line.startswith("listenPort="))
        where = ["-b", f"127.0.0.1:{port}"]
    given = [*where, "-t", topic, "-r", str(queues), "-w", str(queues)]
    mqadmin(release, folder, name_servers, "updateTopic", *given)


def mqadmin(release: str, folder: Path, name_servers: str, *words: str) -> None:
    """One of its commands."""
    main = ["-cp", class_path(release, folder / "maven"), "org.apache.rocketmq.tools.command.MQAdminStartup"]
    command = ["java", *_OPTIONS, f"-Drocketmq.home.dir={folder / 'home'}", *main, *words, "-n", name_servers]
    subprocess.run(command, check=True, timeout=120, capture_output=True)


def hindsight(*words: str) -> str:
    """What a command of hindsight prints that ends well."""
    done = subprocess.run([*HINDSIGHT, *words], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kill_broker(folder: Path, name: str) -> None:
    """End a broker of a cluster at once."""
    os.kill(int((folder / name / "pid").read_text()), signal.SIGKILL)


def told(process: subprocess.Popen[str], word: str) -> None:
    """Read what the clients print up to a line."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == word:
            return
    raise RuntimeError("the clients ended; their log (look.log, offsets.log, ...) says why")


@contextmanager
def _server(classes: str, main: str, settings: str, folder: Path, port: int) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    (folder / "settings").write_text(settings)
    home = [f"-Drocketmq.home.dir={folder.parent / 'home'}", f"-Duser.home={folder}"]
    command = ["java", *_OPTIONS, *home, "-cp", classes, f"org.apache.rocketmq.{main}", "-c", str(folder / "settings")]
    with (
        (folder / "out.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "NAMESRV_ADDR": ""}) as process,
    ):
        try:
            (folder / "pid").write_text(str(process.pid))
            _await_listening(process, port)
            yield
        finally:
            process.kill()


def _await_registered(port: int, brokers: int) -> None:
    """Wait until a name server knows so many brokers: clients and tools look at them once, when they start."""
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < deadline:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(encode_request(106, 1, {}))
            decoder, frames = FrameDecoder(), []
            while not frames:
                frames = list(decoder.feed(connection.recv(65536)))
        if len(broker_addresses(parse_fastjson(frames[0].body.decode()))) == brokers:
            return
        time.sleep(0.5)
    raise RuntimeError(f"not all of {brokers} brokers registered at {port}")


def _await_listening(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError(f"no server listens at {port}; its out.log says why")
