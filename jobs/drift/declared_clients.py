"""The settings in, what they say of single members of consumer groups out, checked."""

from __future__ import annotations

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import SettingsError
from hindsight.udfs.strategies.member_families import Declaration, check_family


def declared_clients(settings: Settings) -> tuple[Declaration, ...]:
    """The entries of ``[[drift.client_family]]``.

    Raises: SettingsError: there is no such family.
    """
    entries = tuple(Declaration(**entry.model_dump()) for entry in settings.drift.client_family)
    for number, entry in enumerate(entries):
        try:
            if entry.family is not None:
                check_family(entry.family)
        except ValueError as error:
            raise SettingsError(f"drift.client_family.{number}: {error}") from error
    return entries
