"""DescribeProducers beside transactions: where they begin, and by whom they were ended."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.transactions import Producer, producers

CASES = Cases("DescribeProducers", transactional=True)

for SECOND in (False, True):

    def transactions(on: Ground, second: bool = SECOND) -> Script:
        first, second_ = Producer(on, "-1", second=second), Producer(on, "-2", second=second)
        for producer in (first, second_):
            yield from producer.init()
            yield from producer.write(b"a")
            yield from producer.produce(b"b")
            yield producers(on)
        yield from first.end()
        yield producers(on)
        yield from second_.end(committed=False)
        yield producers(on)
        yield from first.write(b"c")
        yield producers(on)
        yield from second_.init()
        yield producers(on)

    PROTOCOL = "the second protocol" if SECOND else "the first protocol"
    CASES.add(f"transactions of {PROTOCOL}", transactions, topics=[Topic("transactional")])
