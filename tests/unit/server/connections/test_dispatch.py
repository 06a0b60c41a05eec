"""From frame to handler: what closes a connection, what is answered, and what is logged.

What garbage does was asked of Apache Kafka 4.3.1 with the same bytes.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import pkgutil
import struct
from typing import Any

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.codec.wire_client import CLIENT_ID, encode, framed, header
from kavka.server import handlers
from kavka.server.broker import Broker
from kavka.server.connections import dispatch
from kavka.server.request.context import RequestContext
from kavka.wire import apis
from kavka.wire.apis import controlled_shutdown, list_offsets
from kavka.wire.errors import ApiError
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker, fetching, producing, scenario
from support.memory_network import Closed, until
from support.virtual import run_until_idle

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 0, 1, 2, 3, 19

# -- the table ------------------------------------------------------------------------------


def test_each_api_has_a_handler_of_its_name_and_a_row() -> None:
    rows = {
        api.name: handler.__module__.rpartition(".")[2]
        for table in (dispatch.HANDLERS, dispatch.between_brokers())
        for api, handler in _rows(table)
    }
    modules = {module_info.name for module_info in pkgutil.iter_modules(apis.__path__)}
    assert set(rows.values()) == modules
    own = pkgutil.iter_modules(handlers.__path__)
    assert modules == {module_info.name for module_info in own if not module_info.ispkg}
    for name, module in rows.items():
        assert name.lower() == module.replace("_", "")


def _rows(table: Any) -> Any:
    return table.values()


def test_an_api_may_not_have_two_rows() -> None:
    with pytest.raises(ValueError, match="two rows"):
        dispatch._by_key(list_offsets, list_offsets)


def test_each_handler_handles() -> None:
    for _, handler in (*dispatch.HANDLERS.values(), *dispatch.between_brokers().values()):
        module = importlib.import_module(handler.__module__)
        assert callable(module.handle)


def test_a_lazy_handler_is_imported_when_it_is_first_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    imported, calls = list[str](), list[tuple[Any, ...]]()

    class Module:
        def handle(self, *args: Any) -> str:
            calls.append(args)
            return "answer"

    def imports(name: str) -> Module:
        imported.append(name)
        return Module()

    monkeypatch.setattr("kavka.server.connections.dispatch.import_module", imports)
    handler = dispatch.LazyHandler("heartbeat")
    assert imported == []
    assert [handler(1, 2, 3), handler(4, 5, 6)] == ["answer", "answer"]
    assert imported == [handler.__module__] == ["kavka.server.handlers.heartbeat"]
    assert calls == [(1, 2, 3), (4, 5, 6)]


@pytest.mark.parametrize("name", dispatch.LAZY_MODULES)
def test_there_is_such_a_module_to_import_later(name: str) -> None:
    assert importlib.util.find_spec(name) is not None


# -- what is no request ---------------------------------------------------------------------


def body(key: int, version: int, data: bytes, *, flexible: bool) -> bytes:
    return header(key, version, 7, flexible=flexible) + data


METADATA_9 = encode("Metadata", 9, 7, topics=[{"name": "abc"}])
LIST_OFFSETS_7 = encode(
    "ListOffsets",
    7,
    7,
    replica_id=-1,
    topics=[{"name": "a", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
)

GROWING_NAME = struct.pack(">h", 20_000) + b"\xff" * 20_000
"""Each of its bytes is read as a replacement character, of three bytes."""

CLOSED = {
    "an unknown key": body(999, 0, b"", flexible=False),
    "a negative key": body(-1, 0, b"", flexible=False),
    "a version to come": body(PRODUCE, 14, bytes(20), flexible=True),
    "a negative version": body(METADATA, -1, bytes(20), flexible=False),
    "nothing": b"",
    "three bytes": b"abc",
    "half a header": struct.pack(">hhi", METADATA, 9, 7),
    "a client id past the end": struct.pack(">hhih", METADATA, 1, 7, 500) + b"ab",
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "header tags past the end": body(METADATA, 9, b"\x01\x05\x7fab", flexible=False),
    "a huge array": body(METADATA, 1, struct.pack(">i", 2**31 - 1), flexible=False),
    "an endless varint": body(METADATA, 9, b"\xff" * 30, flexible=True),
    "a null name": body(METADATA, 1, struct.pack(">ih", 1, -1), flexible=False),
    "a name that grows": body(METADATA, 1, struct.pack(">i", 1) + GROWING_NAME, flexible=False),
    "a name that grows, answered later": body(
        CREATE_TOPICS,
        2,
        struct.pack(">i", 1) + GROWING_NAME + struct.pack(">ihiii?", 1, 1, 0, 0, 1000, False),
        flexible=False,
    ),
    "null topics": body(LIST_OFFSETS, 1, struct.pack(">ii", -1, -1), flexible=False),
    "null new topics": body(CREATE_TOPICS, 2, struct.pack(">ii", -1, -1), flexible=False),
    "null topic data": body(PRODUCE, 3, struct.pack(">hhii", -1, -1, 1000, -1), flexible=False),
    **{f"Metadata without its last {n}": METADATA_9[:-n] for n in (1, 2, 3, 5)},
    **{f"ListOffsets without its last {n}": LIST_OFFSETS_7[:-n] for n in (1, 2, 3, 5, 9)},
}


@pytest.mark.parametrize("garbage", CLOSED)
@scenario()
async def test_what_cannot_be_answered_closes(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, garbage: str
) -> None:
    caplog.set_level("INFO")
    caplog.clear()
    client = broker.connect()
    client.send_frame(CLOSED[garbage])
    behind = client.send("Metadata", 9, topics=[])
    await client.closed()
    assert isinstance(behind.exception(), Closed), "nor is anything behind it answered"
    assert not client.frames
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and record.exc_info is None
    assert record.getMessage().startswith("closing connection from 10.0.0.1:5555 on PLAINTEXT: ")
    assert (await broker.ask("Metadata", 9, topics=[])).brokers, "other connections stay"


REASONS = {
    "an unknown key": "unknown API key 999, version 0",
    "a version to come": "Produce v14 is not served",
    "half a header": "request of 8 bytes has an incomplete header",
    "a client id past the end": "malformed Metadata v1: client id past the end of the request",
    "a name that grows, answered later": "the response to CreateTopics v2 can't be encoded: 'h' "
    "format requires -32768 <= number <= 32767",
    "a huge array": "malformed Metadata v1: topics is longer than the request",
    "an endless varint": "malformed Metadata v9: varint too long",
    "a null name": "malformed Metadata v1: name is null",
    "null topic data": "malformed Produce v3: topic_data is null",
    "Metadata without its last 1": "malformed Metadata v9: it exceeds its frame of 26 bytes",
}


@pytest.mark.parametrize("garbage", REASONS)
@scenario()
async def test_the_log_names_the_api_and_the_reason(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture, garbage: str
) -> None:
    caplog.set_level("INFO")
    client = broker.connect()
    client.send_frame(CLOSED[garbage])
    await client.closed()
    assert caplog.messages[-1].endswith(f": {REASONS[garbage]}")


@pytest.mark.parametrize("prefix", [struct.pack(">i", -1), struct.pack(">i", 104_857_601)])
@scenario()
async def test_sizes_that_no_request_has(broker: MemoryBroker, prefix: bytes) -> None:
    client = broker.connect()
    client.send_bytes(prefix)
    await client.closed()


@scenario("socket.request.max.bytes=1000", topics={"t": 1})
async def test_the_size_of_a_request_has_a_limit(broker: MemoryBroker) -> None:
    answer = await broker.ask("Produce", 9, **producing({("t", 0): build()}))
    assert answer.responses[0].partition_responses[0].error_code == Code.NONE
    broker.client.tell("Produce", 9, **producing({("t", 0): build() + bytes(1000)}))
    await broker.client.closed()


# -- what is odd, and answered --------------------------------------------------------------

ANSWERED = {
    "trailing bytes": encode("Metadata", 1, 7, topics=None) + b"trailing",
    "trailing bytes when flexible": encode("Metadata", 12, 7, topics=[]) + b"trailing",
    "no client id": struct.pack(">hhihi", METADATA, 1, 7, -1, -1),
    "a client id below null": struct.pack(">hhihi", METADATA, 1, 7, -2, -1),
    "unknown header tags": header(METADATA, 9, 7, flexible=False)
    + b"\x01\x05\x02ab"
    + encode("Metadata", 9, 7, topics=[])[len(header(METADATA, 9, 7, flexible=True)) :],
    "an array of less than null": body(METADATA, 1, struct.pack(">i", -5), flexible=False),
    "a name that is not UTF-8": body(
        METADATA, 1, struct.pack(">ih", 1, 2) + b"\xff\xfe", flexible=False
    ),
    "a client id that is not UTF-8": struct.pack(">hhih2si", METADATA, 1, 7, 2, b"\xff\xfe", -1),
    "true as two": body(METADATA, 4, struct.pack(">ib", -1, 2), flexible=False),
}


@pytest.mark.parametrize("oddity", ANSWERED)
@scenario()
async def test_what_is_odd_but_whole_is_answered(broker: MemoryBroker, oddity: str) -> None:
    client = broker.connect()
    client.send_frame(ANSWERED[oddity])
    await until(lambda: client.frames, "an answer")
    assert struct.unpack_from(">i", client.frames[0]) == (7,)
    assert (await client.ask("Metadata", 9, topics=[])).brokers, "and the stream goes on behind it"


@scenario(topics={"t": 1})
async def test_requests_in_pieces_and_in_one_piece(broker: MemoryBroker) -> None:
    first = framed(encode("Metadata", 9, 1, topics=[]))
    second = framed(encode("ListOffsets", 7, 2, replica_id=-1, topics=[]))
    client = broker.connect()
    for byte in first + second:
        client.send_bytes(bytes([byte]))
        await run_until_idle(2)
    client.send_bytes(first + second + first[:3])
    await run_until_idle()
    correlation_ids = [struct.unpack_from(">i", frame)[0] for frame in client.frames]
    assert correlation_ids == [1, 2, 1, 2]


def test_a_request_without_a_client_id_in_its_header_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received: list[tuple[str | None, int, int]] = []

    def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
        received.append((context.client_id, context.version, request.broker_id))
        return controlled_shutdown.ControlledShutdownResponse()

    row = (controlled_shutdown.API, handle)
    monkeypatch.setitem(dict_of(dispatch.HANDLERS), controlled_shutdown.API.key, row)

    @scenario()
    async def story(broker: MemoryBroker) -> None:
        for version in (0, 1):
            answer = await broker.ask("ControlledShutdown", version, broker_id=0x12345678)
            assert answer.remaining_partitions == []

    story()
    assert received == [(None, 0, 0x12345678), (CLIENT_ID, 1, 0x12345678)]


# -- handlers that fail ---------------------------------------------------------------------


def fail_with(
    monkeypatch: pytest.MonkeyPatch, key: int, failure: Exception, *, later: bool = False
) -> None:
    """Have the handler of an API raise, at once or when it is awaited."""
    api, _ = dispatch.HANDLERS[key]

    def handle(broker: Broker, context: RequestContext, request: Any) -> Any:
        if later:
            return wait()
        raise failure

    async def wait() -> None:
        raise failure

    monkeypatch.setitem(dict_of(dispatch.HANDLERS), key, (api, handle))


def dict_of(table: Any) -> dict[int, Any]:
    assert isinstance(table, dict)
    return table


@pytest.mark.parametrize("later", [False, True])
def test_a_failure_is_answered_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, later: bool
) -> None:
    @scenario(topics={"t": 1})
    async def story(broker: MemoryBroker) -> None:
        fail_with(monkeypatch, LIST_OFFSETS, RuntimeError("a bug"), later=later)
        caplog.clear()
        assert (await broker.list_offset(-1)).error_code == Code.UNKNOWN_SERVER_ERROR
        (record,) = caplog.records
        assert record.levelno == logging.ERROR and record.exc_info is not None
        for part in ("ListOffsets v9", "10.0.0.1:5555", "tester", "correlation id 2"):
            assert part in record.getMessage()
        assert (await broker.ask("Metadata", 9, topics=[])).brokers
        broker.tasks.failures.clear()  # of the task that was made to fail

    story()


@pytest.mark.parametrize("later", [False, True])
def test_a_refusal_of_the_whole_request_is_answered_and_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, later: bool
) -> None:
    @scenario(topics={"t": 1})
    async def story(broker: MemoryBroker) -> None:
        fail_with(monkeypatch, LIST_OFFSETS, ApiError(Code.NOT_CONTROLLER), later=later)
        caplog.clear()
        assert (await broker.list_offset(-1)).error_code == Code.NOT_CONTROLLER
        assert not caplog.records
        broker.tasks.failures.clear()

    story()


def test_a_failed_produce_with_acks_0_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client waits for no answer and would take one for that to another request."""

    @scenario(topics={"t": 1})
    async def story(broker: MemoryBroker) -> None:
        fail_with(monkeypatch, PRODUCE, RuntimeError("a bug"))
        broker.client.tell("Produce", 9, **producing({("t", 0): build()}, acks=0))
        await broker.client.closed()
        assert not broker.client.frames
        broker.client = broker.connect()
        answer = await broker.produce(build())
        assert answer.error_code == Code.UNKNOWN_SERVER_ERROR

    story()


# -- throttling (KIP-219) -------------------------------------------------------------------


class Quota:
    """Throttles big requests."""

    unlimited = False

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        return 250 if request_bytes > 500 else 0


@scenario(topics={"t": 1})
async def test_throttled_clients_get_the_throttle_time_and_are_muted(broker: MemoryBroker) -> None:
    broker.parts.quotas = Quota()
    big = producing({("t", 0): build() + bytes(500)})
    throttled = await broker.ask("Produce", 9, **big)
    assert throttled.throttle_time_ms == 250
    behind = broker.client.send("Fetch", 12, **fetching({("t", 0): 0}))
    assert (await broker.connect().ask("Metadata", 9, topics=[])).throttle_time_ms == 0
    await broker.advance(249)
    assert not behind.done()
    await broker.advance(1)
    assert behind.result().throttle_time_ms == 0
