"""Reading for Fetch: first a plan, then bytes into lent buffers."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.log.memfs import Fault
from kavka.server.replica.fetch_reading import PartitionRead, plan_part, read_cached, read_cold
from kavka.server.replica.fetch_sessions import FetchPartition
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.server.replica.replica import Replica
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.frame import ARENA_BYTES, ArenaPool
from kavka.wire.record_batches import read_header
from kavka.wire.steps import run_at_once
from support.logs import parse
from support.replicas import DATA, Hosting

PLENTY = 1 << 24
BATCH = bytes(build())


class Reader:
    """Reads as the handler does, from one hosting broker."""

    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting
        self.arenas = ArenaPool()
        self.context = RequestContext(Peer("PLAINTEXT", "here"), 12, 0, None)

    async def replica(self, index: int = 0, *, sizes: tuple[int, ...] = ()) -> Replica:
        """A partition that has a batch with a value of each size, or three usual batches."""
        replica = await self.hosting.lead("t", index)
        batches = [build([Written(value=b"x" * size)]) for size in sizes] or [
            build() for _ in range(3)
        ]
        for batch in batches:
            view = memoryview(batch)
            replica.append(view, read_header(view))
        return replica

    def plan(self, replica: Replica, offset: int = 0, **values: Any) -> PartitionRead:
        requested = FetchPartition(
            "t", replica.key[1], offset, values.pop("max_bytes", PLENTY), -1, -1
        )
        requested.current_leader_epoch = values.pop("current_leader_epoch", -1)
        requested.last_fetched_epoch = values.pop("last_fetched_epoch", -1)
        limits = {"committed_only": False, "bytes_max": PLENTY, "at_least_one": True} | values
        return plan_part(replica, requested, **limits)

    async def read(self, *parts: PartitionRead) -> int:
        """Read what was planned; how many parts had to wait for the disk."""
        cold = run_at_once(read_cached(list(parts), self.arenas, self.context))
        await read_cold(cold, self.hosting.jobs)
        return len(cold)


@pytest.fixture
def reader(hosting: Hosting) -> Reader:
    return Reader(hosting)


def offsets(part: PartitionRead) -> list[int]:
    records: Any = part.response.records
    return [record.offset for record in parse(bytes(records))]


# -- plans ----------------------------------------------------------------------------------


async def test_a_plan_has_the_file_range_of_the_records(reader: Reader) -> None:
    replica = await reader.replica()
    part = reader.plan(replica)
    assert part.response.error_code == Code.NONE
    assert part.file_range is not None and part.file_range.length == len(BATCH) * 3
    assert (part.response.high_watermark, part.response.last_stable_offset) == (9, 9)
    assert part.response.log_start_offset == 0
    assert part.response.records == b""
    assert part.replica is replica


@pytest.mark.parametrize(
    ("max_bytes", "bytes_max", "at_least_one", "length"),
    [
        (PLENTY, PLENTY, True, len(BATCH) * 3),
        (len(BATCH), PLENTY, False, len(BATCH)),
        (PLENTY, len(BATCH), False, len(BATCH)),
        (1, PLENTY, True, len(BATCH)),
        (PLENTY, 0, True, len(BATCH)),
        (1, PLENTY, False, None),
        (PLENTY, 0, False, None),
    ],
)
async def test_byte_limits(
    reader: Reader, max_bytes: int, bytes_max: int, at_least_one: bool, length: int | None
) -> None:
    limits = {"max_bytes": max_bytes, "bytes_max": bytes_max, "at_least_one": at_least_one}
    part = reader.plan(await reader.replica(), **limits)
    assert (part.file_range.length if part.file_range else None) == length


async def test_consumers_read_up_to_the_high_watermark(reader: Reader) -> None:
    replica = await reader.replica()
    replica.partition.lead(LeaderAndIsrState(1, 1, 1, (1, 2), 1, (1, 2)))
    view = memoryview(bytearray(BATCH))
    replica.append(view, read_header(view))
    for committed_only, aborted in ((False, None), (True, ())):
        part = reader.plan(replica, committed_only=committed_only)
        assert part.file_range is not None and part.file_range.length == len(BATCH) * 3
        assert part.response.aborted_transactions == aborted
        assert reader.plan(replica, 9, committed_only=committed_only).file_range is None
    replica.partition.lead(LeaderAndIsrState(1, 1, 2, (1,), 2, (1,)))


async def test_errors_of_a_fetch(reader: Reader) -> None:
    replica = await reader.replica()
    for values, code in (
        ({"offset": 10}, Code.OFFSET_OUT_OF_RANGE),
        ({"offset": -1}, Code.OFFSET_OUT_OF_RANGE),
        ({"current_leader_epoch": 7}, Code.UNKNOWN_LEADER_EPOCH),
        ({"last_fetched_epoch": 7}, Code.OFFSET_OUT_OF_RANGE),
    ):
        with pytest.raises(ApiError) as caught:
            reader.plan(replica, **values)
        assert caught.value.code == code


async def test_a_diverging_epoch_is_reported_without_records(reader: Reader) -> None:
    await reader.replica()
    replica = await reader.hosting.lead(epoch=4)
    part = reader.plan(replica, 12, last_fetched_epoch=2)
    assert part.file_range is None
    diverging = part.response.diverging_epoch
    assert diverging is not None and (diverging.epoch, diverging.end_offset) == (0, 9)


# -- bytes ----------------------------------------------------------------------------------


async def test_cached_records_are_read_at_once_into_few_buffers(reader: Reader) -> None:
    replicas = [await reader.replica(n, sizes=(10_000, 10_000)) for n in range(3)]
    parts = [reader.plan(replica) for replica in replicas]
    assert await reader.read(*parts) == 0
    assert [offsets(part) for part in parts] == [[0, 1]] * 3
    lent = reader.context.lent
    assert lent is not None and [arena.size for arena in lent] == [ARENA_BYTES]


async def test_few_bytes_are_copied(reader: Reader) -> None:
    replicas = [await reader.replica(index) for index in range(3)]
    parts = [reader.plan(replica) for replica in replicas]
    assert await reader.read(*parts) == 0
    assert [offsets(part) for part in parts] == [list(range(9))] * 3
    assert reader.context.lent is None
    for part in parts:
        records: Any = part.response.records
        assert len(records.obj) == len(records)


async def test_big_parts_have_their_own_buffers(reader: Reader) -> None:
    sizes = (200_000, 200_000, 900_000)
    replicas = [await reader.replica(n, sizes=(size,)) for n, size in enumerate(sizes)]
    parts = [reader.plan(replica) for replica in replicas]
    await reader.read(*parts)
    assert [offsets(part) for part in parts] == [[0]] * 3
    assert [arena.size for arena in reader.context.lent or ()] == [
        ARENA_BYTES,
        ARENA_BYTES,
        1 << 20,
    ]


async def test_an_empty_read_lends_no_buffer(reader: Reader) -> None:
    part = reader.plan(await reader.replica(), 9)
    assert await reader.read(part) == 0
    assert reader.context.lent is None


async def test_uncached_records_are_read_by_a_job(reader: Reader) -> None:
    part = reader.plan(await reader.replica())
    reader.hosting.fs.cached = False
    assert await reader.read(part) == 1
    assert reader.hosting.jobs.done == ["_MemFile.read_into"]
    assert offsets(part) == list(range(9))


async def test_a_read_completes_after_the_log_was_deleted(reader: Reader) -> None:
    part = reader.plan(await reader.replica())
    reader.hosting.fs.cached = False
    reader.hosting.manager.remove("t", 0)
    reader.hosting.logs.delete("t", 0)
    await reader.read(part)
    assert offsets(part) == list(range(9)), "who holds its file can finish"


@pytest.mark.parametrize("cached", [True, False])
async def test_a_failed_read_is_an_error_of_its_partition(
    caplog: pytest.LogCaptureFixture, cached: bool
) -> None:
    reader = Reader(Hosting(directories=(DATA, "/more")))
    failing, well = [reader.plan(await reader.replica(index)) for index in range(2)]
    reader.hosting.fs.cached = cached
    reader.hosting.fs.faults.append(Fault("pread", "t-0/00000000000000000000.log"))
    await reader.read(failing, well)
    answer = failing.response
    assert answer.error_code == Code.KAFKA_STORAGE_ERROR
    assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)
    assert (answer.log_start_offset, answer.records) == (-1, b"")
    assert offsets(well) == list(range(9))
    assert caplog.messages[0].startswith("can't read t-0")
