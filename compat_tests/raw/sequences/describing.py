"""DescribeGroups: a group in each of its states."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script
from kavka.compat_tests.raw.members import Member, describing, group_of, simple_commit

CASES = Cases("DescribeGroups")


@CASES.case()
def each_state(on: Ground) -> Script:
    yield describing(on)
    (alone,) = yield from group_of(on, 1, synced=False, protocols=["range", "roundrobin"])
    yield describing(on)
    yield alone.syncing({alone.id: b"all"})
    yield describing(on)
    late = Member(on, "late")
    yield from late.begin(2)
    yield describing(on)
    yield alone.leaving()
    yield from late.end()
    yield late.leaving()
    yield describing(on)
    yield on.other("DeleteGroups", 2, groups_names=[on.group])
    yield describing(on)


@CASES.case()
def a_group_that_has_offsets_only(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 7)
    yield describing(on)


@CASES.case(topics=[])
def groups_of_other_kinds(on: Ground) -> Script:
    (alone,) = yield from group_of(on, 1, kind="connect", protocols=["default"], metadata=b"\1\2")
    yield describing(on)
    yield alone.leaving()
    yield describing(on)


@CASES.case(topics=[])
def several(on: Ground) -> Script:
    yield from group_of(on, 2)
    missing = [f"{on.group}-{number}" for number in range(3)]
    yield on.ask(groups=[on.group, *missing])
    yield on.ask(groups=[missing[0], on.group, on.group])
    yield on.ask(groups=["", on.group])
    yield on.ask(groups=[])


@CASES.case(topics=[])
def instances(on: Ground) -> Script:
    static = Member(on, instance="i")
    yield from static.join()
    yield static.syncing({static.id: b"all"})
    yield describing(on)


@CASES.case(topics=[], since=3)
def what_is_allowed(on: Ground) -> Script:
    yield from group_of(on, 1)
    yield on.ask(groups=[on.group, f"{on.group}-2"], include_authorized_operations=True)
