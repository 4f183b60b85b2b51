"""The settings in, what the reader of landing files goes by out. Apart from it: workers need not load the settings."""

from __future__ import annotations

from hindsight.conf.settings import Settings
from hindsight.conf.settings_file import SettingsError
from hindsight.jobs.landing.landing_lines import ReadOptions
from hindsight.udfs.limits.door import severities
from hindsight.udfs.lines.parsed_line import ClientLogLayout, TextEncoding
from hindsight.udfs.logs.log_layouts import check_encoding, check_layout


def read_options(landing: str, settings: Settings) -> ReadOptions:
    """What the settings say of reading.

    Raises: SettingsError: no such rule, or no such severity; a layout by which no log could be read.
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
        _layouts(settings),
        _encodings(settings),
    )


def _layouts(settings: Settings) -> tuple[ClientLogLayout, ...]:
    layouts = tuple(ClientLogLayout(**given.model_dump()) for given in settings.ingest.client_log_layout)
    for number, layout in enumerate(layouts):
        try:
            check_layout(layout)
        except ValueError as error:
            raise SettingsError(f"ingest.client_log_layout.{number}: {error}") from error
    return layouts


def _encodings(settings: Settings) -> tuple[TextEncoding, ...]:
    encodings = tuple(TextEncoding(**given.model_dump()) for given in settings.ingest.text_encoding)
    for number, one in enumerate(encodings):
        try:
            check_encoding(one.encoding)
        except ValueError as error:
            raise SettingsError(f"ingest.text_encoding.{number}: {error}") from error
    return encodings
