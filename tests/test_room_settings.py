"""Rooms of MACHINE_ROOM_NEARBY in the settings: both kinds or none, each with a name, in the order that counts."""

from __future__ import annotations

import json

import pytest

from hindsight.conf.settings_file import SettingsError, load_settings

ENTRY = '[[drift.strategy]]\nname = "MACHINE_ROOM_NEARBY-AVG"\n'
BROKERS, CLIENTS = 'broker_rooms = { "b-*" = "r1", "*" = "r2" }\n', 'client_rooms = { "*" = "r1" }\n'


def loaded(tmp_path, text):
    path = tmp_path / "settings.toml"
    path.write_text(ENTRY + text)
    return load_settings(path).drift.strategy[0]


def test_rooms_are_told_in_their_order(tmp_path):
    told = json.loads(loaded(tmp_path, BROKERS + CLIENTS).parameters)
    assert told == {"broker_rooms": [["b-*", "r1"], ["*", "r2"]], "client_rooms": [["*", "r1"]]}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BROKERS, "belong together"),
        (CLIENTS, "belong together"),
        (BROKERS + 'client_rooms = { "*" = "" }\n', "a room has no name"),
    ],
)
def test_half_of_the_rooms_is_refused(tmp_path, text, why):
    with pytest.raises(SettingsError, match=why):
        loaded(tmp_path, text)
