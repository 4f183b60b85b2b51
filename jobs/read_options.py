"""The settings in, what the reader of landing files goes by out. Apart from it: workers need not load the settings."""

from __future__ import annotations

from conf.settings import Settings
from conf.settings_file import SettingsError
from jobs.landing_lines import ReadOptions
from udfs.door import severities


def read_options(landing: str, settings: Settings) -> ReadOptions:
    """What the settings say of reading.

    Raises: SettingsError: no such rule, or no such severity.
    """
    try:
        of_rules = severities(settings.ingest.rules)
    except ValueError as error:
        raise SettingsError(f"ingest.rules: {error}") from error
    return ReadOptions(
        landing,
        settings.ingest.max_line_bytes,
        settings.ingest.max_raw_text_chars,
        dict(settings.ingest.client_log_zones),
        settings.ingest.client_log_zone,
        of_rules,
    )
