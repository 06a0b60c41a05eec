"""DeleteGroups: groups in each of their states."""

from __future__ import annotations

from kavka.compat_tests.raw.case import Cases, Ground, Script
from kavka.compat_tests.raw.consumer_members import ConsumerMember
from kavka.compat_tests.raw.members import Member, describing, group_of, offsets_of, simple_commit

CASES = Cases("DeleteGroups")


@CASES.case()
def each_state(on: Ground) -> Script:
    yield on.ask(groups_names=[on.group])
    (alone,) = yield from group_of(on, 1, synced=False)
    yield on.ask(groups_names=[on.group])
    yield alone.syncing({alone.id: b"all"})
    yield alone.committing(on.topic)
    yield on.ask(groups_names=[on.group])
    late = Member(on, "late")
    yield from late.begin(2)
    yield on.ask(groups_names=[on.group])
    yield alone.leaving()
    yield from late.end()
    yield late.leaving()
    yield on.ask(groups_names=[on.group])
    yield describing(on)
    yield offsets_of(on)
    yield on.ask(groups_names=[on.group])


@CASES.case()
def several(on: Ground) -> Script:
    names = [f"{on.group}-{number}" for number in range(3)]
    for name in names[:2]:
        yield simple_commit(on, on.topic, 5, group_id=name)
    yield from group_of(on, 1)
    yield on.ask(groups_names=[*names, on.group])
    yield on.ask(groups_names=[])


@CASES.case()
def one_twice(on: Ground) -> Script:
    yield simple_commit(on, on.topic, 5)
    yield on.ask(groups_names=[on.group, on.group])
    yield offsets_of(on)


@CASES.case(since=2, topics=[])  # one version: there is but one such group
def an_empty_group_id(on: Ground) -> Script:
    yield on.ask(groups_names=[""])


@CASES.case(since=2)
def groups_of_the_new_protocol(on: Ground) -> Script:
    member = ConsumerMember(on)
    yield from member.join()
    yield on.ask(groups_names=[on.group])
    yield member.leaving()
    yield on.ask(groups_names=[on.group])
    yield on.ask(groups_names=[on.group])
