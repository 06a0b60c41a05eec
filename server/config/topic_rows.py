"""Topic configs: all of Apache Kafka's, each with its status in Kavka.

Tools and frameworks set many of these, so one that is not honoured yet is accepted with a warning
if ignoring it is safe (records kept longer, stored as they were sent). It is refused if the stored
data would differ from what the config promises.
"""

from __future__ import annotations

from typing import Any, Final

from kavka.log.settings import FSYNC, SYSTEM
from kavka.server.config.rows import Config, Mode, Scope, Status
from kavka.server.config.validators import (
    AtLeast,
    Between,
    Items,
    OneOf,
    ThrottledReplicas,
    Validator,
)
from kavka.server.config.value_types import LONG_MAX, Type, Value

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000

NOT_IN_CLUSTERS: Final = "Kavka's clusters do not do that yet"
NO_TIERS: Final = "there is no tiered storage"

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

DURABILITIES: Final = OneOf((SYSTEM, FSYNC))
CODECS: Final = OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"))
POLICIES: Final = Items(words=("compact", "delete"))
TIMESTAMP_TYPES: Final = OneOf(("CreateTime", "LogAppendTime"))
GZIP_LEVELS: Final = Between(1, 9, also=-1)
LZ4_LEVELS: Final = Between(1, 17)
ZSTD_LEVELS: Final = Between(-131072, 22)


def _row(
    name: str,
    type_: Type,
    default: Value,
    check: Validator | None,
    doc: str,
    *broker_keys: str | tuple[str, int],
    **more: Any,
) -> Config:
    fallback = tuple((key, 1) if isinstance(key, str) else key for key in broker_keys)
    return Config(
        name,
        type_,
        default,
        doc,
        check,
        dynamic=Mode.CLUSTER_WIDE,
        scope=Scope.TOPIC,
        fallback=fallback,
        **more,
    )


def _honoured(
    name: str,
    type_: Type,
    default: Value,
    check: Validator | None,
    doc: str,
    *broker_keys: str | tuple[str, int],
) -> Config:
    return _row(name, type_, default, check, doc, *broker_keys, field=name.replace(".", "_"))


def _warned(
    name: str,
    type_: Type,
    default: Value,
    check: Validator | None,
    note: str,
    doc: str,
    *broker_keys: str | tuple[str, int],
) -> Config:
    return _row(name, type_, default, check, doc, *broker_keys, status=Status.WARNED, note=note)


_HONOURED_ROWS: Final = (
    _honoured(
        "flush.messages",
        Type.LONG,
        LONG_MAX,
        AtLeast(1),
        "After this many records the log is forced to disk. The default leaves it to the system, "
        "to segment changes and to shutdown.",
        "log.flush.interval.messages",
    ),
    _honoured(
        "flush.ms",
        Type.LONG,
        LONG_MAX,
        AtLeast(0),
        "The longest time in milliseconds that a record is in memory only, as long as the broker "
        "looks: see log.flush.scheduler.interval.ms.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    _honoured(
        "index.interval.bytes",
        Type.INT,
        4096,
        AtLeast(0),
        "An index entry is made after this many bytes of records. Smaller means bigger indexes "
        "and shorter searches.",
        "log.index.interval.bytes",
    ),
    _row(
        "kavka.durability",
        Type.STRING,
        SYSTEM,
        DURABILITIES,
        "What an acknowledgement means. system: the record is written, and the operating system "
        "brings it to the disk in its own time, as with Apache Kafka's defaults. fsync: it is on "
        "the disk of each replica in sync; only then is it acknowledged, with acks=1 too, and "
        "shown to consumers. Many requests share one fsync.",
        "kavka.durability",
        field="kavka_durability",
        internal=True,  # not described unless set, as Apache Kafka does not have it
    ),
    _honoured(
        "max.message.bytes",
        Type.INT,
        1_048_588,
        AtLeast(0),
        "The largest accepted batch in bytes, as sent (compressed, with its header).",
        "message.max.bytes",
    ),
    _row(
        "message.downconversion.enable",
        Type.BOOLEAN,
        True,
        None,
        "Whether consumers of versions before 0.11, which know no record batches, get them "
        "converted to message sets. Of Apache Kafka 3.9; newer ones serve no such consumers.",
        "log.message.downconversion.enable",
        field="message_downconversion_enable",
        internal=True,  # not described unless set, as Apache Kafka 4 removed it
    ),
    _honoured(
        "min.insync.replicas",
        Type.INT,
        1,
        AtLeast(1),
        "With acks=all a write is refused while fewer replicas than this are in sync.",
        "min.insync.replicas",
    ),
    _honoured(
        "segment.bytes",
        Type.INT,
        1_073_741_824,
        AtLeast(1_048_576),
        "A segment file is closed before it grows beyond this many bytes.",
        "log.segment.bytes",
    ),
    _honoured(
        "segment.index.bytes",
        Type.INT,
        10_485_760,
        AtLeast(4),
        "The biggest offset or time index of a segment in bytes; a full one closes the segment.",
        "log.index.size.max.bytes",
    ),
    _honoured(
        "segment.ms",
        Type.LONG,
        168 * HOUR_MS,
        AtLeast(1),
        "A segment is closed when its records span more than this time, full or not.",
        "log.roll.ms",
        ("log.roll.hours", HOUR_MS),
    ),
    _row(
        "internal.segment.bytes",
        Type.INT,
        None,
        None,
        "Stands above segment.bytes and has no lower bound. For tests.",
        internal=True,
    ),
)

_DELETION_ROWS: Final = (
    _honoured(
        "file.delete.delay.ms",
        Type.LONG,
        60_000,
        AtLeast(0),
        "Files are removed this long after they left the log.",
        "log.segment.delete.delay.ms",
    ),
    _honoured(
        "retention.bytes",
        Type.LONG,
        -1,
        None,
        "Oldest segments of a partition are deleted while it has more bytes than this. "
        "-1: no limit.",
        "log.retention.bytes",
    ),
    _honoured(
        "retention.ms",
        Type.LONG,
        168 * HOUR_MS,
        AtLeast(-1),
        "Segments are deleted when all their records are older than this. -1: no limit.",
        "log.retention.ms",
        ("log.retention.minutes", MINUTE_MS),
        ("log.retention.hours", HOUR_MS),
    ),
    _honoured(
        "segment.jitter.ms",
        Type.LONG,
        0,
        AtLeast(0),
        "Up to this time is taken off segment.ms by chance, so that not all segments close at "
        "once.",
        "log.roll.jitter.ms",
        ("log.roll.jitter.hours", HOUR_MS),
    ),
    _honoured(
        "cleanup.policy",
        Type.LIST,
        ("delete",),
        POLICIES,
        "What becomes of old records: delete them by age and size, compact them to the last one "
        "of each key, or both.",
        "log.cleanup.policy",
    ),
    _honoured(
        "delete.retention.ms",
        Type.LONG,
        24 * HOUR_MS,
        AtLeast(0),
        "Compaction keeps a record that deletes its key for this long.",
        "log.cleaner.delete.retention.ms",
    ),
    _honoured(
        "max.compaction.lag.ms",
        Type.LONG,
        LONG_MAX,
        AtLeast(1),
        "A record is compacted at the latest after this time.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _honoured(
        "min.cleanable.dirty.ratio",
        Type.DOUBLE,
        0.5,
        Between(0, 1),
        "A log is compacted when this part of it has not been compacted yet.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _honoured(
        "min.compaction.lag.ms",
        Type.LONG,
        0,
        AtLeast(0),
        "A record is not compacted before this time.",
        "log.cleaner.min.compaction.lag.ms",
    ),
)

_RECORD_ROWS: Final = (
    _honoured(
        "compression.gzip.level",
        Type.INT,
        -1,
        GZIP_LEVELS,
        "Level for gzip when the broker compresses.",
        "compression.gzip.level",
    ),
    _honoured(
        "compression.lz4.level",
        Type.INT,
        9,
        LZ4_LEVELS,
        "Level for lz4 when the broker compresses.",
        "compression.lz4.level",
    ),
    _honoured(
        "compression.type",
        Type.STRING,
        "producer",
        CODECS,
        "Codec that batches are stored in; producer keeps what the producer chose.",
        "compression.type",
    ),
    _honoured(
        "compression.zstd.level",
        Type.INT,
        3,
        ZSTD_LEVELS,
        "Level for zstd when the broker compresses.",
        "compression.zstd.level",
    ),
    _honoured(
        "message.timestamp.after.max.ms",
        Type.LONG,
        HOUR_MS,
        AtLeast(0),
        "A record whose time is further ahead of the broker's clock than this is refused.",
        "log.message.timestamp.after.max.ms",
    ),
    _honoured(
        "message.timestamp.before.max.ms",
        Type.LONG,
        LONG_MAX,
        AtLeast(0),
        "A record whose time is further behind the broker's clock than this is refused.",
        "log.message.timestamp.before.max.ms",
    ),
    _honoured(
        "message.timestamp.type",
        Type.STRING,
        "CreateTime",
        TIMESTAMP_TYPES,
        "Whether records have their producer's timestamp or that of their append.",
        "log.message.timestamp.type",
    ),
    _warned(
        "preallocate",
        Type.BOOLEAN,
        False,
        None,
        "segment files grow as they are written",
        "Whether a new segment file takes its full size at once.",
        "log.preallocate",
    ),
)

_CLUSTER_ROWS: Final = (
    _honoured(
        "follower.replication.throttled.replicas",
        Type.LIST,
        (),
        ThrottledReplicas(),
        "Followers, as partition:broker, that fetch no faster than their broker's "
        "follower.replication.throttled.rate while they are not in sync; * for all.",
    ),
    _honoured(
        "leader.replication.throttled.replicas",
        Type.LIST,
        (),
        ThrottledReplicas(),
        "Leaders, as partition:broker, that send no more than their broker's "
        "leader.replication.throttled.rate to followers that are not in sync; * for all.",
    ),
    _row(
        UNCLEAN_ELECTION,
        Type.BOOLEAN,
        False,
        None,
        "Whether a replica that is behind may become leader if no other is left, at the price of "
        "lost records.",
        UNCLEAN_ELECTION,
    ),
    _warned(
        "local.retention.bytes",
        Type.LONG,
        -2,
        AtLeast(-2),
        NO_TIERS,
        "What a tiered topic keeps on local disk, in bytes. -2: as retention.bytes.",
        "log.local.retention.bytes",
    ),
    _warned(
        "local.retention.ms",
        Type.LONG,
        -2,
        AtLeast(-2),
        NO_TIERS,
        "How long a tiered topic keeps records on local disk. -2: as retention.ms.",
        "log.local.retention.ms",
    ),
    _warned(
        "remote.log.copy.disable",
        Type.BOOLEAN,
        False,
        None,
        NO_TIERS,
        "Whether a tiered topic stops copying segments to the remote tier.",
    ),
    _warned(
        "remote.log.delete.on.disable",
        Type.BOOLEAN,
        False,
        None,
        NO_TIERS,
        "Whether a topic that stops being tiered loses what lies in the remote tier.",
    ),
    _row(
        "remote.storage.enable",
        Type.BOOLEAN,
        False,
        None,
        "Whether the topic's closed segments move to the remote tier.",
        status=Status.REFUSED,
        note=NO_TIERS,
    ),
)

TOPIC_ROWS: Final = (*_HONOURED_ROWS, *_DELETION_ROWS, *_RECORD_ROWS, *_CLUSTER_ROWS)
