"""Batch headers of one producer, and the state that a log has of it."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from kavka.log.memfs import MemFs
from kavka.log.producer_state import ProducerStates
from kavka.log.txn_guards import Guard
from kavka.wire.control_records import Marker, end_marker
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.record_batches import TRANSACTIONAL, BatchHeader, read_header
from support import logs
from support.logs import Producer


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 9, timestamp: int = 5
) -> BatchHeader:
    """Of a batch of so many records."""
    values = [b"v"] * count
    producer = Producer(producer_id, epoch, sequence)
    return read_header(logs.batch(values, producer=producer, timestamps=timestamp))


def written(*headers: BatchHeader) -> ProducerStates:
    """The state after these batches, one behind the other."""
    states = ProducerStates()
    offset = 0
    for found in headers:
        assert states.check(found) is None
        offset += found.last_offset_delta + 1
        states.update(found, offset - 1)
    return states


def refused(states: ProducerStates, found: BatchHeader) -> ErrorCode:
    """Why a batch is not taken."""
    with pytest.raises(ApiError) as error:
        states.check(found)
    return error.value.code


def snapshot(*entries: tuple[int, ...]) -> bytes:
    """A file with these entries, in Apache Kafka's form."""
    body = struct.pack(">i", len(entries))
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def load(states: ProducerStates, data: bytes) -> None:
    """Have the states load a file with this content."""
    file = MemFs().create("/f")
    file.pwrite(data, 0)
    for _ in states.load(file, "/f"):
        pass


def transactional(sequence: int, count: int = 1, *, epoch: int = 0) -> BatchHeader:
    """Of a batch in a transaction."""
    return header(sequence, count, epoch=epoch)._replace(attributes=TRANSACTIONAL)


def asked(states: ProducerStates, batch: BatchHeader, *, v2: bool = False) -> Guard | None:
    """What is to be confirmed before a batch is appended."""
    return states.verification(
        batch.producer_id, batch.base_sequence, batch.producer_epoch, 0, v2=v2
    )


def marker_of(epoch: int = 0, producer_id: int = 9) -> BatchHeader:
    """Of a marker."""
    return read_header(end_marker(producer_id, epoch, COMMIT))


COMMIT = Marker(True, 3, 1000)
ABORT = Marker(False, 3, 1000)


def begun() -> ProducerStates:
    """Producer 9 has a transaction from offset 5 on, sequences 0 and 1."""
    states = ProducerStates()
    states.update(transactional(0, 2), 6)
    return states
