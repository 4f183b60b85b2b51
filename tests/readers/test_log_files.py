"""Logs as files of a landing folder: packed, in another encoding, and as the settings declare them."""

from __future__ import annotations

import gzip
import io
import zipfile
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from hindsight.conf.settings_file import SettingsError, load_settings
from hindsight.jobs.landing.landing_lines import parse_file, read_options
from hindsight.jobs.landing.landing_survey import survey

TEXT = (
    "10:00:26.213 [消费者] INFO  c.E - doRebalance, g, add a new mq, MessageQueue [topic=T, brokerName=b, queueId=3]\n"
)
DECLARED = """
[[ingest.client_log_layout]]
cluster = "prod-*"
file = "sys-info.*"
pattern = "%d{HH:mm:ss.SSS} [%t] %-5p %c - %m%n"
zone = "Asia/Shanghai"
encoding = "gbk"
date_from_file_name = true
"""


def zipped(name, data):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name, data)
    return target.getvalue()


def settings_of(text, folder):
    own = folder / "own.toml"
    own.write_text(text, encoding="utf-8")
    return load_settings(own)


@pytest.mark.parametrize("packed", ["", ".gz", ".zip"])
def test_a_log_is_read_as_the_settings_declare_it(packed, tmp_path):
    folder = tmp_path / "landing/client_log/cluster=prod-a/app"
    folder.mkdir(parents=True)
    raw = TEXT.encode("gbk")
    name = "sys-info.2026-11-20.log"
    data = {"": raw, ".gz": gzip.compress(raw), ".zip": zipped(name, raw)}[packed]
    (folder / f"{name}{packed}").write_bytes(data)
    landing = str(tmp_path / "landing")
    (file,) = survey(landing, ["client_log"]).files
    (one,) = parse_file(file, read_options(landing, settings_of(DECLARED, tmp_path)))
    row = one.records[0].row
    at = datetime(2026, 11, 20, 10, 0, 26, 213000, ZoneInfo("Asia/Shanghai"))
    assert (row["logged_at"], row["thread"]) == (at.timestamp() * 1000, "消费者")
    (refused,) = parse_file(file, read_options(landing, load_settings()))
    assert refused.refusal.code == "UNKNOWN_LOG_LAYOUT"  # its encoding is guessed, its date cannot be


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('pattern = "%d %p"', "client_log_layout.0: the pattern needs one %m"),
        ('encoding = "utf-7"', "client_log_layout.0: 'utf-7' is no encoding"),
        ('zone = "Mars"', "no such time zone"),
        ("date_from_name = true", "did you mean 'date_from_file_name'"),
    ],
)
def test_a_layout_by_which_no_log_could_be_read_is_a_mistake_of_the_settings(text, why, tmp_path):
    with pytest.raises(SettingsError, match=why):
        read_options("landing", settings_of(f"[[ingest.client_log_layout]]\n{text}", tmp_path))


def test_a_text_file_that_is_called_zip_is_refused(tmp_path):
    folder = tmp_path / "client_log/cluster=c"
    folder.mkdir(parents=True)
    (folder / "rocketmq_client.log.zip").write_text(TEXT)
    (file,) = survey(str(tmp_path), ["client_log"]).files
    (one,) = parse_file(file, read_options(str(tmp_path), load_settings()))
    assert one.refusal.code == "NOT_ZIP"
