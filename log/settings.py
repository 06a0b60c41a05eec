"""What a partition's log is told about itself: topic configs, dots written as underscores.

Fields only. Defaults, bounds and documentation stand in the broker's one table of settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FSYNC: Final = "fsync"
"""`kavka.durability`: what is acknowledged, or seen by a consumer, is on the disk."""

SYSTEM: Final = "system"
"""`kavka.durability`: the operating system writes when it likes, as Apache Kafka's default is."""

DELETE: Final = "delete"
COMPACT: Final = "compact"
"""The values of `cleanup.policy`: old records go; the last record of each key stays."""

LOG_APPEND_TIME: Final = "LogAppendTime"
"""`message.timestamp.type`: when we got a record; else, by "CreateTime", what its producer says."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The topic configs that a log and its partition honour."""

    segment_bytes: int
    """A segment file is closed before it would grow beyond this."""

    segment_ms: int
    """A segment is closed when its records span more than this many milliseconds."""

    segment_index_bytes: int
    """Bytes that an index file may hold; a full index closes its segment."""

    index_interval_bytes: int
    """Log bytes between two index entries."""

    max_message_bytes: int
    """The largest batch a producer may send, in bytes. Checked by the caller of `append`."""

    compression_type: str
    """The codec that batches are stored in: its name, "uncompressed", or "producer" for the one
    that they were sent in."""

    compression_gzip_level: int
    """1 (quick) to 9 (small) when the broker compresses; -1: the library's own default."""

    compression_lz4_level: int
    """1 to 17; 9, the default, is the quick compressor (KIP-390)."""

    compression_zstd_level: int
    """-131072 (quick) to 22 (small)."""

    message_timestamp_type: str
    """Whose time records carry: "CreateTime", the producer's, or `LOG_APPEND_TIME`, ours."""

    message_timestamp_before_max_ms: int
    """A record that is older than the clock by more milliseconds is refused."""

    message_timestamp_after_max_ms: int
    """A record that is ahead of the clock by more milliseconds is refused (KIP-937)."""

    flush_messages: int
    """Unflushed records after which the active segment is due for fsync."""

    flush_ms: int
    """Milliseconds after which the active segment is due for fsync."""

    kavka_durability: str
    """When a record counts: `SYSTEM`, at once; `FSYNC`, when it is on the disk."""

    retention_ms: int
    """Segments whose newest record is older than this many milliseconds go; below 0: none."""

    retention_bytes: int
    """The oldest segments go while the log has more bytes than this without them; below 0: none."""

    segment_jitter_ms: int
    """Up to so many milliseconds are taken off `segment_ms`."""

    file_delete_delay_ms: int
    """Milliseconds between a file's leaving the log and its removal."""

    cleanup_policy: tuple[str, ...]
    """What becomes of old records: "delete", "compact", both or neither."""

    delete_retention_ms: int
    """Compaction keeps a record without a value for so many milliseconds, once it is the last one
    of its key; transaction markers too."""

    min_cleanable_dirty_ratio: float
    """A log is compacted when more than this part of it has not been compacted yet."""

    min_compaction_lag_ms: int
    """Milliseconds that a record stays as it is; only whole segments are compacted."""

    max_compaction_lag_ms: int
    """Milliseconds after which a record is compacted, whatever the dirty ratio is."""

    message_downconversion_enable: bool
    """Whether old consumers get message sets. Checked by the reader."""

    min_insync_replicas: int
    """Replicas that must have a record before acks=all is answered. Checked by the replica."""

    @property
    def flush_after(self) -> int:
        """Unflushed records from which on none of them counts before an fsync."""
        return 1 if self.kavka_durability == FSYNC else self.flush_messages
