"""OffsetFetch beside transactions: what is not yet committed is not returned, or waited for."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.members import simple_commit
from kavka.compat_tests.raw.transactions import Producer, offsets

CASES = Cases("OffsetFetch", transactional=True)
STABLE_SINCE = 7
T = Topic("pending", partitions=2, shared=True)


@CASES.case(topics=[T], since=STABLE_SINCE)
def of_an_open_transaction(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 1, 1)
    for committed in (True, False):
        producer = Producer(on, f"-{committed}")
        yield from producer.init()
        yield producer.adding_offsets()
        yield offsets(on, stable=True)
        yield producer.committing(5)
        for stable in (True, False):
            yield offsets(on, stable=stable)
        yield on.other("OffsetFetch", 7, group_id=on.group, topics=None, require_stable=True)
        yield from producer.end(committed=committed)
        for stable in (True, False):
            yield offsets(on, stable=stable)
