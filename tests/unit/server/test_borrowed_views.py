"""That no view of a request is looked at when its bytes are others': with such a fault planted,
the tests' own arenas and jobs must find it, and production's must do no harm."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.seams import Pool
from kavka.server.replica.batch_admission import InlineBudget
from kavka.server.request.context import RequestContext
from kavka.wire.errors import ErrorCode as Code
from kavka.wire.frame import Arena, ArenaPool, Framer
from support import strict_arenas
from support.memory_broker import MemoryBroker, producing, scenario
from support.stored import bare, stored
from support.virtual import DeferredJobs, run_until_idle

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TYPES = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
NOISE = random.Random(5).randbytes(120_000)
PARTITIONS = 4


@pytest.fixture
def expects_findings() -> Iterator[None]:
    """For a test in which something must be found."""
    yield
    assert strict_arenas.found
    strict_arenas.found.clear()


def plant(patch: pytest.MonkeyPatch) -> None:
    """Batches are looked at later in the buffer they came in, and nothing is kept for that."""

    def at_once(budget: InlineBudget, own: object) -> None:
        init(budget, lambda view: view)

    init = InlineBudget.__init__
    patch.setattr(InlineBudget, "__init__", at_once)
    patch.setattr(RequestContext, "keep_frame", lambda context: None)


def batches(codec: str = "none") -> dict[tuple[str, int], bytearray]:
    """A batch for each partition, most of which are too big to be compressed at once."""
    return {
        ("t", index): build(
            [Written(b"k", b"%d" % index + b"V" * 6_000 + NOISE[index : 6_000 * (index + 1)])] * 2,
            codec=codec,
        )
        for index in range(PARTITIONS)
    }


async def produce_beside_others(
    broker: MemoryBroker, compression_type: str, *, codec: str = "none", others: int = 3
) -> list[int]:
    """Send several batches, and have others send theirs before a job begins; the error codes."""
    await broker.create("t", partitions=PARTITIONS, configs={"compression.type": compression_type})
    await broker.create("noise")
    broker.jobs.hold()
    victim = broker.client.send("Produce", 9, **producing(batches(codec)))
    await run_until_idle()
    for _ in range(others):
        noise = build([Written(b"n", b"N" * 60_000)])
        await broker.connect().ask("Produce", 9, **producing({("noise", 0): noise}))
    broker.jobs.release()
    answer = await victim
    return [partition.error_code for partition in answer.responses[0].partition_responses]


async def assert_all_there(broker: MemoryBroker) -> None:
    for (topic, index), sent in batches().items():
        (found,) = await stored(broker, topic, index)
        assert bare(found) == bare(sent)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("compression_type", TYPES)
@scenario()
async def test_batches_of_one_request_that_wait_for_threads(
    broker: MemoryBroker, compression_type: str, codec: str
) -> None:
    codes = await produce_beside_others(broker, compression_type, codec=codec)
    assert codes == [Code.NONE] * PARTITIONS
    await assert_all_there(broker)


def test_a_job_with_a_view_of_a_request_is_found(expects_findings: None) -> None:
    pool = ArenaPool()
    framer = Framer(pool, 1000)
    framer.get_buffer()[:5] = b"\0\0\0\1x"
    framer.buffer_updated(5)
    frame = framer.next_frame()

    async def in_a_job() -> bytes:
        found: bytes = await DeferredJobs().run(Pool.COMPUTE, bytes, frame)
        return found

    framer.retain_frame()
    assert asyncio.run(in_a_job()) == b"x", "it is kept"
    framer.release_frame()
    with pytest.raises(strict_arenas.ViewedForTooLong, match="a job looks at 1 bytes"):
        asyncio.run(in_a_job())


def test_a_view_that_outlives_its_request_is_found(expects_findings: None) -> None:
    pool = ArenaPool()
    first, second = Framer(pool, 1000), Framer(pool, 1000)
    first.get_buffer()[:5] = b"\0\0\0\1x"
    kept = [first.single_frame(5)]
    with pytest.raises(strict_arenas.ViewedForTooLong, match="1 bytes, held by list"):
        second.get_buffer()
    del kept
    second.get_buffer()


OLDER: list[object] = []
"""It was there before the test, and so is left out of most searches."""


def test_a_view_that_something_older_holds_is_found(expects_findings: None) -> None:
    pool = ArenaPool()
    first, second = Framer(pool, 1000), Framer(pool, 1000)
    first.get_buffer()[:5] = b"\0\0\0\1x"
    OLDER.append(first.single_frame(5))
    with pytest.raises(strict_arenas.ViewedForTooLong, match="1 bytes, held by list"):
        second.get_buffer()
    OLDER.clear()
    second.get_buffer()


@scenario()
async def test_without_the_count_of_views_other_bytes_are_looked_at(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault as it once was: what the arenas are filled with is no batch's records."""
    plant(monkeypatch)
    monkeypatch.setattr(strict_arenas, "check_owned", lambda args: None)
    monkeypatch.setattr(Arena, "is_viewed", lambda arena: False)
    assert await produce_beside_others(broker, "gzip") == [Code.INVALID_RECORD] * PARTITIONS


@scenario()
async def test_in_production_it_does_no_harm(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arena that is looked at is not used again, whether or not that was announced."""
    plant(monkeypatch)
    monkeypatch.setattr(strict_arenas, "check_owned", lambda args: None)
    for name in ("release", "staging_buffer", "abandon"):
        monkeypatch.setattr(ArenaPool, name, strict_arenas.AS_IN_PRODUCTION[name])
    assert await produce_beside_others(broker, "gzip") == [Code.NONE] * PARTITIONS
    await assert_all_there(broker)
