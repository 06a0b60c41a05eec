"""The way to a broker: in order, one at a time, and a failure is an answer too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from kavka.server.cluster.control_messages import LeaderAndIsr, StopReplica, UpdateMetadata
from kavka.server.controller import channels
from kavka.server.controller.channels import Channels
from kavka.server.controller.events import (
    Event,
    LeaderAndIsrResponseReceived,
    Request,
    Send,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from kavka.wire.errors import ErrorCode
from support.controlled_broker import ControlledBroker
from support.virtual import VirtualClock, VirtualTasks, settle

REQUESTS: tuple[Request, ...] = (
    LeaderAndIsr(0, 1, 1, (), ()),
    UpdateMetadata(0, 1, 1, (), ()),
    StopReplica(0, 1, 1, ()),
)

Body = Callable[[Channels, ControlledBroker, list[Event]], Awaitable[None]]


def run(body: Body) -> None:
    async def main() -> None:
        events: list[Event] = []
        broker = ControlledBroker()
        made = Channels(events.append, VirtualTasks(VirtualClock()))
        made.open(0, broker)
        await body(made, broker, events)

    asyncio.run(main())


def test_requests_are_done_one_by_one_in_order() -> None:
    async def body(made: Channels, broker: ControlledBroker, events: list[Event]) -> None:
        broker.gate.clear()
        for request in REQUESTS:
            made.send(Send(0, request))
        await settle()
        assert broker.requests == [] and not made.idle
        broker.gate.set()
        await settle()
        assert broker.requests == list(REQUESTS)
        assert [type(event) for event in events] == [
            LeaderAndIsrResponseReceived,
            UpdateMetadataResponseReceived,
            StopReplicaResponseReceived,
        ]
        assert made.idle

    run(body)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_broker_that_fails_has_answered(
    request_: Request, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(made: Channels, broker: ControlledBroker, events: list[Event]) -> None:
        broker.failure = RuntimeError("a bug")
        made.send(Send(0, request_))
        made.send(Send(0, REQUESTS[1]))
        await settle()
        failed, fine = events
        if isinstance(failed, LeaderAndIsrResponseReceived | StopReplicaResponseReceived):
            assert failed.response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
        else:
            assert isinstance(failed, UpdateMetadataResponseReceived)
            assert failed.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert fine == UpdateMetadataResponseReceived(0, REQUESTS[1], ErrorCode.NONE)  # type: ignore[arg-type]

    with caplog.at_level(logging.ERROR):
        run(body)
    (record,) = caplog.records
    assert record.exc_info is not None


def test_a_broker_without_a_channel_is_told_nothing() -> None:
    async def body(made: Channels, broker: ControlledBroker, events: list[Event]) -> None:
        made.send(Send(7, REQUESTS[0]))
        await settle()
        assert broker.requests == [] and events == [] and made.idle

    run(body)


def test_close_forgets_what_waits_and_lets_the_broker_finish() -> None:
    async def body(made: Channels, broker: ControlledBroker, events: list[Event]) -> None:
        broker.gate.clear()
        made.send(Send(0, REQUESTS[0]))
        made.send(Send(0, REQUESTS[1]))
        await settle()
        made.close()
        made.send(Send(0, REQUESTS[2]))
        broker.gate.set()
        await settle()
        assert broker.requests == [REQUESTS[0]]
        assert events == []

    run(body)


def test_unanswered_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "QUEUED_REQUESTS_MAX", 2)

    async def body(made: Channels, broker: ControlledBroker, events: list[Event]) -> None:
        made.send(Send(0, REQUESTS[0]))
        made.send(Send(0, REQUESTS[0]))
        with pytest.raises(OverflowError):
            made.send(Send(0, REQUESTS[0]))
        await settle()

    run(body)
