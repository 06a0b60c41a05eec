"""The clients that push metrics: when they may, and the responses. Rules are those of Apache
Kafka's ClientMetricsManager (KIP-714), whose answers the differential test compares."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from crc32c import crc32c

from kavka.server.config.subscriptions import subscription
from kavka.server.telemetry import clients as module
from kavka.server.telemetry.clients import (
    DEFAULT_INTERVAL_MS,
    ClientInstance,
    Clients,
    subscription_id,
)
from kavka.wire.errors import ApiError, ErrorCode

ID = UUID("d45c1070-fa27-4698-bea0-3f83ba24c3f5")
SELECTORS = {"client_id": "app", "client_source_port": "5000"}
NOW_MS = 1_700_000_000_000
EARLY, UNKNOWN = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.UNKNOWN_SUBSCRIPTION_ID
MAX_BYTES = 1000


class Telemetry:
    """The machine, with a clock of the test's own."""

    def __init__(self) -> None:
        numbers = count(100)
        self.clients = Clients(lambda: UUID(int=next(numbers)))
        self.now_ms = NOW_MS

    def subscribe(self, **subscriptions: dict[str, str]) -> None:
        self.clients.set_subscriptions(
            {name: subscription(configs) for name, configs in subscriptions.items()}
        )

    def ask(self, client: UUID | None = ID) -> ClientInstance:
        return self.clients.get_subscription(client, SELECTORS, self.now_ms)

    def push(self, instance: ClientInstance, **more: Any) -> ClientInstance:
        values: dict[str, Any] = {
            "subscription_id": instance.subscription_id,
            "terminating": False,
            "codec": 0,
            "size": 10,
            "size_max": MAX_BYTES,
            **more,
        }
        client = instance.client_instance_id
        return self.clients.push(client, SELECTORS, self.now_ms, **values)


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def refused(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as raised:
        call()
    return raised.value.code


def test_without_subscriptions(telemetry: Telemetry) -> None:
    instance = telemetry.ask()
    assert (instance.metrics, instance.interval_ms) == ((), DEFAULT_INTERVAL_MS)
    assert telemetry.ask(None).client_instance_id == UUID(int=100)
    assert telemetry.ask(UUID(int=0)).client_instance_id == UUID(int=101)


def test_the_id_of_a_subscription() -> None:
    """A CRC of metrics and interval, mixed with the hash that Java has of the instance's id."""
    high, low = ID.int >> 64, ID.int & (2**64 - 1)
    java_hash = ((high ^ low) >> 32) ^ ((high ^ low) & 0xFFFFFFFF)
    expected = crc32c(b"[a, b]1000") ^ java_hash
    assert subscription_id(("a", "b"), 1000, ID) & 0xFFFFFFFF == expected
    assert -(2**31) <= subscription_id(("a", "b"), 1000, ID) < 2**31
    assert subscription_id(("a", "b"), 1001, ID) != subscription_id(("a", "b"), 1000, ID)


def test_all_subscriptions_that_match_count(telemetry: Telemetry) -> None:
    telemetry.subscribe(
        one={"metrics": "a,b", "interval.ms": "2000"},
        two={"metrics": "b,c", "interval.ms": "1000", "match": "client_id=a.*"},
        other={"metrics": "z", "interval.ms": "100", "match": "client_id=b.*"},
    )
    instance = telemetry.ask()
    assert (set(instance.metrics), instance.interval_ms) == ({"a", "b", "c"}, 1000)
    telemetry.subscribe(one={"metrics": "a"}, all={"metrics": "b,*"})
    assert telemetry.ask().metrics == ("*",)


def test_asking_again(telemetry: Telemetry) -> None:
    telemetry.subscribe(one={"interval.ms": "1000"})
    telemetry.ask()
    telemetry.now_ms += 999
    assert refused(telemetry.ask) is EARLY
    telemetry.now_ms += 1
    telemetry.ask()
    telemetry.subscribe()
    assert telemetry.ask().interval_ms == DEFAULT_INTERVAL_MS, (
        "what has changed is in the next response"
    )
    assert telemetry.clients.throttled == 1


def test_pushing(telemetry: Telemetry) -> None:
    telemetry.subscribe(one={"interval.ms": "1000"})
    instance = telemetry.ask()
    telemetry.now_ms += 1
    telemetry.push(instance)
    telemetry.now_ms += 999
    assert refused(lambda: telemetry.push(instance)) is EARLY
    telemetry.now_ms += 1
    telemetry.push(instance)
    assert refused(telemetry.ask) is EARLY
    telemetry.now_ms += 1000
    telemetry.ask()


def test_another_subscription(telemetry: Telemetry) -> None:
    instance = telemetry.ask()
    telemetry.now_ms += 1
    assert refused(lambda: telemetry.push(instance, subscription_id=1)) is UNKNOWN
    assert telemetry.ask() is instance, "it is to learn what it should push"
    assert refused(lambda: telemetry.push(instance)) is EARLY
    assert telemetry.clients.unknown_subscriptions == 1


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"codec": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"codec": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"size": MAX_BYTES + 1}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_bad_pushes(telemetry: Telemetry, more: dict[str, int], code: ErrorCode) -> None:
    instance = telemetry.ask()
    assert refused(lambda: telemetry.push(instance, **more)) is code


def test_as_much_as_may_be(telemetry: Telemetry) -> None:
    telemetry.push(telemetry.ask(), size=MAX_BYTES)


def test_the_last_push(telemetry: Telemetry) -> None:
    instance = telemetry.ask()
    telemetry.now_ms += 1
    telemetry.push(instance)
    telemetry.push(instance, terminating=True)
    assert refused(lambda: telemetry.push(instance)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("client", [None, UUID(int=0), UUID(int=1)])
def test_reserved_ids(telemetry: Telemetry, client: UUID | None) -> None:
    instance = telemetry.ask()

    def push() -> ClientInstance:
        return telemetry.clients.push(
            client,
            SELECTORS,
            telemetry.now_ms,
            subscription_id=instance.subscription_id,
            terminating=False,
            codec=0,
            size=0,
            size_max=MAX_BYTES,
        )

    assert refused(push) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("interval", "kept_ms"), [("1000", 60_000), ("30000", 90_000)])
def test_a_silent_client_is_forgotten(telemetry: Telemetry, interval: str, kept_ms: int) -> None:
    telemetry.subscribe(one={"interval.ms": interval})
    telemetry.ask()
    telemetry.clients.expire(telemetry.now_ms + kept_ms - 1)
    assert len(telemetry.clients) == 1
    telemetry.clients.expire(telemetry.now_ms + kept_ms)
    assert len(telemetry.clients) == 0


def test_a_lost_connection(telemetry: Telemetry) -> None:
    telemetry.ask()
    telemetry.clients.forget(ID)
    assert len(telemetry.clients) == 0
    telemetry.ask()


def test_there_are_only_so_many(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 3)
    first = telemetry.ask(None)
    telemetry.push(first)
    others = [telemetry.ask(None) for _ in range(2)]
    telemetry.push(first, terminating=True)  # it has been heard of last
    telemetry.ask(None)
    assert len(telemetry.clients) == 3
    assert refused(lambda: telemetry.ask(first.client_instance_id)) is EARLY, "it is still known"
    telemetry.ask(others[0].client_instance_id)
