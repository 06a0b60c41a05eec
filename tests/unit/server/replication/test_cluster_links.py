"""Controlled shutdown, as the broker that stops sees it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kavka.client.errors import NotConnected
from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings
from kavka.server.replica.replication_quotas import ReplicationQuotas
from kavka.server.replication.cluster_links import ClusterLinks
from kavka.wire.errors import ApiError, ErrorCode
from support.virtual import VirtualClock, VirtualTasks, run_until_idle

BACKOFF_S = 5.0
LIMIT_S = 30.0
NEVER = -1


class Controller:
    """`ControllerClient` that answers as a test says: an exception, or how many partitions remain
    led by the broker."""

    def __init__(self, *answers: Exception | int, others: bool = True) -> None:
        self.answers = list(answers)
        self.others = others

    async def shut_down(self) -> int:
        answer = self.answers.pop(0)
        if answer == NEVER:
            await asyncio.get_running_loop().create_future()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def has_others(self) -> bool:
        return self.others


class Unused:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


async def shut_down(controller: Any, *overrides: str) -> float:
    """Stop; how long that takes."""
    clock = VirtualClock()
    tasks, unused = VirtualTasks(clock), Unused()
    settings = BrokerSettings.load(
        environ={}, overrides=["zookeeper.connect=z:1", "broker.id=1", *overrides]
    )
    links = ClusterLinks(
        settings,
        unused,  # type: ignore[arg-type]
        controller,
        unused,  # type: ignore[arg-type]
        unused,  # type: ignore[arg-type]
        ReplicationQuotas(LiveSettings(settings), clock),
        clock=clock,
        tasks=tasks,
    )
    began_s = clock.monotonic_s()
    stopping = asyncio.ensure_future(links.shut_down())
    await run_until_idle()
    while not stopping.done():
        await tasks.advance(1000)
    stopping.result()
    return clock.monotonic_s() - began_s


async def test_it_stops_as_soon_as_others_lead(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert await shut_down(Controller(0)) == 0
    failures = NotConnected("x"), ApiError(ErrorCode.NOT_CONTROLLER)
    controller = Controller(*failures, 3, 0)
    assert await shut_down(controller) == 3 * BACKOFF_S
    assert not controller.answers
    assert "stopping although" not in caplog.text


async def test_it_stops_in_any_case(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert await shut_down(Controller(3, 3, 3, 3)) == 3 * BACKOFF_S
    assert "stopping although other brokers do not lead all" in caplog.text
    two = ("controlled.shutdown.max.retries=1", "controlled.shutdown.retry.backoff.ms=1000")
    assert await shut_down(Controller(3, 3), *two) == 1
    assert await shut_down(Controller(), "controlled.shutdown.enable=false") == 0


async def test_the_last_broker_waits_for_nobody() -> None:
    assert await shut_down(Controller(3, others=False)) == 0


async def test_a_controller_that_does_not_answer_is_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It may be in this process, and wait for ZooKeeper; Apache Kafka's limit for each attempt."""
    assert await shut_down(Controller(NEVER, 0)) == LIMIT_S + BACKOFF_S
    assert "has not answered within 30 s" in caplog.text
    short = "controller.socket.timeout.ms=1000"
    assert await shut_down(Controller(*4 * [NEVER]), short) == 4 * 1 + 3 * BACKOFF_S
