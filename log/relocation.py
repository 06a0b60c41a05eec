"""Switches a log to its copy in another directory: see `future_log_copier.py`.

The `PartitionLog` object and its in-memory state (segments, producers, epochs) stay the same, and
readers that have a file of the old directory open read on from it. Does no I/O.
"""

from __future__ import annotations

from kavka.log.partition_log import PartitionLog


def relocate(log: PartitionLog, directory: str) -> None:
    """Have `log` use the equal files in `directory` from now on. Flush plans made before are
    void."""
    for segment in log._segments:
        if segment is not log._active:
            segment.release()  # its indexes may have been rebuilt since they were copied
        segment.relocate(directory)
    log._truncations += 1
    log.directory = directory
    log._epochs.relocate(directory)
    log.producer_manager.snapshots.relocate(directory)
    log.compaction.relocate(directory)
    log._unflushed.clear()
    log.mark_unflushed(log._active.txns.path)
    log.mark_name_unflushed(directory)
