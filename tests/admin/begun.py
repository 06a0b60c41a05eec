"""Transactions that clients describe: made by plain requests.

All are of partition 1 of the topic `data`: `open` and `forced` are open, with a record each at
offsets 0 and 1, `over` has been committed, and `idle` has never begun.
"""

from __future__ import annotations

from typing import Any, Final

from admin.place import WITHIN_S, Place
from support.transactional import TransactionalProducer, play
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
    for label in (OPEN, FORCED, OVER, IDLE):
        producer = TransactionalProducer(
            place.topic(label), 1, place.topic("data"), timeout_ms=TIMEOUT_MS
        )
        play(place, producer.find())
        play(place, producer.init())
        if label != IDLE:
            play(place, producer.add([PARTITION]))
            play(place, producer.write(PARTITION, [b"value"]))
        if label == OVER:
            play(place, producer.end(commit=True))
    eventually(
        lambda: described(place, OVER)["transaction_state"] == COMPLETE,
        within_s=WITHIN_S,
        what="a transaction is over",
    )


def described(place: Place, label: str) -> Any:
    """What is known of one."""
    transactional_ids = [place.topic(label)]
    found = place.request("DescribeTransactions", 0, transactional_ids=transactional_ids)
    return found["transaction_states"][0]
