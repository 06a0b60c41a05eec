"""Transactions' markers on a replica. Appends and epochs: scenarios/replica/leader_and_isr.txt."""

from __future__ import annotations

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.log.memfs import Fault
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.replica.replica import Replica
from kavka.wire.control_records import Marker
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import read_header
from support.error_codes import error_code_of
from support.replicas import Hosting
from support.virtual import run_until_idle


def begun(replica: Replica) -> int:
    """Three records in a transaction of producer 7; their base offset."""
    batch = memoryview(build(producer=(7, 0, 0), transactional=True))
    return replica.append(batch, read_header(batch), NOT_NEEDED).base_offset


def end(replica: Replica, *, commit: bool, epoch: int = 0, version: int = 0) -> int:
    """Its marker's offset."""
    return replica.append_marker(7, epoch, Marker(commit, 0, 0), version).last_offset


@pytest.mark.parametrize("commit", [True, False])
async def test_a_marker_is_appended_as_any_batch(hosting: Hosting, commit: bool) -> None:
    replica = await hosting.lead(epoch=5)
    begun(replica)
    assert (replica.high_watermark, replica.last_stable_offset) == (3, 0)
    waiting = hosting.purgatory.wait([replica.key], lambda: True, 60)
    before = replica.traffic.bytes_in
    assert end(replica, commit=commit) == 3
    assert (replica.high_watermark, replica.last_stable_offset) == (4, 4)
    assert replica.traffic.messages_in == 4
    assert replica.traffic.bytes_in - before == replica.log.size_bytes - before
    assert replica.log.epoch_of(3) == 5
    await run_until_idle()
    assert waiting.result() is True


async def test_a_fenced_marker_is_refused(hosting: Hosting) -> None:
    replica = await hosting.lead()
    begun(replica)
    refused = Code.INVALID_PRODUCER_EPOCH
    assert error_code_of(lambda: end(replica, commit=True, epoch=-1)) == refused
    assert error_code_of(lambda: end(replica, commit=True, version=2)) == refused
    assert replica.log.end_offset == 3 and not replica.offline
    assert end(replica, commit=True, epoch=1, version=2) == 3


@pytest.mark.parametrize("name", ["00000000000000000000.log", "00000000000000000000.txnindex"])
async def test_a_failed_write_of_a_marker_takes_the_partition_offline(
    two_dirs: Hosting, name: str
) -> None:
    """Its log is not to be used any more: readers would take what is aborted for committed."""
    replica = await two_dirs.lead()
    begun(replica)
    two_dirs.fs.faults.append(Fault("pwrite", f"t-0/{name}"))
    assert error_code_of(lambda: end(replica, commit=False)) == Code.KAFKA_STORAGE_ERROR
    assert replica.offline
    assert replica.last_stable_offset == 0
