"""Who is let in, and who has to go: decisions by numbers alone."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.config.address_limits import NO_LIMIT
from kavka.server.connections.limits import (
    DELAY_S_MAX,
    UNTIL_ONE_CLOSES,
    ConnectionLimits,
    Rate,
    RequestMemory,
)

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
TWO_LISTENERS = (
    "listeners=PLAINTEXT://:9092,INSIDE://:9093",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
    "inter.broker.listener.name=INSIDE",
)


def limits_of(*overrides: str) -> ConnectionLimits:
    return ConnectionLimits(BrokerSettings.load(environ={}, overrides=overrides))


def admit(limits: ConnectionLimits, *addresses: str, listener: str = "PLAINTEXT") -> None:
    for address in addresses:
        assert limits.wait_s(listener, 0.0) == 0
        assert limits.admit(listener, address, 0.0) is None


# -- rates ----------------------------------------------------------------------------------


def test_no_limit_counts_nothing() -> None:
    rate = Rate(NO_LIMIT)
    assert [rate.count(0.0) for _ in range(1000)] == [0.0] * 1000


def test_a_burst_of_ten_seconds_worth_is_let_through() -> None:
    """Kafka's Rate takes at least ten of its eleven windows of a second as elapsed."""
    rate = Rate(5)
    assert [rate.count(0.0) for _ in range(50)] == [0.0] * 50
    assert rate.count(0.0) == pytest.approx(1 / 5)  # (51 - 5 * 10) / 5
    assert rate.count(0.0) == pytest.approx(2 / 5)
    assert max(rate.count(0.0) for _ in range(100)) == DELAY_S_MAX


def test_a_rest_forgets() -> None:
    rate = Rate(5)
    for _ in range(60):
        rate.count(0.0)
    assert rate.count(10.9) > 0
    assert rate.count(22.0) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_over_time_no_more_than_the_rate_comes_in(seed: int) -> None:
    """Connections that come as soon as they may, for minutes, stays below limit and first burst."""
    chance = random.Random(seed)
    limit = chance.choice([1, 3, 20, 200])
    rate = Rate(limit)
    now_s, seconds, count = 0.0, 120.0, 0
    while now_s < seconds:
        count += 1
        now_s += rate.count(now_s) + chance.choice([0.0, 0.0001])
    assert limit * seconds * 0.9 < count < limit * (seconds + 12) + 4


def test_a_rate_of_0_accepts_one_connection_a_second() -> None:
    assert Rate(0).count(0.0) == DELAY_S_MAX


# -- one address ----------------------------------------------------------------------------


def test_too_many_of_one_address_are_refused() -> None:
    limits = limits_of("max.connections.per.ip=2")
    admit(limits, A, A, B)
    assert limits.admit("PLAINTEXT", A, 0.0) == 2
    assert limits.open == 3
    limits.left("PLAINTEXT", A)
    admit(limits, A)
    assert limits.admit("PLAINTEXT", A, 0.0) == 2


def test_single_addresses_have_limits_of_their_own() -> None:
    settings = BrokerSettings.load(environ={}, overrides=["max.connections.per.ip=1"])
    limits = ConnectionLimits(settings)
    limits.set_limits(settings, {A: 3, B: 0})
    admit(limits, A, A, A, C)
    assert limits.admit("PLAINTEXT", A, 0.0) == 3
    assert limits.admit("PLAINTEXT", B, 0.0) == 0
    assert limits.admit("PLAINTEXT", C, 0.0) == 1


def test_an_address_that_has_gone_is_forgotten() -> None:
    limits = limits_of()
    for number in range(1000):
        admit(limits, f"10.1.{number // 250}.{number % 250}")
    for number in range(1000):
        limits.left("PLAINTEXT", f"10.1.{number // 250}.{number % 250}")
    assert limits._by_address == {}
    assert limits.open == 0


# -- the whole broker, and listeners --------------------------------------------------------


def test_at_max_connections_new_ones_wait() -> None:
    limits = limits_of("max.connections=2")
    admit(limits, A, B)
    assert limits.wait_s("PLAINTEXT", 0.0) == UNTIL_ONE_CLOSES
    limits.left("PLAINTEXT", A)
    assert limits.wait_s("PLAINTEXT", 0.0) == 0
    assert limits.excess() == 0


def test_the_listener_between_brokers_does_not_wait_if_there_are_others() -> None:
    limits = limits_of("max.connections=2", *TWO_LISTENERS)
    admit(limits, A, B)
    assert limits.wait_s("PLAINTEXT", 0.0) == UNTIL_ONE_CLOSES
    admit(limits, C, listener="INSIDE")
    assert limits.excess() == 1
    assert limits.is_protected("INSIDE")
    assert not limits.is_protected("PLAINTEXT")
    limits.left("PLAINTEXT", A)
    assert limits.excess() == 0


def test_only_unprotected_connections_are_closed() -> None:
    limits = limits_of(
        "max.connections=1", *TWO_LISTENERS, "listener.name.inside.max.connections=9"
    )
    admit(limits, A, B, C, listener="INSIDE")
    assert limits.excess() == 0
    assert not limits_of("max.connections=1").is_protected("PLAINTEXT"), "the only one is not"


def test_a_lowered_limit_makes_an_excess() -> None:
    limits = limits_of()
    admit(limits, A, B, C)
    lower = BrokerSettings.load(environ={}, overrides=["max.connections=1"])
    limits.set_limits(lower, {})
    assert limits.excess() == 2


def test_a_listener_has_the_broker_s_limits_or_its_own() -> None:
    limits = limits_of(
        "max.connections=3", *TWO_LISTENERS, "listener.name.plaintext.max.connections=1"
    )
    admit(limits, A)
    assert limits.wait_s("PLAINTEXT", 0.0) == UNTIL_ONE_CLOSES
    admit(limits, A, A, A, listener="INSIDE")
    assert limits.wait_s("INSIDE", 0.0) == UNTIL_ONE_CLOSES, "the broker's, though protected"
    assert dict((name, now) for name, now, _ in limits.counts())["INSIDE"] == 3


def test_rates_of_the_broker_and_of_listeners() -> None:
    limits = limits_of(
        *TWO_LISTENERS,
        "max.connection.creation.rate=3",
        "listener.name.inside.max.connection.creation.rate=1",
    )
    waits: Counter[str] = Counter()
    for listener, count in [("PLAINTEXT", 30), ("INSIDE", 10)]:
        for _ in range(count):
            limits.admit(listener, A, 0.0)
            waits[listener] += limits.wait_s(listener, 0.0) > 0
    assert waits == {"PLAINTEXT": 0, "INSIDE": 0}, "those inside do not count for the broker's"
    limits.admit("PLAINTEXT", A, 0.0)
    limits.admit("INSIDE", A, 0.0)
    assert limits.wait_s("PLAINTEXT", 0.0) == pytest.approx(1 / 3)
    assert limits.wait_s("INSIDE", 0.0) == pytest.approx(1)
    assert limits.wait_s("PLAINTEXT", 0.4) == 0


# -- memory ---------------------------------------------------------------------------------


def test_memory_without_a_limit() -> None:
    memory = RequestMemory()
    for limit in (-1, 0):
        assert all(memory.reserve(1 << 30, limit, pytest.fail) for _ in range(10))
    assert memory.reserved_bytes == 20 << 30


def test_memory_is_given_while_there_is_any() -> None:
    memory = RequestMemory()
    called: list[str] = []
    assert memory.reserve(60, 100, lambda: called.append("a"))
    assert memory.reserve(60, 100, lambda: called.append("b")), "the last one may exceed it"
    assert not memory.reserve(1, 100, lambda: called.append("c"))
    assert not memory.reserve(1, 100, lambda: called.append("d"))
    assert memory.reserved_bytes == 120
    memory.release(60)
    assert called == ["c", "d"]
    memory.release(60)
    assert called == ["c", "d"], "once"
    assert memory.reserved_bytes == 0


def test_a_request_for_memory_can_be_cancelled() -> None:
    memory = RequestMemory()
    called: list[str] = []
    gone, waiting = partial(called.append, "gone"), partial(called.append, "waiting")
    assert memory.reserve(60, 60, pytest.fail)
    assert not memory.reserve(1, 60, gone) and not memory.reserve(1, 60, waiting)
    memory.cancel(gone)
    memory.cancel(gone)
    memory.release(60)
    assert called == ["waiting"]
