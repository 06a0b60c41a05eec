"""Transactions that clients describe: made by plain requests.

All are of partition 1 of the topic `data`: `open` and `forced` are open, with a record each at
offsets 0 and 1, `over` has been committed, and `idle` has never begun.
"""

from __future__ import annotations

from typing import Any, Final

from admin.place import WITHIN_S, Place
from support.batches import Written, build
from support.wait import eventually

OPEN: Final = "open"
FORCED: Final = "forced"
OVER: Final = "over"
IDLE: Final = "idle-transaction"
MISSING: Final = "no-transaction"
PARTITION: Final = 1
TIMEOUT_MS: Final = 600_000
COMPLETE: Final = "CompleteCommit"


def write_transactions(place: Place) -> None:
    """Make them."""
    place.ask("FindCoordinator", 3, key=place.topic(OPEN), key_type=1)
    for label in (OPEN, FORCED, OVER):
        _write(place, label, _begin(place, label))
    _begin(place, IDLE)
    ended = place.ask(
        "EndTxn", 3, transactional_id=place.topic(OVER), committed=True, **_who(place, OVER)
    )
    assert ended["error_code"] == 0, ended
    eventually(
        lambda: described(place, OVER)["transaction_state"] == COMPLETE,
        within_s=WITHIN_S,
        what="a transaction is over",
    )


def described(place: Place, label: str) -> Any:
    """What is known of one."""
    asked = [place.topic(label)]
    return place.ask("DescribeTransactions", 0, transactional_ids=asked)["transaction_states"][0]


def _who(place: Place, label: str) -> dict[str, int]:
    state = described(place, label)
    return {name: state[name] for name in ("producer_id", "producer_epoch")}


def _begin(place: Place, label: str) -> dict[str, int]:
    def begun() -> Any:
        answer = place.ask(
            "InitProducerId",
            4,
            transactional_id=place.topic(label),
            transaction_timeout_ms=TIMEOUT_MS,
        )
        return None if answer["error_code"] else answer

    answer = eventually(begun, within_s=WITHIN_S, what=f"{label} has a producer id")
    return {name: answer[name] for name in ("producer_id", "producer_epoch")}


def _write(place: Place, label: str, who: dict[str, int]) -> None:
    name, topic = place.topic(label), place.topic("data")
    added = place.ask(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=who["producer_id"],
        v3_and_below_producer_epoch=who["producer_epoch"],
        v3_and_below_topics=[{"name": topic, "partitions": [PARTITION]}],
    )
    (result,) = added["results_by_topic_v3_and_below"][0]["results_by_partition"]
    assert result["partition_error_code"] == 0, added
    producer = who["producer_id"], who["producer_epoch"], 0
    batch = build([Written()], producer=producer, transactional=True)
    data = [{"index": PARTITION, "records": bytes(batch)}]
    answer = place.ask(
        "Produce",
        8,
        transactional_id=name,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[{"name": topic, "partition_data": data}],
    )
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer
