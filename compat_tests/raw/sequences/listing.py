"""ListGroups: by state (KIP-518) and by type (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kavka.compat_tests.raw.case import Cases, Ground, Script, Step
from kavka.compat_tests.raw.consumer_members import ConsumerMember
from kavka.compat_tests.raw.members import Member, group_of, simple_commit

CASES = Cases("ListGroups")
STATES_SINCE = 4
TYPES_SINCE = 5


def own(on: Ground) -> Callable[[Any], Any]:
    """Only the groups of this script."""

    def shown(answer: Any) -> Any:
        groups = [group for group in answer["groups"] if group["group_id"].startswith(on.group)]
        return {**answer, "groups": groups}

    return shown


def listing(on: Ground, states: Sequence[str] = (), types: Sequence[str] = ()) -> Step:
    return on.ask(states_filter=list(states), types_filter=list(types), shown=own(on))


@CASES.case()
def each_state(on: Ground) -> Script:
    yield listing(on)
    (alone,) = yield from group_of(on, 1, synced=False)
    yield listing(on)
    yield alone.syncing({alone.id: b"all"})
    yield listing(on)
    late = Member(on, "late")
    yield from late.begin(2)
    yield listing(on)
    yield alone.leaving()
    yield from late.end()
    yield late.leaving()
    yield listing(on)
    yield on.other("DeleteGroups", 2, groups_names=[on.group])
    yield listing(on)


@CASES.case()
def groups_of_other_kinds(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 1, group_id=f"{on.group}-offsets")
    (alone,) = yield from group_of(on, 1, kind="connect", protocols=["default"])
    yield listing(on)
    yield alone.leaving()
    yield listing(on)


@CASES.case(since=STATES_SINCE)
def some_states(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 1, group_id=f"{on.group}-offsets")
    yield from group_of(on, 1)
    for states in (
        ["Stable"],
        ["stable"],
        ["Empty"],
        ["Stable", "Empty"],
        ["Dead"],
        ["nonsense"],
        [""],
        ["nonsense", "Stable"],
        ["PreparingRebalance", "CompletingRebalance"],
    ):
        yield listing(on, states)


@CASES.case(since=TYPES_SINCE)
def some_types(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 1, group_id=f"{on.group}-offsets")
    yield from group_of(on, 1)
    consumer = ConsumerMember(on, "2", group=f"{on.group}-new")
    yield from consumer.join()
    for types in (["classic"], ["Classic"], ["consumer"], ["Consumer", "classic"], ["nonsense"]):
        yield listing(on, types=types)
        yield listing(on, ["Stable"], types)
    yield listing(on, types=[""])
    yield consumer.leaving()
    yield listing(on)
