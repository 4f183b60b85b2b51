"""How the lists beside this were taken: ``python take.py FOLDER_OF_JARS``, with rocketmq-client and -broker jars in it.

Reads the string constants of the classes that the readers of logs name as their sources. Not run by any test.
"""

import json
import re
import struct
import sys
import zipfile
from collections import defaultdict
from pathlib import Path

_RELEASES = (
    "4.0.0 4.1.0 4.2.0 4.3.0 4.3.1 4.3.2 4.4.0 4.5.0 4.5.1 4.5.2 4.6.0 4.6.1 4.7.0 4.7.1 4.8.0 4.9.0 4.9.1 4.9.2 4.9.3 "
    "4.9.4 4.9.5 4.9.6 4.9.7 4.9.8 5.0.0-PREVIEW 5.0.0-ALPHA 5.0.0 5.1.0 5.1.1 5.1.2 5.1.3 5.1.4 5.2.0 5.3.0 5.3.1 "
    "5.3.2 5.3.3 5.4.0 5.5.0"
)
RELEASES = _RELEASES.split()
CLASSES = {
    "client": "RebalanceImpl RebalancePushImpl AbstractAllocateMessageQueueStrategy ClientRemotingProcessor "
    "AllocateMessageQueueAveragely AllocateMessageQueueAveragelyByCircle AllocateMessageQueueConsistentHash "
    "AllocateMachineRoomNearby MQClientInstance DefaultMQProducerImpl MQClientAPIImpl MQFaultStrategy "
    "LatencyFaultToleranceImpl DefaultMQPushConsumerImpl DefaultLitePullConsumerImpl ConsumeMessageConcurrentlyService "
    "ConsumeMessageOrderlyService ConsumeMessagePopConcurrentlyService ConsumeMessagePopOrderlyService "
    "PullMessageService ProcessQueue DefaultMQPullConsumerImpl RemoteBrokerOffsetStore PullAPIWrapper",
    "broker": "ConsumerManager ConsumerGroupInfo ProducerManager QueryAssignmentProcessor RebalanceLockManager",
}
WIDTH = {7: 2, 8: 2, 16: 2, 19: 2, 20: 2, 15: 3, 3: 4, 4: 4, 9: 4, 10: 4, 11: 4, 12: 4, 17: 4, 18: 4, 5: 8, 6: 8}


def constants(code: bytes) -> list[str]:
    """The string constants of a class file."""
    count, at, number = struct.unpack_from(">H", code, 8)[0], 10, 1
    texts, strings = {}, []
    while number < count:
        tag = code[at]
        if tag == 1:
            size = struct.unpack_from(">H", code, at + 1)[0]
            texts[number] = code[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            if tag == 8:
                strings.append(struct.unpack_from(">H", code, at + 1)[0])
            at += 1 + WIDTH[tag]
        number += 2 if tag in (5, 6) else 1
    return [texts[number] for number in strings]


def layouts(jars: Path) -> None:
    """The layout of each log that a program's own configuration names (``rmq.*.logback.xml`` and those of clients)."""
    found = defaultdict(set)
    for path in jars.glob("rocketmq-*.jar"):
        artifact, _, release = path.stem.removeprefix("rocketmq-").partition("-")
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                text = jar.read(name).decode() if re.fullmatch(r"[\w.]*log(?:back|4j2?)[\w.]*\.xml", name) else ""
                for part in re.findall(r"<appender .*?</appender>|<RollingFile .*?</RollingFile>", text, re.DOTALL):
                    log = re.search(r"([\w-]+\.log)\b", part.replace("-%d", ".%d").replace("%i.log", ""))
                    pattern = re.search(r'<pattern>(.*?)</pattern>|attern"?(?: value)?="(.*?)"', part, re.DOTALL)
                    if log and pattern:
                        found[artifact, log[1], (pattern[1] or pattern[2]).strip()].add(
                            release.removesuffix("-incubating")
                        )
    with Path(__file__).with_name("layouts.jsonl").open("w") as out:
        for (artifact, log, pattern), held in sorted(found.items()):
            line = {
                "artifact": artifact,
                "log": log,
                "pattern": pattern,
                "releases": " ".join(r for r in RELEASES if r in held),
            }
            out.write(json.dumps(line) + "\n")


def main(jars: Path) -> None:
    layouts(jars)
    for artifact, names in CLASSES.items():
        classes = names.split()
        found = defaultdict(set)
        for path in jars.glob(f"rocketmq-{artifact}-*.jar"):
            release = path.stem.removeprefix(f"rocketmq-{artifact}-").removesuffix("-incubating")
            with zipfile.ZipFile(path) as jar:
                for name in jar.namelist():
                    of = name.rpartition("/")[2].removesuffix(".class").partition("$")[0]
                    for text in constants(jar.read(name)) if name.endswith(".class") and of in classes else ():
                        if len(text) >= 8 and " " in text:
                            found[of, text].add(release)
        with Path(__file__).with_name(f"{artifact}.jsonl").open("w") as out:
            for (of, text), held in sorted(found.items()):
                line = {"class": of, "text": text, "releases": " ".join(r for r in RELEASES if r in held)}
                out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
