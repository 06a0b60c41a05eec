"""The topic configs that a log uses, with underscores in place of dots.

Fields only. Defaults, limits and documentation are in the broker's table of settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FSYNC: Final = "fsync"
"""`kavka.durability`: records are fsynced before they are acknowledged or visible."""

SYSTEM: Final = "system"
"""`kavka.durability`: the operating system decides when to write, as by Apache Kafka's default."""

DELETE: Final = "delete"
COMPACT: Final = "compact"
"""The values of `cleanup.policy`: delete old records; keep only the last record of each key."""

LOG_APPEND_TIME: Final = "LogAppendTime"
"""`message.timestamp.type`: the time of the append; else "CreateTime", the producer's time."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The topic configs of a log and its partition."""

    segment_bytes: int
    """A segment is rolled before it would grow beyond this."""

    segment_ms: int
    """A segment is rolled when its records span more than this many milliseconds."""

    segment_index_bytes: int
    """Maximum size of an index file; a segment with a full index is rolled."""

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
    """The timestamps of records: "CreateTime" (the producer's) or `LOG_APPEND_TIME`."""

    message_timestamp_before_max_ms: int
    """A record that is older than the clock by more milliseconds is rejected."""

    message_timestamp_after_max_ms: int
    """A record that is ahead of the clock by more milliseconds is rejected (KIP-937)."""

    flush_messages: int
    """Unflushed records after which the active segment is due for fsync."""

    flush_ms: int
    """Milliseconds after which the active segment is due for fsync."""

    kavka_durability: str
    """When a record is visible and acknowledged: `SYSTEM`, at once; `FSYNC`, after an fsync."""

    retention_ms: int
    """Segments whose newest record is older than this many milliseconds are deleted; below 0:
    none."""

    retention_bytes: int
    """The oldest segments are deleted while the log is at least this large without them; below 0:
    none."""

    segment_jitter_ms: int
    """`segment_ms` is reduced by up to this many milliseconds."""

    file_delete_delay_ms: int
    """Milliseconds from marking a file for deletion to its deletion."""

    cleanup_policy: tuple[str, ...]
    """The handling of old records: "delete", "compact", both or neither."""

    delete_retention_ms: int
    """Compaction keeps tombstones and transaction markers for this many milliseconds."""

    min_cleanable_dirty_ratio: float
    """A log is compacted when more than this fraction of it is dirty."""

    min_compaction_lag_ms: int
    """Milliseconds before a record may be compacted; applies to whole segments."""

    max_compaction_lag_ms: int
    """Milliseconds after which a record is compacted, whatever the dirty ratio is."""

    message_downconversion_enable: bool
    """Whether batches are down-converted for old consumers. Checked by the caller of `read`."""

    min_insync_replicas: int
    """In-sync replicas needed for acks=all. Checked by the replica."""

    follower_replication_throttled_replicas: tuple[str, ...]
    """Followers that fetch slowly until they are in sync, as "partition:broker", or "*" alone: all
    of them. Their fetchers' affair."""

    leader_replication_throttled_replicas: tuple[str, ...]
    """Leaders that send followers which are not in sync little, as above. Checked by Fetch."""

    @property
    def flush_after(self) -> int:
        """Unflushed records after which the active segment has to be flushed."""
        return 1 if self.kavka_durability == FSYNC else self.flush_messages
