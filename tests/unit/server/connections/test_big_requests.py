"""Requests that name thousands: decoded beside others, and for the rest as any (see
`Dispatcher._call_later`)."""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import Callable
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.codec.wire_client import encode
from kavka.server.broker import Broker
from kavka.server.connections import dispatch
from kavka.server.connections.dispatch import BIG_BYTES
from kavka.server.request.context import RequestContext
from kavka.server.request.sliced_responses import encode_in_slices
from kavka.wire.apis import metadata
from kavka.wire.codec.long_messages import ITEMS_PER_STEP, decode_in_steps
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, fetching, producing, scenario
from support.memory_network import Closed, until
from support.pauses import pauses_of
from support.virtual import run_until_idle

VERSION = 9
NAMES = [f"topic-{number:05d}" for number in range(5_000)]
PAUSES = len(NAMES) // ITEMS_PER_STEP
TOPIC_CLASS = "MetadataRequestTopic"
"""What the codec makes of each name."""


def asking(names: list[str]) -> dict[str, Any]:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}


class Script:
    """The handler of Metadata: notes requests, and answers as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[int] = []
        """Of each the number of names."""
        self.answer: Callable[[RequestContext, Any], Any] = self.plain
        table: Any = dispatch.HANDLERS
        monkeypatch.setitem(table, metadata.API.key, (metadata.API, self.handle))

    def handle(self, broker: Broker, context: RequestContext, request: Any) -> Any:
        self.calls.append(len(request.topics))
        return self.answer(context, request)

    def plain(self, context: RequestContext, request: Any) -> metadata.MetadataResponse:
        return metadata.MetadataResponse(
            topics=[metadata.TopicResponse(topic.name, None) for topic in request.topics]
        )


# -- turns and order ------------------------------------------------------------------------


def test_the_loop_runs_others_while_a_request_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    @scenario()
    async def story(broker: MemoryBroker) -> None:
        script, pauses = Script(monkeypatch), pauses_of(broker)
        other = broker.connect()
        big = broker.client.send("Metadata", VERSION, **asking(NAMES))
        await until(lambda: pauses, "it is being decoded")
        assert (await other.ask("Metadata", VERSION, **asking(["a"]))).topics[0].name == "a"
        assert script.calls == [1]
        await until(lambda: len(script.calls) == 2, "it is decoded")
        assert len(pauses) >= PAUSES
        await until(big.done, "an answer")
        assert len(pauses) >= 3 * PAUSES, "it is encoded in as many slices, and its errors counted"
        assert [topic.name for topic in big.result().topics] == NAMES

    story()


def test_the_next_of_its_connection_does_not_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    @scenario()
    async def story(broker: MemoryBroker) -> None:
        script = Script(monkeypatch)
        sizes = [1, 5_000, 2, 3_000, 2_000, 3]
        answers = [
            broker.client.send("Metadata", VERSION, **asking(NAMES[:size])) for size in sizes
        ]
        await until(answers[-1].done, "all answers")
        assert script.calls == sizes
        assert [len(answer.result().topics) for answer in answers] == sizes

    story()


def test_the_next_waits_for_what_the_handler_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[asyncio.Future[None]] = []
    answered: list[asyncio.Future[None]] = []

    @scenario()
    async def story(broker: MemoryBroker) -> None:
        script = Script(monkeypatch)

        async def later(context: RequestContext, request: Any) -> Any:
            await answered[-1]
            return script.plain(context, request)

        def begin(context: RequestContext, request: Any) -> Any:
            context.applied = broker.tasks.future()
            applied.append(context.applied)
            answered.append(broker.tasks.future())
            script.answer = script.plain
            return later(context, request)

        script.answer = begin
        big = broker.client.send("Metadata", VERSION, **asking(NAMES))
        small = broker.client.send("Metadata", VERSION, **asking(["a"]))
        await until(lambda: applied, "it is decoded")
        await run_until_idle()
        assert script.calls == [len(NAMES)]
        applied[0].set_result(None)
        await until(lambda: len(script.calls) == 2, "the next")
        await run_until_idle()
        assert not small.done()
        answered[0].set_result(None)
        await until(small.done, "both answers")
        assert len(big.result().topics) == len(NAMES)

    story()


def test_a_request_that_is_applied_last_is_not_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is ready, and encoded, in the same iteration."""

    @scenario()
    async def story(broker: MemoryBroker) -> None:
        script = Script(monkeypatch)

        def begin(context: RequestContext, request: Any) -> Any:
            context.applied = broker.tasks.future()
            return end(context, script.plain(context, request), context.applied)

        async def end(context: RequestContext, answer: Any, applied: Any) -> Any:
            made = await encode_in_slices(broker.tasks, metadata.API, context, answer)
            applied.set_result(None)
            return made

        script.answer = begin
        sizes = [5_000, 4_000, 3]
        answers = [
            broker.client.send("Metadata", VERSION, **asking(NAMES[:size])) for size in sizes
        ]
        await until(answers[-1].done, "all answers")
        assert script.calls == sizes

    story()


@scenario()
async def test_a_connection_is_not_read_meanwhile(broker: MemoryBroker) -> None:
    pauses = pauses_of(broker)
    big = broker.client.send("Metadata", VERSION, **asking(NAMES))
    await until(lambda: pauses, "it is being decoded")
    assert not broker.client.transport.is_reading()
    assert broker.parts.arenas.in_use_bytes > 0
    await until(big.done, "an answer")
    await run_until_idle()
    assert broker.client.transport.is_reading()
    assert broker.parts.arenas.in_use_bytes == 0


@scenario()
async def test_it_is_done_to_its_end_when_the_connection_has_ended(broker: MemoryBroker) -> None:
    pauses = pauses_of(broker)
    broker.client.send(
        "LeaveGroup", 3, group_id="g", members=[{"member_id": member_id} for member_id in NAMES]
    )
    await until(lambda: pauses, "it is being decoded")
    connections = broker.connections
    broker.client.transport.abort()
    await until(lambda: connections.orphaned_requests, "the connection has ended")
    assert len(pauses) < PAUSES
    assert broker.parts.arenas.in_use_bytes > 0, "it is being decoded"
    await until(lambda: not connections.orphaned_requests, "it is done")
    assert len(pauses) >= PAUSES
    assert broker.parts.arenas.in_use_bytes == 0
    broker.client = broker.connect()
    assert (await broker.ask("Metadata", VERSION, topics=[])).brokers


# -- which ones -----------------------------------------------------------------------------


def test_only_big_ones_that_are_not_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def noting(api: Any, *rest: Any) -> Any:
        decoded.append(api.name)
        return decode_in_steps(api, *rest)

    monkeypatch.setattr("kavka.server.connections.dispatch.decode_in_steps", noting)

    @scenario(topics={"t": 1})
    async def story(broker: MemoryBroker) -> None:
        pauses = pauses_of(broker)
        await broker.ask("Produce", 9, **producing({("t", 0): build() + bytes(2 * BIG_BYTES)}))
        empty = len(encode("Metadata", 4, 1, **asking([""])))
        for size in (BIG_BYTES, BIG_BYTES + 1):
            assert decoded == []
            await broker.ask("Metadata", 4, **asking(["x" * (size - empty)]))
        assert decoded == ["Metadata"]
        assert not pauses, "little is decoded in one go, however long it is"

    story()


@scenario(topics={"t": 1_200})
async def test_records_are_answered_to_big_requests(broker: MemoryBroker) -> None:
    for partition in (0, 7, 1_199):
        broker.client.tell("Produce", 9, **producing({("t", partition): build()}, acks=0))
    pauses = pauses_of(broker)
    answer = await broker.ask("Fetch", 12, **fetching({("t", index): 0 for index in range(1_200)}))
    partitions = answer.responses[0].partitions
    assert [response.partition_index for response in partitions] == list(range(1_200))
    assert [response.partition_index for response in partitions if response.records] == [
        0,
        7,
        1_199,
    ]
    assert len(pauses) >= 3 * (1_200 // ITEMS_PER_STEP)


# -- what becomes of it ---------------------------------------------------------------------

WHOLE = encode("Metadata", VERSION, 7, **asking(NAMES))
BROKEN = {
    "without its last byte": (WHOLE[:-1], f"it exceeds its frame of {len(WHOLE) - 1} bytes"),
    "with a length that is wrong": (
        WHOLE.replace(b"\x0ctopic-04000", b"\x7ftopic-04000", 1)[: WHOLE.index(b"topic-04002")],
        "field past the end",
    ),
    "with a name that is null": (
        WHOLE.replace(b"\x0ctopic-04000\0", b"\0\0", 1),
        "name is null",
    ),
}


@pytest.mark.parametrize("garbage", BROKEN)
def test_a_malformed_one_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, garbage: str
) -> None:
    frame, reason = BROKEN[garbage]

    @scenario()
    async def story(broker: MemoryBroker) -> None:
        script, pauses = Script(monkeypatch), pauses_of(broker)
        client = broker.connect()
        before = client.send("Metadata", VERSION, **asking(["a"]))
        client.send_frame(frame)
        behind = client.send("Metadata", VERSION, **asking(["b", "c"]))
        caplog.clear()
        await client.closed()
        await run_until_idle()
        assert before.result().topics[0].name == "a"
        assert isinstance(behind.exception(), Closed)
        assert script.calls == [1], "neither it nor what is behind it"
        assert pauses
        assert caplog.messages[-1].endswith(f": malformed Metadata v9: {reason}")
        assert broker.parts.arenas.in_use_bytes == 0

    story()


@pytest.mark.parametrize("garbage", BROKEN)
def test_nothing_is_left_of_a_malformed_one(garbage: str) -> None:
    """Not even for the garbage collector, which seldom looks at all there is: many of these took
    hundreds of megabytes meanwhile."""
    frame, _ = BROKEN[garbage]

    @scenario()
    async def story(broker: MemoryBroker) -> None:
        await run_until_idle()
        gc.collect()
        gc.disable()
        try:
            client = broker.connect()
            client.send_frame(frame)
            await client.closed()
            await run_until_idle()
            # clients of other tests in this process ask in other versions
            topics = [item for item in gc.get_objects() if type(item).__name__ == TOPIC_CLASS]
            left = [topic for topic in topics if topic.version == VERSION]
        finally:
            gc.enable()
        assert not left

    story()


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("code", [Code.NOT_CONTROLLER, None])
def test_failures_are_answered(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    later: bool,
    code: Code | None,
) -> None:
    """An error of the protocol as it is, any other with a line in the log."""
    failure = RuntimeError("a bug") if code is None else ApiError(code)

    def fail(context: RequestContext, request: Any) -> Any:
        if later:
            return wait()
        raise failure

    async def wait() -> None:
        raise failure

    @scenario()
    async def story(broker: MemoryBroker) -> None:
        script = Script(monkeypatch)
        script.answer = fail
        caplog.clear()
        answer = await broker.ask("Metadata", VERSION, **asking(NAMES))
        codes = {topic.error_code for topic in answer.topics}
        assert codes == {Code.UNKNOWN_SERVER_ERROR if code is None else code}
        assert len(caplog.records) == (code is None)

    story()


@scenario()
async def test_it_is_counted_and_timed_as_others(broker: MemoryBroker) -> None:
    stats = broker.parts.requests.of(metadata.API)
    before = stats.counts[VERSION], stats.request_bytes.count, stats.errors[3]
    await broker.ask("Metadata", VERSION, **asking(NAMES))
    after = stats.counts[VERSION], stats.request_bytes.count, stats.errors[3]
    assert after == (before[0] + 1, before[1] + 1, before[2] + len(NAMES))


class Quota:
    """Throttles all."""

    unlimited = False

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        return 250 if request_bytes > BIG_BYTES else 0


@scenario()
async def test_throttled_clients_get_the_throttle_time_and_are_muted(broker: MemoryBroker) -> None:
    broker.parts.quotas = Quota()
    throttled = await broker.ask("Metadata", VERSION, **asking(NAMES))
    assert throttled.throttle_time_ms == 250
    behind = broker.client.send("Metadata", VERSION, **asking(["a"]))
    await broker.advance(249)
    assert not behind.done()
    await broker.advance(1)
    assert behind.result().throttle_time_ms == 0


def test_the_names_that_are_broken_are_where_they_are_looked_for() -> None:
    assert WHOLE.count(b"\x0ctopic-04000\0") == 1
    assert struct.unpack_from(">hh", WHOLE) == (metadata.API.key, VERSION)
