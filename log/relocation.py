"""A log goes on in another directory, which has become its own: see `mirror.py`.

Whoever holds the log holds it still; whoever reads from one of its files reads on from there. What
is known of its records, producers and epochs stays as it is. Nothing is read or written.
"""

from __future__ import annotations

from kavka.log.partition_log import PartitionLog


def relocate(log: PartitionLog, directory: str) -> None:
    """Have `log` use the files in `directory`, the same as those that it has used. A flush plan
    that was made before says nothing from now on."""
    for segment in log._segments:
        if segment is not log._active:
            segment.release()  # its indexes may have been made anew since they were copied
        segment.relocate(directory)
    log._truncations += 1
    log.directory = directory
    log._epochs.relocate(directory)
    log.history.snapshots.relocate(directory)
    log.compaction.relocate(directory)
    log._unsynced.clear()
    log.unsynced(log._active.txns.path)
    log.unsynced_name(directory)
