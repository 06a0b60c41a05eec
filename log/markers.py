"""Ending a transaction in a partition: the marker, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable

from kavka.log.fs import is_fd_exhaustion
from kavka.log.partition_log import Appended, PartitionLog
from kavka.log.txn_index import OpenTxnIndex
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.records import BatchHeader, read_header


def append_marker(
    log: PartitionLog,
    producer_id: int,
    producer_epoch: int,
    marker: Marker,
    append: Callable[[memoryview, BatchHeader], Appended],
    *,
    version: int = 0,
) -> Appended:
    """End a producer's transaction of protocol `version`, as leader: have `append` put the control
    batch that says so at the end of the log.

    ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, whatever `append` refuses, and
    KAFKA_STORAGE_ERROR where too many files are open; the log is as it was.
    OSError: the log is not to be used any more. Its marker may be there, and what that ends
    is not shown as decided.
    """
    batch = memoryview(end_marker(producer_id, producer_epoch, marker))
    header = read_header(batch)
    producers = log.producers
    producers.check_marker(header, marker, version)
    opened = None
    if producers.aborted_by(producer_id, marker, log.end_offset) is not None:
        # it could not be taken back if there was no descriptor left to note what it aborts
        opened = _open_txn_index(log, batch, header, marker.timestamp)
    appended = append(batch, header)
    aborted = producers.aborted_by(producer_id, marker, appended.base_offset)
    if aborted is not None and opened is not None:
        log.note_aborted(aborted, opened)
    producers.end(header, marker, appended.base_offset)
    return appended


def _open_txn_index(
    log: PartitionLog, batch: memoryview, header: BatchHeader, now_ms: int
) -> OpenTxnIndex:
    try:
        return log.open_txn_index(len(batch), header, now_ms)
    except OSError as failure:
        if is_fd_exhaustion(failure):
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        raise
