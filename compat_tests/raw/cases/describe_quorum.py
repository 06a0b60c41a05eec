"""DescribeQuorum: of the metadata topic, and of others that one may ask about."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames, add_odd_names, given

CASES = Cases("DescribeQuorum")

METADATA: Final = "__cluster_metadata"


def asking(*topics: tuple[str, tuple[int, ...]]) -> Values:
    return {
        "topics": [
            {"topic_name": name, "partitions": [{"partition_index": index} for index in indices]}
            for name, indices in topics
        ]
    }


def ordinary(on: Ground) -> Values:
    return asking((METADATA, (0,)))


ASKED: Final = {
    "the quorum": asking((METADATA, (0,))),
    "nothing": asking(),
    "no partition": asking((METADATA, ())),
    "another partition": asking((METADATA, (1,))),
    "a partition below 0": asking((METADATA, (-1,))),
    "the partition twice": asking((METADATA, (0, 0))),
    "the topic twice": asking((METADATA, (0,)), (METADATA, (0,))),
    "the topic and no partition of it": asking((METADATA, (0,)), (METADATA, ())),
    "two partitions": asking((METADATA, (0, 1))),
    "another topic": asking(("other", (0,))),
    "another topic beside it": asking(("other", (0,)), (METADATA, (0,))),
    "another topic without a partition beside it": asking((METADATA, (0,)), ("other", ())),
    "no name": asking(("", (0,))),
    "an internal topic": asking(("__consumer_offsets", (0,))),
}
for name, values in ASKED.items():
    CASES.add(name, given(values), topics=[])

add_odd_names(CASES, lambda name: asking((name, (0,))))
add_frames(CASES, ordinary, topics=[])
