"""Rollouts, ladders and what-ifs asked by the Model Context Protocol: as the commands answer, and nothing stays."""

from __future__ import annotations

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")

from tests.pipeline.test_mcp_server import asked


def test_a_rollout_and_a_what_if_are_answered_and_leave_nothing_behind(of_groups):
    before = sorted(of_groups.rglob("*"))
    suppose = 'group = {consumer_group = "g_avg", strategy = "AVG_BY_CIRCLE"}'
    _, rollout, nobody, supposed, wrong, no_sends, no_day = asked(
        of_groups.parent,
        ("upgrade", {"group": "g_avg", "strategy": "AVG_BY_CIRCLE"}),
        ("upgrade", {"group": "nobody"}),
        ("what_if", {"premises": suppose, "most": 3}),
        ("what_if", {"premises": "group = {x = 1}"}),
        ("ladder", {}),
        ("ladder", {"first": "yesterday"}),
        options=("--seconds", "100"),
    )
    assert rollout["rows"][0]["consumer_group"] == "g_avg" and rollout["rows_are_from"] == "group_round"
    assert [row["which"] for row in rollout["rows"] if row["part"] == "order"] == ["given", "best", "worst"]
    assert "no round of a group" in nobody
    assert {row["effect"] for row in supposed["rows"]} == {"shares"} and supposed["cut"] == {"rows": "the first 3"}
    assert supposed["rows"][0]["would_strategy"] == "AVG_BY_CIRCLE" and supposed["premises"] == suppose
    assert all(answer.startswith("error: ") for answer in (nobody, wrong, no_sends, no_day))
    assert "premises" in wrong
    assert sorted(of_groups.rglob("*")) == before
