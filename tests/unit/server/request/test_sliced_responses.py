"""Responses that are encoded in slices of the loop, through a connection of a broker in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kavka.server.request.context import Peer, RequestContext
from kavka.server.request.sliced_responses import EncodedResponse, encode_in_slices
from kavka.wire.apis.find_coordinator import API, Coordinator, FindCoordinatorResponse
from kavka.wire.codec import long_messages
from kavka.wire.codec.frames import encode_response
from kavka.wire.errors import ErrorCode
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import Closed

KEYS = [f"g{number}" for number in range(1_100)]
VERSION = 6
CONTEXT = RequestContext(Peer("PLAINTEXT", "10.0.0.1:5555"), VERSION, 77, "c")


def answer(keys: list[str]) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[Coordinator(key, 1, "h", 9, 15) for key in keys])


def test_an_answer_is_written_beside_others() -> None:
    iterations = 0

    async def sleep(delay_s: float) -> None:
        nonlocal iterations
        iterations += 1

    tasks: Any = type("Tasks", (), {"sleep": staticmethod(sleep)})
    found = asyncio.run(encode_in_slices(tasks, API, CONTEXT, answer(KEYS)))
    assert isinstance(found, EncodedResponse)
    assert b"".join(found.frame) == encode_response(API, VERSION, 77, answer(KEYS))[0]
    of_the_whole = {ErrorCode.NONE: 1}
    assert found.errors == {**of_the_whole, ErrorCode.COORDINATOR_NOT_AVAILABLE: len(KEYS)}
    assert iterations >= 2 * (len(KEYS) // long_messages.ITEMS_PER_STEP)


@scenario()
async def test_what_the_client_gets(broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    request = {"key_type": 0, "coordinator_keys": KEYS}
    for throttle_ms in (0, 5):
        quotas = broker.parts.quotas
        monkeypatch.setattr(quotas, "throttle_ms", lambda *_, received=throttle_ms: received)
        found = await broker.ask("FindCoordinator", VERSION, **request)
        assert found.throttle_time_ms == throttle_ms
        assert [
            (coordinator.key, coordinator.error_code) for coordinator in found.coordinators
        ] == [(key, ErrorCode.NONE) for key in KEYS]
        await broker.advance(throttle_ms)


@scenario()
async def test_its_errors_are_counted(broker: MemoryBroker) -> None:
    errors = broker.parts.requests.of(API).errors
    await broker.ask("FindCoordinator", VERSION, key_type=0, coordinator_keys=KEYS)
    assert errors == {ErrorCode.NONE: 1 + len(KEYS)}


@scenario()
async def test_what_can_t_be_written_ends_the_connection(broker: MemoryBroker) -> None:
    await broker.ask("FindCoordinator", VERSION, key_type=0, coordinator_keys=["g"])
    too_long = "#" * 11_000
    client = broker.client
    send = client.send_frame
    client.send_frame = (  # type: ignore[method-assign]
        lambda frame: send(frame.replace(too_long.encode(), b"\xff" * len(too_long)))
    )
    offsets = [{"name": name, "partition_indexes": [0]} for name in (*KEYS, too_long)]
    with pytest.raises(Closed):
        await broker.ask("OffsetFetch", 5, group_id="g", topics=offsets)
