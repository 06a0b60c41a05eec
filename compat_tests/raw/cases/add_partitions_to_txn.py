"""AddPartitionsToTxn: odd frames. What is asked in them stands in `sequences/adding.py`."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script, Values
from kavka.compat_tests.raw.frames import add_frames, add_odd_names
from kavka.compat_tests.raw.transactions import BATCHED_SINCE

CASES = Cases("AddPartitionsToTxn")


def asking(name: str = "a-topic", transactional_id: str | None = "nobody's") -> Values:
    fields = {
        "transactional_id": transactional_id,
        "producer_id": 5_000_000,
        "producer_epoch": 0,
        "topics": [{"name": name, "partitions": [0]}],
    }
    return {"transactions": [fields], **{f"v3_and_below_{key}": fields[key] for key in fields}}


add_frames(CASES, lambda on: asking(), topics=[])
add_odd_names(CASES, asking)


@CASES.case(topics=[], until=BATCHED_SINCE - 1)
def null_arrays(on: Ground) -> Script:
    yield on.ask(**{**asking(), "v3_and_below_topics": None})
    topic = {"name": "a-topic", "partitions": None}
    yield on.ask(**{**asking(), "v3_and_below_topics": [topic]})
    yield on.ask(**asking(transactional_id=None))
