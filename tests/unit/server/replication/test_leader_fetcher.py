"""The fetcher from one leader: what its requests name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kavka.client.errors import Disconnected
from kavka.server.config import BrokerSettings
from kavka.server.replica.replication_quotas import ReplicationQuota
from kavka.server.replication.leader_fetcher import FetcherSettings, LeaderFetcher
from kavka.wire.apis.fetch import FetchRequest, FetchResponse, PartitionResponse, TopicResponse
from kavka.wire.errors import ErrorCode
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

LEADER = 1
TOPIC = UUID(int=7)
SESSION = 5
SETTINGS = FetcherSettings(
    broker_id=2,
    broker_epoch=lambda: 3,
    wait_max_ms=500,
    min_bytes=1,
    response_max_bytes=1000,
    partition_max_bytes=100,
    backoff_max_s=1.0,
)


class Log:
    """As much of a log as a fetcher looks at."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0

    def epoch_of(self, offset: int) -> int:
        return 0


class Followed:
    """As much of a replica as a fetcher looks at. Each byte of records is a record."""

    def __init__(self, index: int) -> None:
        self.key = ("t", index)
        self.topic_id = TOPIC
        self.is_served = True
        self.throttled_as_follower = False
        self.high_watermark = 0
        self.log = Log()
        self.partition = SimpleNamespace(
            leader_epoch=0, is_leader=False, awaits_flush=False, broker_id=2
        )

    def flush_if_awaited(self) -> None: ...

    def truncate(self, offset: int) -> Iterator[None]:
        """As a test has it."""
        raise NotImplementedError

    def append_fetched(self, records: memoryview, high_watermark: int, log_start: int) -> None:
        self.log.end_offset += len(records)


class Leader:
    """`Peers` with one broker, whose answers a test gives."""

    def __init__(self) -> None:
        self.requests: list[FetchRequest] = []
        self.answers: asyncio.Queue[FetchResponse | Exception] = asyncio.Queue(1)

    def client(self, broker_id: int) -> Any:
        return self

    def disconnect(self, broker_id: int) -> None:
        if self.answers.empty():
            self.answers.put_nowait(Disconnected("as it was asked for"))

    async def ask(
        self, api: Any, request: FetchRequest, *, take: Callable[[FetchResponse], Any]
    ) -> Any:
        self.requests.append(request)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return take(answer)


class PassingClock(VirtualClock):
    """Time passes between two looks at the clock, as it does in truth."""

    look_s = 0.0

    def monotonic_s(self) -> float:
        self.elapsed_ms += self.look_s * 1000
        return super().monotonic_s()


class World:
    """A fetcher that has asked for partitions 0 and 1, and its leader."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        clock = clock or VirtualClock()
        self.tasks = VirtualTasks(clock)
        self.leader = Leader()
        self.replicas: list[Any] = [Followed(index) for index in range(3)]
        peers: Any = self.leader
        settings = BrokerSettings.load(environ={}, overrides=[])
        self.quota = ReplicationQuota(settings, 1000, clock)
        self.fetcher = LeaderFetcher(
            LEADER, SETTINGS, peers, self.quota, clock=clock, tasks=self.tasks
        )
        for replica in self.replicas[:2]:
            self.fetcher.add(replica)

    async def answer(self, *answers: PartitionResponse, code: int = 0) -> None:
        """Answer the request under way."""
        topics = [TopicResponse("", TOPIC, answers)] if answers else []
        await self.leader.answers.put(FetchResponse(topics, code, SESSION))
        await run_until_idle()

    def last(self) -> tuple[int, int, dict[int, int], list[int]]:
        """The last request: session, epoch, offsets by partition, forgotten partitions."""
        request = self.leader.requests[-1]
        assert all(topic.topic_id == TOPIC for topic in request.topics)
        offsets = {
            partition.partition: partition.fetch_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        forgotten = [
            partition for topic in request.forgotten_topics_data for partition in topic.partitions
        ]
        return request.session_id, request.session_epoch, offsets, forgotten

    async def close(self) -> None:
        self.fetcher.close()
        await self.answer()


def nothing(index: int, high_watermark: int = 0) -> PartitionResponse:
    return PartitionResponse(index, 0, high_watermark, log_start_offset=0)


def records(index: int) -> PartitionResponse:
    return PartitionResponse(index, 0, 0, log_start_offset=0, records=b"xyz")


async def test_requests_name_what_has_changed() -> None:
    world = World()
    await run_until_idle()
    assert world.last() == (0, 0, {0: 0, 1: 0}, [])
    await world.answer(nothing(0), nothing(1))
    assert world.last() == (SESSION, 1, {}, [])
    await world.answer(records(1))
    assert world.last() == (SESSION, 2, {1: 3}, [])
    await world.answer()
    assert world.last() == (SESSION, 3, {}, [])
    world.replicas[1].log.start_offset = 2
    world.fetcher.changed(("t", 1))
    await world.answer()
    assert world.last() == (SESSION, 4, {1: 3}, []), "its own retention has deleted records"
    assert world.leader.requests[-1].topics[0].partitions[0].log_start_offset == 2
    world.fetcher.remove(("t", 0))
    await world.answer()
    assert world.last() == (SESSION, 5, {}, [0])
    await world.close()


async def test_a_partition_that_waits_is_not_in_the_session() -> None:
    world = World()
    await run_until_idle()
    await world.answer(nothing(0), PartitionResponse(1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert world.last() == (SESSION, 1, {}, [1])
    await world.tasks.advance(1000)
    await world.answer()
    assert world.last() == (SESSION, 2, {1: 0}, [])
    await world.close()


async def test_a_request_is_answered_when_a_partition_that_waits_is_due() -> None:
    """Such as one of a new topic: the records of others might be waited for much longer."""
    world = World()
    await run_until_idle()
    unknown = PartitionResponse(1, ErrorCode.UNKNOWN_TOPIC_ID)
    await world.tasks.advance(1000)
    await world.answer(nothing(0), nothing(1))
    waits_ms = [world.leader.requests[-1].max_wait_ms]
    for _ in range(8):
        await world.answer(nothing(0), unknown)
        assert world.last()[2].keys() <= {0}
        waits_ms.append(world.leader.requests[-1].max_wait_ms)
        await world.tasks.advance(waits_ms[-1])
        await world.answer()
        await world.tasks.advance(500)
        if 1 not in world.last()[2]:
            await world.answer()
    assert waits_ms == [500, 20, 40, 80, 160, 320, 500, 500, 500]
    await world.close()


async def test_a_new_partition_does_not_wait_for_the_response() -> None:
    world = World()
    await run_until_idle()
    await world.tasks.advance(1000)
    await world.answer(nothing(0), nothing(1))
    assert world.leader.requests[-1].max_wait_ms == 500
    world.fetcher.add(world.replicas[2])
    await run_until_idle()
    assert world.last() == (SESSION, 0, {0: 0, 1: 0, 2: 0}, []), "the session is begun anew"
    await world.answer(nothing(0), nothing(1), nothing(2))
    assert world.last() == (SESSION, 1, {}, [])
    await world.close()


async def test_while_partitions_are_added_no_session_is_begun_anew() -> None:
    """A LeaderAndIsr brings thousands, one after the other: requests wait for a short time then,
    and the next one has what was added meanwhile."""
    world = World()
    await run_until_idle()
    await world.answer(nothing(0), nothing(1))
    assert world.leader.requests[-1].max_wait_ms == 20
    world.fetcher.add(world.replicas[2])
    await run_until_idle()
    assert world.last() == (SESSION, 1, {}, [])
    await world.answer()
    assert world.last() == (SESSION, 2, {2: 0}, [])
    await world.close()


async def test_a_session_that_the_leader_does_not_know_is_begun_at_once() -> None:
    world = World()
    await run_until_idle()
    await world.answer(nothing(0), nothing(1))
    await world.answer(code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert world.last() == (0, 0, {0: 0, 1: 0}, [])
    await world.answer(nothing(0), nothing(1))
    await world.answer(code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert world.last() == (SESSION, 0, {0: 0, 1: 0}, [])
    await world.close()


async def test_other_errors_and_lost_connections_wait() -> None:
    world = World()
    await run_until_idle()
    for failure in (FetchResponse((), ErrorCode.UNKNOWN_SERVER_ERROR), Disconnected("gone")):
        await world.leader.answers.put(failure)
        await run_until_idle()
        before = len(world.leader.requests)
        await run_until_idle()
        assert len(world.leader.requests) == before
        await world.tasks.advance(1000)
        assert world.last() == (0, 0, {0: 0, 1: 0}, [])
        assert len(world.leader.requests) == before + 1
    await world.close()


async def test_a_throttled_partition_is_not_in_the_session_while_it_waits_for_the_quota() -> None:
    world = World()
    world.replicas[1].throttled_as_follower = True
    await run_until_idle()
    much = PartitionResponse(1, 0, 50_000, log_start_offset=0, records=bytes(20_000))
    await world.answer(nothing(0), much)
    assert world.last() == (SESSION, 1, {}, [1])
    await world.answer()
    assert world.last() == (SESSION, 2, {}, [])
    await world.tasks.advance(20_000)
    await world.answer()
    assert world.last() == (SESSION, 3, {1: 20_000}, [])
    await world.close()


async def test_a_partition_that_is_due_between_two_looks_at_the_clock() -> None:
    """It waited for 20 ms: it was not due yet when the fetcher looked, and is when it begins to
    wait."""
    clock = PassingClock()
    world = World(clock)
    await run_until_idle()
    before = len(world.leader.requests)
    clock.look_s = 0.008
    await world.leader.answers.put(Disconnected("gone"))
    await run_until_idle()
    clock.look_s = 0.0
    await world.tasks.advance(0)
    assert len(world.leader.requests) == before + 1
    await world.close()


async def test_a_flush_that_ends_while_another_log_is_prepared() -> None:
    world = World()
    first, second = world.replicas[:2]
    first.partition.awaits_flush = True
    second.log.end_offset = 1
    second.log.epoch_of = lambda offset: -1  # so it is compared by its high watermark

    def truncate(offset: int) -> Iterator[None]:
        yield None
        first.partition.awaits_flush = False
        world.fetcher.wake()
        yield None
        raise OSError("can't be truncated now")

    second.truncate = truncate
    await world.tasks.advance(SETTINGS.wait_max_ms)
    assert world.last() == (0, 0, {0: 0}, []), "it waits for nothing"
    await world.close()
