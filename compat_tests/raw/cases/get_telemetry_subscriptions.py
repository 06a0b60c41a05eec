"""GetTelemetrySubscriptions: with ids and without, and what subscriptions make of it."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from kavka.compat_tests.raw.case import Cases, Ground, Script, Values
from kavka.compat_tests.raw.frames import add_frames
from kavka.compat_tests.raw.telemetry import (
    DEFAULT_INTERVAL_MS,
    LONG_MS,
    ask_for_subscriptions,
    ask_for_subscriptions_until,
    client_of,
    subscribe,
    unsubscribe,
)

CASES = Cases("GetTelemetrySubscriptions")

DRAWN: Final = ("client_instance_id", "subscription_id")


def without_drawn(answer: Any) -> Any:
    return {name: value for name, value in answer.items() if name not in DRAWN}


@CASES.case(topics=[])
def an_id(on: Ground) -> Values:
    return {"client_instance_id": client_of(on)}


@CASES.case(topics=[])
def no_id(on: Ground) -> Script:
    answer = yield on.ask(client_instance_id=None, shown=without_drawn)
    given = answer["client_instance_id"]
    yield on.ask(client_instance_id=given, shown=without_drawn)
    yield on.ask(client_instance_id=None, shown=without_drawn)


@CASES.case(topics=[])
def a_reserved_id(on: Ground) -> Values:
    return {"client_instance_id": UUID(int=1)}


@CASES.case(topics=[])
def asked_twice(on: Ground) -> Script:
    yield ask_for_subscriptions(on)
    yield ask_for_subscriptions(on)


@CASES.case(topics=[])
def asked_twice_by_two_connections(on: Ground) -> Script:
    yield ask_for_subscriptions(on)
    yield ask_for_subscriptions(on, link="2")


@CASES.case(topics=[])
def asked_again_after_the_connection_was_lost(on: Ground) -> Script:
    yield ask_for_subscriptions(on)
    yield on.raw(b"\0\0\0\0")  # no request: it is closed
    yield ask_for_subscriptions(on, again=lambda answer: answer["error_code"] != 0)


NAMES: Final = {
    "none": ("", DEFAULT_INTERVAL_MS),
    "one": ("org.apache.kafka.producer.", 1000),
    "all": ("*", 1000),
    "all and more": ("a,*,b", 1000),
    "several": (
        "zeta,alpha,org.apache.kafka.consumer.,org.apache.kafka.producer.,b,aa,C#,AaBB",
        500,
    ),
    "many": (",".join(f"metric.{number}.{number * 7919 % 101}" for number in range(40)), 500),
    "of one place in a table": ("AaAa,BBBB,AaBB,BBAa", 500),
    "not ASCII": ("métrique,\u30c6\u30b9\u30c8,\U0001f600", 500),
    "spaces": (" a , b ", 500),
}
for name, (metrics, interval_ms) in NAMES.items():

    def subscribed(on: Ground, metrics: str = metrics, interval_ms: int = interval_ms) -> Script:
        yield subscribe(on, "one", metrics=metrics, interval_ms=str(interval_ms))
        yield ask_for_subscriptions_until(on, interval_ms)
        yield unsubscribe(on, "one")

    CASES.add(f"metrics: {name}", subscribed, topics=[])


@CASES.case(topics=[])
def two_subscriptions(on: Ground) -> Script:
    yield subscribe(on, "slow", metrics="a,b", interval_ms=str(LONG_MS))
    yield subscribe(on, "quick", metrics="b,c", interval_ms="700")
    yield ask_for_subscriptions_until(on, 700)
    yield unsubscribe(on, "quick")
    yield ask_for_subscriptions_until(on, DEFAULT_INTERVAL_MS)
    yield unsubscribe(on, "slow")


@CASES.case(topics=[])
def of_another_client(on: Ground) -> Script:
    yield subscribe(on, "one", match="client_id=somebody", metrics="a", interval_ms="900")
    yield subscribe(on, "two", metrics="b", interval_ms="800")
    yield ask_for_subscriptions_until(on, 800)
    yield unsubscribe(on, "one")
    yield unsubscribe(on, "two")


@CASES.case(topics=[])
def of_the_software_of_a_client(on: Ground) -> Script:
    software: dict[str, Any] = {
        "client_software_name": on.group.replace("_", "-")[-60:],
        "client_software_version": "1.2",
    }
    name = software["client_software_name"]
    match = f"client_software_name={name},client_software_version=1\\.[0-9]"
    yield subscribe(on, "one", match=match, metrics="soft", interval_ms="600")
    yield subscribe(on, "two", metrics="ware", interval_ms="650")
    yield on.other("ApiVersions", 3, compared=False, **software)
    yield ask_for_subscriptions_until(on, 600)
    yield unsubscribe(on, "one")
    yield unsubscribe(on, "two")


@CASES.case(topics=[])
def of_software_that_a_client_does_not_tell(on: Ground) -> Script:
    yield subscribe(
        on, "one", match="client_software_name=unknown", metrics="unknown", interval_ms="550"
    )
    yield ask_for_subscriptions_until(on, 550)
    yield unsubscribe(on, "one")
    yield ask_for_subscriptions_until(on, DEFAULT_INTERVAL_MS)


add_frames(CASES, lambda on: {"client_instance_id": client_of(on)}, topics=[])
