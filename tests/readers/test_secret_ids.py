"""Client ids that carry an access key and a secret key: masked in whatever stands around them, and nothing else is."""

from __future__ import annotations

import json

import pytest

from hindsight.jobs.collect.landing_writer import LandingWriter
from hindsight.udfs.landing.parsers import PARSERS
from hindsight.udfs.limits.door import judged, severities
from hindsight.udfs.lines.bounded_lines import Line, Refusal
from hindsight.udfs.logs.log_wrappers import masked
from hindsight.udfs.logs.secret_ids import without_secrets

ACCESS, SECRET = "AKrocketmq", "s3cr3t/KEY+=="
SPRING_ID = f"10.0.0.1@{ACCESS}|{SECRET}|my-group|77"
MASKED_ID = "10.0.0.1@***|***|my-group|77"


@pytest.mark.parametrize(
    ("text", "masked_text"),
    [
        (SPRING_ID, MASKED_ID),
        (f"{SPRING_ID}@unit", f"{MASKED_ID}@unit"),
        (f"g|{SPRING_ID}", f"g|{MASKED_ID}"),
        (f"[{SPRING_ID}, fe80::1@{ACCESS}|{SECRET}|a|b|7]", f"[{MASKED_ID}, fe80::1@***|***|a|b|7]"),
        (
            json.dumps({"raw": json.dumps({"clientId": SPRING_ID})}),
            json.dumps({"raw": json.dumps({"clientId": MASKED_ID})}),
        ),
    ],
)
def test_both_keys_are_masked_wherever_the_id_stands(text, masked_text):
    assert without_secrets(text) == masked_text


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1@77#12345",
        "g|10.0.0.1@77",
        "g|10.0.0.1@ns:9876;other:9876@77",
        "a@b|c",
        "a@b|c|d|e",
        'x@y" | "a|b|7',
        "| a@b | c | d | 7 |",
        "no pipe 10.0.0.1@DEFAULT",
    ],
)
def test_other_texts_stay_as_they_are(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize("cut", range(len(f"10.0.0.1@{ACCESS}|s"), len(SPRING_ID)))
def test_a_line_that_is_cut_within_an_id_shows_no_piece_of_the_secret(cut):
    line = Line(1, 0, 0, SPRING_ID[:cut], Refusal("LINE_TOO_LONG", ""))
    (one,) = masked([line])
    assert "s3" not in one.text and ACCESS not in one.text
    (whole,) = masked([line._replace(refusal=None, text="a@b|c")])
    assert whole.text == "a@b|c"


def test_a_row_of_such_an_id_is_stored_with_a_doubt():
    raw = {"clientID": SPRING_ID, "consumerDataSet": [], "producerDataSet": [{"groupName": "p"}]}
    beat = json.dumps({"ts": 1795570271758, "broker": "a", "raw": json.dumps(raw)})
    found = PARSERS["heartbeat"](masked([Line(1, 0, 0, beat, None)]), None)
    (one,) = judged(found, severities({}), ("client_heartbeat",))
    assert [(r.row["client_id"], r.row["doubts"]) for r in one.records] == [(MASKED_ID, ["SECRET_IN_ID"])]


@pytest.mark.parametrize(
    "subject", ["g|c1", "a|b|10.0.0.1@7", "a|b|10.0.0.1@x|y|8", "g|10.0.0.1@7@u", f"g|{MASKED_ID}"]
)
def test_a_running_info_is_of_the_whole_id_behind_the_group(subject):
    line = {"ts": 1795570271758, "kind": "consumerRunningInfo", "subject": subject, "error": "CODE: 1"}
    (one,) = PARSERS["admin_snapshots"]([Line(1, 0, 0, json.dumps(line), None)], None)
    group, _, host = subject.partition("@")[0].rpartition("|")
    row = one.records[0].row
    assert (row["consumer_group"], row["client_id"]) == (group, subject.removeprefix(f"{group}|"))
    assert host in row["client_id"]


def test_the_collector_writes_no_keys(tmp_path):
    writer = LandingWriter(tmp_path, "c")
    writer.start()
    writer.write(json.dumps({"subject": f"g|{SPRING_ID}"}).encode())
    writer.flush()
    writer.close()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert MASKED_ID.encode() in written and SECRET.encode() not in written


def docker(text, *, ends, stream="stdout"):
    return json.dumps({"log": text + ("\n" if ends else ""), "stream": stream, "time": "2026-01-05T10:00:00Z"})


def kubernetes(text, *, ends, stream="stdout"):
    return f"2026-01-05T10:00:00.123456789Z {stream} {'F' if ends else 'P'} {text}"


def numbered(texts):
    return [Line(n + 1, 0, len(text.encode()), text, None) for n, text in enumerate(texts)]


@pytest.mark.parametrize("entry", [docker, kubernetes])
@pytest.mark.parametrize("between", [[], ["own line"], ["stderr"]])
@pytest.mark.parametrize("cut", range(len("10.0.0.1@") - 2, len(SPRING_ID)))
def test_an_id_that_lies_in_two_entries_is_masked_in_both(entry, between, cut):
    text, place = f"clientId={SPRING_ID}, mqAllSize=2", len("clientId=") + cut
    others = [entry("other stream", ends=True, stream="stderr") if b == "stderr" else b for b in between]
    texts = [entry(text[:place], ends=False), *others, entry(text[place:], ends=True), "the line behind"]
    found = [line.text for line in masked(numbered(texts))]
    assert found[1:-2] == others and found[-1] == texts[-1]
    parts = [json.loads(t)["log"] if entry is docker else t.partition(" stdout ")[2][2:] for t in (found[0], found[-2])]
    assert "".join(parts).rstrip("\n") == f"clientId={MASKED_ID}, mqAllSize=2"


def test_half_an_id_whose_other_half_never_comes_is_masked():
    half = docker(f"clientId=10.0.0.1@{ACCESS}|s3c", ends=False)
    for rest in ([], [docker("x\n", ends=True, stream="stderr")] * 99):
        found = [line.text for line in masked(numbered([half, *rest]))]
        assert len(found) == 1 + len(rest) and ACCESS not in found[0] and "s3c" not in found[0]


@pytest.mark.parametrize("ids", [("10.0.0.1@77", "10.0.0.2@78"), ("a@b", "c|d|e|7")])
def test_ids_without_keys_stay_where_two_entries_meet(ids):
    texts = [docker(f"x {ids[0]}", ends=False), docker(f" {ids[1]}", ends=True)]
    assert [line.text for line in masked(numbered(texts))] == texts


def test_a_long_line_of_docker_is_stored_with_the_masked_id():
    """Masking makes an entry shorter than docker cuts; the two are still one line."""
    limit = 16 * 1024
    head = (
        f"2026-01-05 10:00:00,123 [{SPRING_ID}] INFO RocketmqClient - rebalanced result changed. "
        "allocateMessageQueueStrategyName=AVG, group=g, topic="
    )
    topic = "T" * (limit - len(head) - len(", clientId=") - 15)
    long = (
        f"{head}{topic}, clientId={SPRING_ID}, mqAllSize=2, cidAllSize=2, rebalanceResultSize=0, rebalanceResultSet=[]"
    )
    for whole in (long, long.replace("rebalanceResultSize=0", "rebalanceResultSize=9")):
        texts = [docker(whole[:limit], ends=False), docker(whole[limit:], ends=True)]
        found = list(PARSERS["client_log"](masked(numbered(texts)), None))
        stored = " ".join(map(repr, found))
        assert not any(secret in stored for secret in (ACCESS, SECRET, SECRET[:5], SECRET[5:]))
        rows = [record.row for one in found for record in one.records]
        assert [row["client_id"] for row in rows] == ([MASKED_ID] if whole is long else [])
        assert (found[-1].refusal is None) == (whole is long)
