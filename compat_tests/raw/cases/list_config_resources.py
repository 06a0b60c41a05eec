"""ListConfigResources: every kind alone and with others, and kinds that there are not."""

from __future__ import annotations

from itertools import combinations

from kavka.compat_tests.raw.case import Cases, Ground, Topic, Values
from kavka.compat_tests.raw.configs import BROKER, GROUP, LOGGER, SUBSCRIPTION, TOPIC
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("ListConfigResources")

KINDS = {
    TOPIC: "topics",
    BROKER: "brokers",
    LOGGER: "loggers",
    SUBSCRIPTION: "subscriptions",
    GROUP: "groups",
}
TOPICS = [
    Topic("plain", shared=True),
    Topic("set", shared=True, configs={"retention.ms": "60000"}),
]


@CASES.case(topics=TOPICS)
def everything(on: Ground) -> Values:
    return {"resource_types": []}


for size in range(1, len(KINDS) + 1):
    for kinds in combinations(KINDS, size):

        def these(on: Ground, kinds: tuple[int, ...] = kinds) -> Values:
            return {"resource_types": list(kinds)}

        name = ", ".join(KINDS[kind] for kind in kinds)
        CASES.add(name, these, since=1, topics=TOPICS)

for kind in (0, 1, 3, 5, 6, 64, 127, -1, -128):

    def unknown(on: Ground, kind: int = kind) -> Values:
        return {"resource_types": [kind]}

    CASES.add(f"kind {kind}", unknown, since=1, topics=[])

    def beside_topics(on: Ground, kind: int = kind) -> Values:
        return {"resource_types": [TOPIC, kind]}

    CASES.add(f"kind {kind} and topics", beside_topics, since=1, topics=TOPICS)


@CASES.case(since=1, topics=TOPICS)
def a_kind_twice(on: Ground) -> Values:
    return {"resource_types": [TOPIC, TOPIC, BROKER, BROKER]}


add_frames(CASES, lambda on: {"resource_types": [TOPIC]}, topics=TOPICS)
