"""PushTelemetry: in every codec, too early, too late, too much, and what can't be read."""

from __future__ import annotations

import gzip
from typing import Any, Final
from uuid import UUID

import lz4.frame
import zstandard

from kavka.compat_tests.raw import pushed_metrics as pushed
from kavka.compat_tests.raw.case import Cases, Ground, Script, Step
from kavka.compat_tests.raw.frames import add_frames
from kavka.compat_tests.raw.telemetry import ask_for_subscriptions, client_of

CASES = Cases("PushTelemetry")

GAUGE: Final = pushed.gauge("org.apache.kafka.producer.some.rate", 1.5, {"node.id": "1"})
COUNTER: Final = pushed.counter("org.apache.kafka.producer.some.total", 7)
PUSHED: Final = pushed.each(GAUGE, COUNTER)
MAX_BYTES: Final = 1_048_576


def push(on: Ground, subscribed: Any, metrics: bytes = PUSHED, **more: Any) -> Step:
    """A push by the subscription that the client was given."""
    values: dict[str, Any] = {
        "client_instance_id": client_of(on),
        "subscription_id": subscribed["subscription_id"],
        "terminating": False,
        "compression_type": 0,
        "metrics": metrics,
        **more,
    }
    return on.ask(**values)


BODIES: Final = {
    "nothing": (0, b""),
    "plain, each by itself": (0, PUSHED),
    "plain, all in one": (0, pushed.in_one(GAUGE, COUNTER)),
    "gzip": (1, gzip.compress(PUSHED)),
    "lz4": (3, lz4.frame.compress(PUSHED)),
    "zstd": (4, zstandard.compress(PUSHED)),
    "codec 5": (5, PUSHED),
    "codec 127": (127, PUSHED),
    "codec -1": (-1, PUSHED),
    "codec 5 and nothing": (5, b""),
    "garbage": (0, b"\xff" * 20),
    "cut short": (0, PUSHED[:-1]),
    "not gzip": (1, PUSHED),
    "not zstd": (4, PUSHED),
    "not lz4": (3, PUSHED),
    "garbage in gzip": (1, gzip.compress(b"\xff" * 20)),
    "cut gzip": (1, gzip.compress(PUSHED)[:-12]),
    "as much as may be": (0, pushed.each(*[GAUGE] * 1000)),
    "too much": (0, b"\0" * (MAX_BYTES + 1)),
    "other fields": (0, b"\x12\x03abc" + PUSHED + b"\x18\x05"),
}
for name, (codec, body) in BODIES.items():

    def script(on: Ground, codec: int = codec, body: bytes = body) -> Script:
        subscribed = yield ask_for_subscriptions(on)
        yield push(on, subscribed, body, compression_type=codec)

    CASES.add(name, script, topics=[])


@CASES.case(topics=[])
def reserved_ids(on: Ground) -> Script:
    for number in (0, 1):
        yield on.ask(client_instance_id=UUID(int=number), subscription_id=1, metrics=b"")


@CASES.case(topics=[])
def without_having_asked(on: Ground) -> Script:
    yield push(on, {"subscription_id": 1})
    yield ask_for_subscriptions(on)


@CASES.case(topics=[])
def another_subscription(on: Ground) -> Script:
    subscribed = yield ask_for_subscriptions(on)
    yield push(on, {"subscription_id": subscribed["subscription_id"] ^ 1})
    yield ask_for_subscriptions(on)
    yield push(on, subscribed)


@CASES.case(topics=[])
def twice(on: Ground) -> Script:
    subscribed = yield ask_for_subscriptions(on)
    yield push(on, subscribed)
    yield push(on, subscribed)
    yield ask_for_subscriptions(on)


@CASES.case(topics=[])
def the_last_push(on: Ground) -> Script:
    subscribed = yield ask_for_subscriptions(on)
    yield push(on, subscribed)
    yield push(on, subscribed, terminating=True)
    yield push(on, subscribed, terminating=True)
    yield push(on, subscribed)
    yield push(on, subscribed)
    yield ask_for_subscriptions(on)


@CASES.case(topics=[])
def the_last_push_by_another_subscription(on: Ground) -> Script:
    subscribed = yield ask_for_subscriptions(on)
    yield push(on, {"subscription_id": 1}, terminating=True)
    yield push(on, subscribed)


@CASES.case(topics=[])
def several_faults(on: Ground) -> Script:
    """The first that is found is reported."""
    subscribed = yield ask_for_subscriptions(on)
    yield push(on, {"subscription_id": 1}, b"\0" * (MAX_BYTES + 1), compression_type=9)
    yield push(on, subscribed, b"\0" * (MAX_BYTES + 1), compression_type=9, terminating=True)


def ordinary(on: Ground) -> dict[str, Any]:
    return {"client_instance_id": UUID(int=1), "subscription_id": 1, "metrics": b""}


add_frames(CASES, ordinary, topics=[])
