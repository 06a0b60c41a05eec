"""What a partition's log is told about itself: topic configs, dots written as underscores.

Fields only. Defaults, bounds and documentation stand in the broker's one table of settings.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    flush_messages: int
    """Unflushed records after which the active segment is due for fsync."""

    flush_ms: int
    """Milliseconds after which the active segment is due for fsync."""

    min_insync_replicas: int
    """Replicas that must have a record before acks=all is answered. Checked by the replica."""
