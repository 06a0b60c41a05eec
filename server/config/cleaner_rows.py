"""Settings of the broker's log cleaner, which compacts topics."""

from __future__ import annotations

from typing import Final

from kavka.server.config.rows import Config, Mode
from kavka.server.config.validators import AtLeast, Validator
from kavka.server.config.value_types import Type, Value

CLEANER_THREAD_BYTES_MIN: Final = 1_048_576
"""What `log.cleaner.dedupe.buffer.size` must be above for each of `log.cleaner.threads`."""


def _row(
    name: str,
    type_: Type,
    default: Value,
    check: Validator | None,
    doc: str,
    *,
    dynamic: Mode = Mode.CLUSTER_WIDE,
) -> Config:
    return Config(name, type_, default, doc, check, dynamic=dynamic, field=name.replace(".", "_"))


CLEANER_ROWS: Final = (
    _row(
        "log.cleaner.backoff.ms",
        Type.LONG,
        15_000,
        AtLeast(0),
        "How long the cleaner waits before its next check, if no log had to be compacted.",
    ),
    _row(
        "log.cleaner.dedupe.buffer.size",
        Type.LONG,
        134_217_728,
        None,
        "Memory in bytes for the keys of the logs that are compacted at a time, 24 bytes a key. "
        "With more keys than fit a log is compacted in several rounds.",
    ),
    _row(
        "log.cleaner.enable",
        Type.BOOLEAN,
        True,
        None,
        "Whether topics with cleanup.policy=compact are compacted.",
        dynamic=Mode.READ_ONLY,
    ),
    _row(
        "log.cleaner.io.buffer.load.factor",
        Type.DOUBLE,
        0.9,
        None,
        "The part of log.cleaner.dedupe.buffer.size that is filled. More makes lookups slower.",
    ),
    _row(
        "log.cleaner.io.buffer.size",
        Type.INT,
        524_288,
        AtLeast(0),
        "Memory in bytes for reading logs that are compacted. At most 64 KiB per thread are used, "
        "except for a larger batch, which gets what it needs.",
    ),
    _row(
        "log.cleaner.io.max.bytes.per.second",
        Type.DOUBLE,
        1.7976931348623157e308,
        None,
        "Average bytes a second that compaction reads and writes, all logs together. A change is "
        "used from the next log on.",
    ),
    _row(
        "log.cleaner.threads",
        Type.INT,
        1,
        AtLeast(0),
        "How many logs are compacted at a time, each in a child process of its own.",
    ),
)
