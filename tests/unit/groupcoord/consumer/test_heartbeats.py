"""Generated member ids. For heartbeats see `tests/scenarios/consumer_groups`."""

from __future__ import annotations

import random

from kavka.groupcoord.consumer.heartbeats import random_id


def test_generated_member_ids() -> None:
    drawn = random.Random(5)
    ids = [random_id(drawn) for _ in range(1000)]
    assert {len(member_id) for member_id in ids} == {22}
    assert not any(member_id.startswith("-") for member_id in ids), (
        "Apache Kafka's tools take it for an option"
    )
