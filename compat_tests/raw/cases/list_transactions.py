"""ListTransactions: odd frames, and what is listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Topic
from kavka.compat_tests.raw.frames import add_frames
from kavka.compat_tests.raw.transactions import Producer

CASES = Cases("ListTransactions")
UNKNOWN_ID = 5_000_000
DURATIONS_SINCE = 1
PATTERNS_SINCE = 2
T = Topic(partitions=2, shared=True)

add_frames(CASES, lambda on: {"producer_id_filters": [UNKNOWN_ID]}, topics=[])


def own(on: Ground) -> Callable[[Any], Any]:
    """The transactions of this case alone."""

    def shown(answer: Any) -> Any:
        if not isinstance(answer, dict):
            return answer
        listed = [
            transaction
            for transaction in answer["transaction_states"]
            if transaction["transactional_id"].startswith(on.transactional_id)
        ]
        return {**answer, "transaction_states": listed}

    return shown


def in_all_states(on: Ground) -> Any:
    """Four producers: one that has done nothing, one in a transaction, two that ended one."""
    empty, ongoing, committed, aborted = (Producer(on, f"-{number}") for number in range(4))
    for producer in (empty, ongoing, committed, aborted):
        yield from producer.init()
    for producer in (ongoing, committed, aborted):
        yield from producer.write()
    yield from committed.end()
    yield from aborted.end(committed=False)
    return empty, ongoing, committed, aborted


@CASES.case(topics=[T])
def states(on: Ground) -> Script:
    yield from in_all_states(on)
    for filters in (
        [],
        ["Ongoing"],
        ["Empty", "CompleteCommit"],
        ["CompleteAbort", "CompleteAbort"],
        ["PrepareCommit", "PrepareAbort", "Dead", "PrepareEpochFence"],
        ["nonsense", "Ongoing", "ongoing", ""],
        ["nonsense"],
    ):
        yield on.ask(state_filters=filters, shown=own(on))


@CASES.case(topics=[T])
def producers(on: Ground) -> Script:
    empty, ongoing, committed, _ = yield from in_all_states(on)
    for ids in (
        [empty.id],
        [ongoing.id, committed.id, ongoing.id],
        [UNKNOWN_ID, -1],
        [UNKNOWN_ID, empty.id],
    ):
        yield on.ask(producer_id_filters=ids, shown=own(on))
        yield on.ask(producer_id_filters=ids, state_filters=["Ongoing"], shown=own(on))


@CASES.case(topics=[T], since=DURATIONS_SINCE)
def durations(on: Ground) -> Script:
    yield from in_all_states(on)
    for duration_ms in (-1, -7, 0, 3_600_000, 2**63 - 1, -(2**63)):
        yield on.ask(duration_filter=duration_ms, shown=own(on))
        yield on.ask(duration_filter=duration_ms, state_filters=["Empty"], shown=own(on))


@CASES.case(topics=[T], since=PATTERNS_SINCE)
def patterns(on: Ground) -> Script:
    yield from in_all_states(on)
    name = on.transactional_id
    for pattern in (
        None,
        "",
        ".*",
        name,
        f"{name}-[01]",
        f".*{name}.*",
        "nobody",
        "(",
        "[",
        "*",
        "a{2",
    ):
        yield on.ask(transactional_id_pattern=pattern, shown=own(on))
