"""What hindsight records about its own work: files taken in, lines refused, checks and publications."""

from __future__ import annotations

from hindsight.schemas.column_types import (
    ArrayType,
    BooleanType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)
from hindsight.schemas.common_columns import CLUSTER, LINEAGE
from hindsight.schemas.table_contract import Table, column

_RUN_ID = column("run_id", StringType(), "Run that wrote the row.", required=True)

INGESTED_FILE = Table(
    name="ingested_file",
    comment="The ledger: one row per landing file taken in. read = stored + duplicate + ignored + quarantined.",
    schema=StructType(
        [
            CLUSTER,
            column("format", StringType(), "Landing format (folder name).", required=True),
            column("file", StringType(), "Path relative to the landing root.", required=True),
            column(
                "size_bytes",
                LongType(),
                "Size when it was read, for mqadmin with that of the commands.jsonl beside it; of another size it is "
                "read again.",
                required=True,
            ),
            column("read", LongType(), "Lines in the file.", required=True),
            column("stored", LongType(), "Lines of which a row or half a row is stored.", required=True),
            column("duplicate", LongType(), "Lines whose facts were stored from another line.", required=True),
            column("ignored", LongType(), "Lines that hold nothing for the tables.", required=True),
            column(
                "quarantined", LongType(), "Lines refused, each in `quarantine` until it expires there.", required=True
            ),
            column("complete", BooleanType(), "False: the file is truncated or damaged.", required=True),
            column(
                "event_dates",
                ArrayType(DateType(), False),
                "UTC dates whose derived rows it can change.",
                required=True,
            ),
            column("ingested_at", TimestampType(), "When it was taken in.", required=True),
            _RUN_ID,
        ]
    ),
    key=("cluster", "format", "file"),
    dated=False,
    lineage=LINEAGE,
)

QUARANTINE = Table(
    name="quarantine",
    comment="One row per refused line, with its position and reason; everything around it was taken in. Rows refused "
    "longer ago than `quarantine.keep_days` are deleted by `hindsight maintain`; `ingested_file` still counts them.",
    schema=StructType(
        [
            CLUSTER,
            column("format", StringType(), "Landing format (folder name).", required=True),
            column("source_file", StringType(), "Path relative to the landing root.", required=True),
            column("line_number", LongType(), "Line, from 1; 0: the file as a whole.", required=True),
            column("byte_start", LongType(), "First byte of the line (after decompression).", required=True),
            column("byte_end", LongType(), "One past its last byte, terminator excluded.", required=True),
            column("reason_code", StringType(), "Why it was refused, in one word.", required=True),
            column("detail", StringType(), "Why it was refused, as a sentence.", required=True),
            column(
                "raw_text",
                StringType(),
                "The line's text, bounded; undecodable bytes are escaped.",
                required=True,
            ),
            column("ingested_at", TimestampType(), "When it was refused (lineage).", required=True),
            _RUN_ID,
        ]
    ),
    key=("cluster", "format", "source_file", "line_number"),
    dated=False,
    lineage=LINEAGE,
)

QUALITY_RESULT = Table(
    name="quality_result",
    comment="One row per expectation checked and run.",
    schema=StructType(
        [
            _RUN_ID,
            column("checked_at", TimestampType(), "When it was checked, UTC.", required=True),
            column("job", StringType(), "Job whose result was gated.", required=True),
            column("table", StringType(), "Table, or candidate of it.", required=True),
            column("expectation", StringType(), "What was expected, and of which columns.", required=True),
            column(
                "severity",
                StringType(),
                "critical (nothing is published when it fails) or warning.",
                required=True,
            ),
            column("success", BooleanType(), "Whether it held.", required=True),
            column("observed", StringType(), "What was found, bounded."),
            column(
                "number",
                LongType(),
                "Grows with each check: the highest of a job is its newest, whatever the clocks said. Null: of a "
                "release that did not count, older than all that have one.",
            ),
        ]
    ),
    key=("run_id", "job", "table", "expectation"),
    dated=False,
)

PUBLICATION = Table(
    name="publication",
    comment="One row per publication of derived tables: the versions that belong together.",
    schema=StructType(
        [
            _RUN_ID,
            column("job", StringType(), "Job that published.", required=True),
            column(
                "number",
                LongType(),
                "Counts the job's publications from 1: the highest is the newest, whatever the clocks said. Null: of a "
                "release that did not count, older than all that have one.",
            ),
            column("published_at", TimestampType(), "When its last table was committed, UTC.", required=True),
            column(
                "table_versions",
                MapType(StringType(), LongType(), False),
                "Delta version of each table.",
                required=True,
            ),
            column(
                "dates",
                ArrayType(
                    StructType(
                        [
                            CLUSTER,
                            column("event_date", DateType(), "Date that was computed.", required=True),
                            column(
                                "files_fingerprint",
                                StringType(),
                                "Digest of files and settings it rests on.",
                                required=True,
                            ),
                            column(
                                "opening_fingerprint", StringType(), "Digest of the state it began with.", required=True
                            ),
                            column(
                                "closing_fingerprint", StringType(), "Digest of the state it hands on.", required=True
                            ),
                            column(
                                "is_open",
                                BooleanType(),
                                "A row of it waits for a later date's record.",
                                required=True,
                            ),
                        ]
                    ),
                    False,
                ),
                "What was computed.",
                required=True,
            ),
            column("rows_written", LongType(), "Rows written to all tables.", required=True),
            column("schema_version", IntegerType(), "Version of the table contracts.", required=True),
            column(
                "hindsight_version",
                StringType(),
                "Release of hindsight that published. Null: of one that did not record it.",
            ),
            column(
                "settings",
                StringType(),
                "Settings that the dates were computed with, as JSON. Null: of a release that did not record them.",
            ),
        ]
    ),
    key=("run_id", "job"),
    dated=False,
)
