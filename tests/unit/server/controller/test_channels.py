"""Channels to brokers: requests in order, one in flight; a failure is a response too."""

from __future__ import annotations

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
from kavka.zktree.api import ConnectionLost
from support.controlled_broker import ControlledBroker
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

REQUESTS: tuple[Request, ...] = (
    LeaderAndIsr(0, 1, 1, (), ()),
    UpdateMetadata(0, 1, 1, (), ()),
    StopReplica(0, 1, 1, ()),
)


def opened() -> tuple[Channels, ControlledBroker, list[Event]]:
    """The channel to broker 0, that broker, and the responses that have come."""
    events: list[Event] = []
    broker = ControlledBroker()
    broker_channels = Channels(events.append, VirtualTasks(VirtualClock()))
    broker_channels.open(0, broker)
    return broker_channels, broker, events


async def test_requests_are_sent_one_at_a_time_in_order() -> None:
    broker_channels, broker, events = opened()
    broker.gate.clear()
    for request in REQUESTS:
        broker_channels.send(Send(0, request))
    await run_until_idle()
    assert broker.requests == [] and not broker_channels.is_idle(0)
    broker.gate.set()
    await run_until_idle()
    assert broker.requests == list(REQUESTS)
    assert [type(event) for event in events] == [
        LeaderAndIsrResponseReceived,
        UpdateMetadataResponseReceived,
        StopReplicaResponseReceived,
    ]
    assert broker_channels.is_idle(0)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
@pytest.mark.parametrize(
    ("failure", "is_bug"),
    [(RuntimeError("a bug"), True), (ConnectionLost("/data: full"), False)],
    ids=["a bug", "end of the session"],
)
async def test_a_failure_of_the_broker_is_a_response(
    request_: Request, failure: Exception, is_bug: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker_channels, broker, events = opened()
    broker.failure = failure
    broker_channels.send(Send(0, request_))
    broker_channels.send(Send(0, REQUESTS[1]))
    await run_until_idle()
    failed, fine = events
    if isinstance(failed, LeaderAndIsrResponseReceived | StopReplicaResponseReceived):
        assert failed.response.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert isinstance(failed, UpdateMetadataResponseReceived)
        assert failed.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert fine == UpdateMetadataResponseReceived(0, REQUESTS[1], ErrorCode.NONE)  # type: ignore[arg-type]
    (record,) = caplog.records
    assert (record.exc_info is not None) == is_bug


async def test_a_broker_without_a_channel_gets_no_request() -> None:
    broker_channels, broker, events = opened()
    broker_channels.send(Send(7, REQUESTS[0]))
    await run_until_idle()
    assert broker.requests == [] and events == [] and broker_channels.is_idle(0)


async def test_close_drops_the_queue_and_ignores_the_response_in_flight() -> None:
    broker_channels, broker, events = opened()
    broker.gate.clear()
    broker_channels.send(Send(0, REQUESTS[0]))
    broker_channels.send(Send(0, REQUESTS[1]))
    await run_until_idle()
    broker_channels.close()
    broker_channels.send(Send(0, REQUESTS[2]))
    broker.gate.set()
    await run_until_idle()
    assert broker.requests == [REQUESTS[0]]
    assert events == []


async def test_pending_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "QUEUED_REQUESTS_MAX", 2)
    broker_channels, broker, events = opened()
    broker_channels.send(Send(0, REQUESTS[0]))
    broker_channels.send(Send(0, REQUESTS[0]))
    with pytest.raises(OverflowError):
        broker_channels.send(Send(0, REQUESTS[0]))
    await run_until_idle()
