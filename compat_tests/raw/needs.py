"""Settings that a broker must have for some cases to be tried on it, beside those that scripts ask
for themselves by `on.needs`: they are Apache Kafka's defaults, and what is answered follows from
them."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from kavka.compat_tests.raw.case import Case


class Need(NamedTuple):
    """Cases that match need a setting."""

    api: str
    cases: str
    setting: str
    value: str


NEEDS: Final = (
    *(
        Need("Metadata", "creation*", setting, value)
        for setting, value in (
            ("auto.create.topics.enable", "true"),
            ("num.partitions", "1"),
            ("default.replication.factor", "1"),
        )
    ),
    Need("CreateTopics", "-1 partitions*", "num.partitions", "1"),
    Need("CreateTopics", "*-1 replicas*", "default.replication.factor", "1"),
    Need("DeleteTopics", "*", "delete.topic.enable", "true"),
    Need("Produce", "*", "message.max.bytes", "1048588"),
    Need("Produce", "*", "compression.type", "producer"),
    Need("Fetch", "*", "compression.type", "producer"),
)


def needs_of(case: Case) -> Iterator[Need]:
    """Those of one case."""
    for need in NEEDS:
        if need.api == case.api and fnmatchcase(case.name, need.cases):
            yield need
