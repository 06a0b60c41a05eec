"""InitProducerId: ids for idempotent producers, and what can't be given one."""

from __future__ import annotations

from typing import Any

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("InitProducerId")


def asking(**more: Any) -> Values:
    return {
        "transactional_id": None,
        "transaction_timeout_ms": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
        **more,
    }


def given(**more: Any) -> Function:
    return lambda on: asking(**more)


add_frames(CASES, lambda on: asking(), topics=[])

for timeout in (0, -1, 1, 900_000, 900_001, 2**31 - 1, -(2**31)):
    CASES.add(f"timeout {timeout}", given(transaction_timeout_ms=timeout), topics=[])
    CASES.add(
        f"timeout {timeout}, an empty transactional id",
        given(transaction_timeout_ms=timeout, transactional_id=""),
        topics=[],
    )

for producer, epoch in (
    (5, -1),
    (-1, 0),
    (5, 0),
    (5, 32_767),
    (-2, -2),
    (-2, -1),
    (-1, -2),
    (2**62, 3),
    (0, 0),
    (5, -2),
):
    CASES.add(
        f"producer {producer} of epoch {epoch}",
        given(producer_id=producer, producer_epoch=epoch),
        topics=[],
        since=3,
    )
    CASES.add(
        f"producer {producer} of epoch {epoch}, an empty transactional id",
        given(producer_id=producer, producer_epoch=epoch, transactional_id=""),
        topics=[],
        since=3,
    )


@CASES.case(topics=[])
def one_asks_twice(on: Ground) -> Script:
    first = yield on.ask(**asking())
    again = yield on.ask(**asking())
    if again["producer_id"] == first["producer_id"]:
        raise KeyError("an id was given twice")


@CASES.case(since=3, topics=[])
def the_epoch_is_to_be_raised(on: Ground) -> Script:
    """KIP-360, which is for transactional producers."""
    first = yield on.ask(**asking())
    yield on.ask(**asking(producer_id=first["producer_id"], producer_epoch=0))
