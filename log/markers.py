"""Appending a transaction marker to a partition."""

from __future__ import annotations

from collections.abc import Callable

from kavka.log.appended import Appended
from kavka.log.fs import is_fd_exhaustion
from kavka.log.partition_log import PartitionLog
from kavka.log.txn_index import OpenTxnIndex
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import BatchHeader, read_header


def append_marker(
    log: PartitionLog,
    producer_id: int,
    producer_epoch: int,
    marker: Marker,
    append: Callable[[memoryview, BatchHeader], Appended],
    *,
    version: int = 0,
    append_time: bool = False,
) -> Appended:
    """End a producer's transaction of `transaction.version` `version`, as leader: have `append`
    append the control batch. `append_time`: of a topic with message.timestamp.type=LogAppendTime.

    ApiError: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, the errors of `append`, and
    KAFKA_STORAGE_ERROR on file descriptor exhaustion; the log is unchanged.
    OSError: the log can't be used any more. It may contain the marker, but the transaction still
    counts as ongoing.
    """
    batch = memoryview(end_marker(producer_id, producer_epoch, marker, append_time=append_time))
    header = read_header(batch)
    producers = log.producers
    producers.check_marker(header, marker, version)
    opened = None
    if producers.aborted_by(producer_id, marker, log.end_offset) is not None:
        # open the index first: without a descriptor the appended marker could not be undone
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
