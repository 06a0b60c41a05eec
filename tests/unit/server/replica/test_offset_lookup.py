"""Offsets by time: against a search through all records, and in slices where there are many."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    CODECS,
    Written,
    around,
    build,
    patch,
)
from kavka.server.replica import offset_lookup
from kavka.server.replica.batch_opening import OPENED_AT_ONCE_MAX, RECORDS_PER_STEP
from kavka.server.replica.offset_lookup import NOT_FOUND, FoundOffset
from kavka.server.replica.replica import Replica
from kavka.wire import inflating
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.record_batches import read_header
from support.replicas import Hosting, stopping
from support.virtual import run_until_idle

MAX_TIMESTAMP = -3
LOG_APPEND_TIME = 8


class Search:
    """A partition and what is asked of it. Times are relative to the batches' base."""

    def __init__(self, hosting: Hosting, replica: Replica) -> None:
        self.hosting = hosting
        self.replica = replica

    def write(self, batch: bytearray) -> None:
        view = memoryview(batch)
        self.replica.append(view, read_header(view))

    def write_times(self, times_ms: Sequence[int], codec: str = "none") -> None:
        self.write(build([Written(time_ms=time_ms) for time_ms in times_ms], codec=codec))

    async def find(self, timestamp: int, *, committed_only: bool = False) -> FoundOffset:
        opener = self.hosting.manager.opener
        found = offset_lookup.find(
            self.replica, timestamp, committed_only=committed_only, opener=opener
        )
        return found if isinstance(found, FoundOffset) else await found

    async def by_time(self, time_ms: int) -> tuple[int, int] | None:
        """(time, offset) of the first record that is not older."""
        found = await self.find(BASE_TIMESTAMP_MS + time_ms)
        return None if found == NOT_FOUND else (found.timestamp - BASE_TIMESTAMP_MS, found.offset)


@pytest.fixture
def search(hosting: Hosting) -> Search:
    return Search(hosting, asyncio.run(hosting.lead()))


@pytest.mark.parametrize("seed", range(6))
async def test_offsets_are_those_of_a_linear_search(search: Search, seed: int) -> None:
    chance = random.Random(seed)
    times: list[int] = []
    for number in range(60):
        batch = [10 * number + chance.randint(-200, 200) for _ in range(chance.randint(1, 9))]
        search.write_times(batch, chance.choice(list(CODECS)))
        times += batch
        if chance.random() < 0.05:
            search.replica.log.roll(search.hosting.clock.now_ms())
    for target in [*range(-250, 900, 23), *chance.sample(times, 40)]:
        later = (pair for pair in enumerate(times) if pair[1] >= target)
        offset, time_ms = next(later, (-1, -1))
        expected = None if offset < 0 else (time_ms, offset)
        assert await search.by_time(target) == expected, f"seed {seed}, asked for {target}"
    newest = await search.find(MAX_TIMESTAMP)
    assert newest.timestamp == BASE_TIMESTAMP_MS + max(times)
    assert newest.offset == times.index(max(times))


async def test_leader_epochs_of_found_offsets(search: Search) -> None:
    search.write_times([0])
    search.replica = await search.hosting.lead(epoch=4)
    search.write_times([10])
    for time_ms, epoch in ((0, 0), (1, 4), (10, 4)):
        assert (await search.find(BASE_TIMESTAMP_MS + time_ms)).leader_epoch == epoch
    assert (await search.find(MAX_TIMESTAMP)).leader_epoch == 4
    assert await search.find(-1) == FoundOffset(-1, 2, 4)
    assert await search.find(-2) == FoundOffset(-1, 0, 0)


async def test_batches_with_log_append_time(search: Search) -> None:
    """All records of such a batch have its greatest time, and the first one is it."""
    batch = build([Written(time_ms=5), Written(time_ms=6)])
    newest = BASE_TIMESTAMP_MS + 500
    search.write(patch(batch, attributes=LOG_APPEND_TIME, max_timestamp=newest))
    assert await search.by_time(6) == (500, 0)
    assert await search.by_time(501) is None


async def test_records_without_a_timestamp(search: Search) -> None:
    assert await search.find(MAX_TIMESTAMP) == NOT_FOUND
    for _ in range(2):
        search.write(patch(build([Written()]), base_timestamp=-1, max_timestamp=-1))
    for timestamp in (0, BASE_TIMESTAMP_MS):
        assert await search.find(timestamp) == NOT_FOUND
    newest = await search.find(MAX_TIMESTAMP)
    assert newest == FoundOffset(-1, 0, 0), "the first one, as in Apache Kafka 4.3.1"


async def test_a_wrong_max_timestamp_does_not_end_the_search(search: Search) -> None:
    """Its greatest time belongs to no record: the search goes on behind it."""
    search.write(patch(build([Written(time_ms=1)]), max_timestamp=BASE_TIMESTAMP_MS + 900))
    search.write_times([700])
    assert await search.by_time(500) == (700, 1)
    assert await search.by_time(800) is None


async def test_a_deletion_during_the_search_ends_it(search: Search) -> None:
    """The files of the new one of that name are not for it."""
    value = random.Random(1).randbytes(inflating.JOB_BYTES_MIN).hex().encode()
    batch = build([Written(value=value, time_ms=1)], codec="gzip")
    search.write(patch(batch, max_timestamp=BASE_TIMESTAMP_MS + 900))
    search.write_times([700])
    search.hosting.jobs.hold("decompress")
    finding = asyncio.ensure_future(search.by_time(500))
    await run_until_idle()
    await search.hosting.port.stop_replica(stopping())
    await search.hosting.lead()
    search.hosting.jobs.release()
    with pytest.raises(ApiError) as caught:
        await finding
    assert caught.value.code == Code.NOT_LEADER_OR_FOLLOWER


async def write_behind_the_future(search: Search, times_ms: Sequence[int]) -> None:
    """Batches of a record each, after one of the future that DeleteRecords has removed: no index
    helps to find them by time."""
    search.write_times([10**9])
    for time_ms in times_ms:
        search.write_times([time_ms])
    search.replica.log.advance_start(1)


async def test_many_batches_are_searched_in_slices(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_lookup, "HEADERS_AT_ONCE_MAX", 3)
    times = [random.Random(1).randrange(1000) for _ in range(60)]
    await write_behind_the_future(search, times)
    for target in (0, 500, 980, max(times), max(times) + 1):
        finding = asyncio.ensure_future(search.by_time(target))
        turns = 0
        while not finding.done():
            await asyncio.sleep(0)
            turns += 1
        at = next((at for at, time in enumerate(times) if time >= target), None)
        assert finding.result() == (None if at is None else (times[at], at + 1))
        assert turns >= (60 if at is None else at) // 4


async def test_a_deletion_between_two_slices_ends_the_search(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_lookup, "HEADERS_AT_ONCE_MAX", 3)
    await write_behind_the_future(search, range(60))
    finding = asyncio.ensure_future(search.by_time(50))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not finding.done()
    await search.hosting.port.stop_replica(stopping())
    with pytest.raises(ApiError) as caught:
        await finding
    assert caught.value.code == Code.NOT_LEADER_OR_FOLLOWER


async def test_uncommitted_records_are_not_found(search: Search) -> None:
    search.write_times([0])
    await search.hosting.lead(epoch=1, isr=(1, 2), replicas=(1, 2))
    search.write_times([10])
    for committed_only in (False, True):
        found = await search.find(BASE_TIMESTAMP_MS + 10, committed_only=committed_only)
        assert found == NOT_FOUND
        assert await search.find(-1, committed_only=committed_only) == FoundOffset(-1, 1, 1)


async def test_many_records_are_searched_in_slices(search: Search) -> None:
    count = RECORDS_PER_STEP * 6
    search.write_times(range(count))
    finding = asyncio.ensure_future(search.by_time(count - 1))
    turns = 0
    while not finding.done():
        await asyncio.sleep(0)
        turns += 1
    assert finding.result() == (count - 1, count - 1)
    assert turns >= 6, "other tasks could run in between"


async def test_big_compressed_batches_are_decompressed_by_a_job(search: Search) -> None:
    chance = random.Random(1)
    for size, jobs in ((1000, 0), (inflating.JOB_BYTES_MIN, 1)):
        search.hosting.jobs.done.clear()
        offset = search.replica.log.end_offset
        value = chance.randbytes(size).hex().encode()  # half of it can be saved
        written = [Written(value=value, time_ms=offset)]
        search.write(build(written, codec="gzip"))
        assert await search.by_time(offset) == (offset, offset)
        assert search.hosting.jobs.done.count("decompress") == jobs


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_batches_that_grow_much_are_decompressed_by_a_job(search: Search, codec: str) -> None:
    grows = build([Written(value=bytes(700_000))], codec=codec)
    assert len(grows) < inflating.JOB_BYTES_MIN
    search.write(grows)
    search.hosting.jobs.done.clear()
    assert await search.by_time(0) == (0, 0)
    assert search.hosting.jobs.done.count("decompress") == 1


async def test_the_batches_being_decompressed_are_bounded(search: Search) -> None:
    search.write(build([Written(value=bytes(700_000))], codec="zstd"))
    search.hosting.jobs.hold("decompress")
    finding = [asyncio.ensure_future(search.by_time(0)) for _ in range(OPENED_AT_ONCE_MAX + 3)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(search.hosting.jobs.held) == OPENED_AT_ONCE_MAX
    search.hosting.jobs.release()
    assert await asyncio.gather(*finding) == [(0, 0)] * len(finding)


async def test_a_batch_that_cannot_be_decompressed(search: Search) -> None:
    search.write(around(b"no gzip at all", count=3, attributes=1))
    with pytest.raises(ApiError) as caught:
        await search.find(0)
    assert caught.value.code == Code.CORRUPT_MESSAGE


async def test_a_batch_that_exceeds_the_decompressed_size(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflating, "INFLATED_BYTES_MAX", 10_000)
    monkeypatch.setattr(inflating, "JOB_BYTES_MIN", 1_000)
    search.write(build([Written(value=bytes(9000))], codec="zstd"))
    assert await search.by_time(0) == (0, 0)
    search.write(build([Written(value=bytes(20_000), time_ms=9)], codec="zstd"))
    with pytest.raises(ApiError) as caught:
        await search.by_time(9)
    assert caught.value.code == Code.CORRUPT_MESSAGE


async def test_a_new_leader_does_not_answer_above_its_high_watermark(
    search: Search,
) -> None:
    """It was acknowledged, perhaps, before this leader epoch: KIP-207."""
    search.write_times([10, 20, 30])
    partition = search.replica.partition
    partition.high_watermark, partition.epoch_start = 2, 3
    for timestamp in (-1, BASE_TIMESTAMP_MS + 30, MAX_TIMESTAMP):
        with pytest.raises(ApiError) as raised:
            await search.find(timestamp)
        assert raised.value.code == Code.OFFSET_NOT_AVAILABLE
    assert (await search.find(-2)).offset == 0
    assert await search.by_time(15) == (20, 1)
    partition.high_watermark = 3
    assert (await search.find(-1)).offset == 3
    assert await search.by_time(30) == (30, 2)
