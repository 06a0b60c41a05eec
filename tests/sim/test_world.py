"""The simulated world's own rules."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from kavka.log.memfs import MemFs
from kavka.seams import Pool
from sim.jobs import SimJobs, Speed
from sim.loop import Deadlock, Process, SimLoop
from sim.network import Quality, SimNetwork
from sim.plan import draw
from sim.run import Outcome, shrink
from sim.trace import Trace


class World:
    """Two processes on two hosts."""

    def __init__(self, seed: int = 1, **quality: Any) -> None:
        self.loop = SimLoop(random.Random(seed))  # type: ignore[abstract]
        self.trace = Trace(lambda: self.loop.now_s)
        self.network = SimNetwork(self.loop, random.Random(seed), self.trace, Quality(**quality))
        self.one, self.other = Process(self.loop, "one"), Process(self.loop, "other")

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    async def connect(self) -> tuple[End, End]:
        """A connection from one to the other: both ends."""
        listening = await self.network.host(self.other, "other").bind("", 9092)
        accepted = End()

        async def accept() -> None:
            await listening.accept(lambda _: accepted)

        await self.other.spawn(accept(), name="accept")
        host = self.network.host(self.one, "one")
        transport = await self.one.spawn(host.connect("other", 9092, End), name="connect")
        end = transport.get_protocol()
        await asyncio.sleep(1)
        return end, accepted


class End(asyncio.Protocol):
    """What arrives, and how it ended."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.received = bytearray()
        self.pieces = 0
        self.lost: list[Exception | None] = []
        self.is_writable = True

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.pieces += 1

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


def test_time_passes_only_when_nothing_can_run() -> None:
    world = World()
    seen = []

    async def wait(process: Process, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        seen.append((process.name, world.loop.now_s))

    async def main() -> None:
        world.one.spawn(wait(world.one, 3), name="a")
        world.other.spawn(wait(world.other, 2), name="b")
        for _ in range(100):
            await asyncio.sleep(0)
        assert world.loop.now_s == 0
        await asyncio.sleep(10)

    world.run(main())
    assert seen == [("other", 2.0), ("one", 3.0)]


def test_clocks_drift_and_are_set() -> None:
    world = World()
    fast = Process(world.loop, "fast", offset_ms=5000, drift=0.5)

    async def wait() -> tuple[float, int]:
        before_s, before_ms = fast.elapsed_s(), fast.now_ms()
        await asyncio.sleep(3)
        return fast.elapsed_s() - before_s, fast.now_ms() - before_ms

    async def main() -> None:
        assert fast.now_ms() - world.one.now_ms() == 5000
        assert await fast.spawn(wait(), name="wait") == (3.0, 3000)
        assert world.loop.now_s == 2.0

    world.run(main())


def test_a_killed_process_runs_no_further() -> None:
    world = World()
    seen = []

    async def work() -> None:
        try:
            seen.append("begun")
            await asyncio.sleep(1)
        finally:
            seen.append("ended")

    async def main() -> None:
        world.one.spawn(work(), name="work")
        await asyncio.sleep(0.5)
        world.one.kill()
        await asyncio.sleep(5)
        assert seen == ["begun"]

    world.run(main())


def test_a_paused_process_goes_on_where_it_was() -> None:
    world = World()

    async def wait() -> float:
        await asyncio.sleep(1)
        return world.loop.now_s

    async def main() -> None:
        task = world.one.spawn(wait(), name="wait")
        await asyncio.sleep(0.5)
        world.one.pause()
        await asyncio.sleep(9.5)
        assert not task.done()
        world.one.resume()
        assert await task == 10.0

    world.run(main())


def test_waiting_for_nothing_is_a_deadlock() -> None:
    world = World()
    with pytest.raises(Deadlock):
        world.run(never(world))


async def never(world: World) -> None:
    await world.loop.create_future()


def test_bytes_arrive_in_order_and_in_pieces() -> None:
    world = World(pieces_share=0.9, window_bytes=5000)
    data = random.Random(3).randbytes(100_000)

    async def main() -> None:
        sender, receiver = await world.connect()
        sender.transport.write(memoryview(data))
        assert not sender.is_writable
        await asyncio.sleep(60)
        assert sender.is_writable
        assert bytes(receiver.received) == data
        assert receiver.pieces > 100

    world.run(main())


def test_what_is_not_read_stays_with_the_sender() -> None:
    world = World(window_bytes=1000)

    async def main() -> None:
        sender, receiver = await world.connect()
        receiver.transport.pause_reading()
        sender.transport.write(bytes(2500))
        await asyncio.sleep(60)
        assert sender.transport.get_write_buffer_size() == 1500
        assert not receiver.received
        receiver.transport.resume_reading()
        await asyncio.sleep(60)
        assert len(receiver.received) == 2500

    world.run(main())


def test_a_sender_that_was_paused_hears_that_it_may_write_again() -> None:
    """Acknowledgements that are due meanwhile are counted by the next write."""
    world = World(window_bytes=100)

    async def main() -> None:
        sender, receiver = await world.connect()
        world.one.run(sender.transport.write, bytes(150))
        world.one.pause()
        world.one.call_soon(sender.transport.write, bytes(10))
        await asyncio.sleep(1)
        assert not sender.is_writable
        world.one.resume()
        await asyncio.sleep(60)
        assert len(receiver.received) == 160
        assert sender.is_writable

    world.run(main())


def test_a_cut_path_delays_and_then_ends_the_connection() -> None:
    world = World()

    async def main() -> None:
        sender, receiver = await world.connect()
        world.network.cut("one", "other")
        sender.transport.write(b"early")
        await asyncio.sleep(5)
        assert not receiver.received
        world.network.heal()
        await asyncio.sleep(5)
        assert bytes(receiver.received) == b"early"
        world.network.cut("other", "one")
        sender.transport.write(b"late")
        await asyncio.sleep(60)
        assert isinstance(sender.lost[0], TimeoutError)
        assert not receiver.lost, "it is half open"
        world.network.heal()
        receiver.transport.write(b"?")
        await asyncio.sleep(5)
        assert isinstance(receiver.lost[0], ConnectionResetError)

    world.run(main())


def test_what_was_sent_before_a_close_arrives() -> None:
    world = World()

    async def main() -> None:
        sender, receiver = await world.connect()
        sender.transport.write(b"last words")
        sender.transport.close()
        await asyncio.sleep(5)
        assert bytes(receiver.received) == b"last words"
        assert sender.lost == receiver.lost == [None]

    world.run(main())


def test_the_end_of_a_process_ends_its_connections_but_a_power_cut_says_nothing() -> None:
    for silently in (False, True):
        world = World()

        async def main(world: World, silently: bool) -> None:
            sender, receiver = await world.connect()
            world.other.kill()
            if silently:
                world.network.dark.add("other")
            world.network.end_process(world.other, silently=silently)
            await asyncio.sleep(5)
            assert sender.lost == ([] if silently else [None])
            assert not receiver.lost, "the dead hear nothing"
            world.network.light("other")
            sender.transport.write(b"?")
            await asyncio.sleep(60)
            if silently:
                assert isinstance(sender.lost[0], ConnectionResetError)

        world.run(main(world, silently))


def test_jobs_end_in_another_order_than_they_began() -> None:
    orders = set()
    for seed in range(10):
        world = World(seed)
        jobs = SimJobs(world.loop, world.one, MemFs(), random.Random(seed), Speed())
        ended: list[int] = []

        async def main(jobs: SimJobs, ended: list[int]) -> None:
            def add(number: int) -> None:
                ended.append(number)

            await asyncio.gather(*(jobs.run(Pool.WRITE, add, number) for number in range(4)))

        world.run(world_main(world, main(jobs, ended)))
        assert sorted(ended) == [0, 1, 2, 3]
        orders.add(tuple(ended))
    assert len(orders) > 3


async def world_main(world: World, work: Coroutine[Any, Any, Any]) -> None:
    await world.one.spawn(work, name="work")


def test_a_failure_shrinks_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it needed one fault and one actor."""
    plan = next(
        drawn
        for drawn in map(draw, range(1, 100))
        if len(drawn.faults) > 3 and len(drawn.actors) > 4
    )
    fault, actor = plan.faults[2], plan.actors[1]

    def run_plan(tried: Any) -> Outcome:
        kinds = [each.kind for each in tried.faults]
        fails = fault.kind in kinds and actor in tried.actors
        return Outcome(tried, 0.0, 0, "", 0, ["1.000 s: I1 lost: it"] if fails else [])

    monkeypatch.setattr("sim.run.run_plan", run_plan)
    found = shrink(run_plan(plan), 1000, lambda: None)
    assert [left.kind for left in found.plan.faults] == [fault.kind]
    assert found.plan.actors == (actor,)
    assert shrink(run_plan(plan), 0, lambda: None).plan == plan
