"""hindsight what-if, as a person or a job calls it: made, listed, asked in SQL, dropped, refused."""

from __future__ import annotations

import json

import pytest

from tests.commands import command

CIRCLE = 'group = {consumer_group = "g_avg", strategy = "AVG_BY_CIRCLE"}'


def run(*words, code=0):
    done = command(*words)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_what_if_from_its_premise_to_its_end(sampled, tmp_path):
    premises = tmp_path / "premises.toml"
    premises.write_text('[[group]]\nconsumer_group = "g_avg"\nstrategy = "AVG_BY_CIRCLE"\n')
    told = run("what-if", "circle", "--lake", sampled, "--premises", premises)
    assert "Not known: g_avg, %RETRY%g_avg, 34 rounds: topic_route of %RETRY%g_avg: not_collected" in told
    assert "|4 to 4     |4 to 4    |" in told and "Nothing differs." in told
    found = [
        json.loads(line)
        for line in run("what-if", "circle", "--lake", sampled, "--suppose", CIRCLE, "--json").splitlines()
    ]
    assert {row["effect"] for row in found} == {"shares", "findings"}
    assert {row["consumer_group"] for row in found if row["effect"] == "shares"} == {"g_avg"}
    every = [json.loads(line) for line in run("what-if", "--lake", sampled, "--json").splitlines()]
    (listed,) = [one for one in every if one["name"] == "circle"]
    assert listed["premises"]["group"][0]["strategy"] == "AVG_BY_CIRCLE"
    assert "circle  made " in run("what-if", "--lake", sampled)
    asked = (
        "SELECT p.strategy, w.strategy AS would, COUNT(*) AS rounds "
        "FROM group_round AS p JOIN what_if_circle_group_round AS w "
        "USING (cluster, event_date, collector, consumer_group, topic, round_at) WHERE topic = 'OracleOrders' AND "
        "consumer_group = 'g_avg' GROUP BY ALL"
    )
    answer = json.loads(run("sql", "--lake", sampled, "--json", asked))
    assert answer == {"strategy": "AVG", "would": "AVG_BY_CIRCLE", "rounds": 34}
    views = json.loads(
        run(
            "sql",
            "--lake",
            sampled / "what_if" / "circle",
            "--json",
            "SELECT COUNT(*) AS n FROM expected_queue",
        )
    )
    assert views["n"] > 1000
    run("what-if", "circle", "--lake", sampled, "--drop")
    assert "circle  made " not in run("what-if", "--lake", sampled)


def test_where_nothing_is_supposed_nothing_differs(sampled):
    assert run("what-if", "same", "--lake", sampled).count("Nothing differs.") == 4
    assert run("what-if", "same", "--lake", sampled, "--json") == ""
    run("what-if", "same", "--lake", sampled, "--drop")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("Circle", "--suppose", CIRCLE), "cannot name a what-if"),
        (("circle", "--suppose", ""), "nothing is supposed"),
        (("--suppose", CIRCLE), "needs a name"),
        (("circle", "--drop"), "there is no what-if 'circle'"),
        (("circle", "--drop", "--suppose", CIRCLE), "takes no premises"),
        (("circle", "--premises", "/no/such.toml"), "cannot be read"),
        (("circle", "--suppose", "group = {strategy = 'NOPE'}"), "AVG_BY_CIRCLE"),
        (("circle", "--suppose", CIRCLE, "--from", "2020-01-01", "--to", "2020-01-02"), "nothing is recorded"),
    ],
)
def test_what_cannot_be_done_is_refused(sampled, words, said):
    assert said in run("what-if", *words, "--lake", sampled, code=64)
