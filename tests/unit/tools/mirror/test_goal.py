"""Where --until-caught-up ends, and whether all was copied by then."""

from __future__ import annotations

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror.goal import Goal
from kavka.tools.mirror.ledger import Ledger, position_entry
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.topic_plan import Topic

ENDS = {("t", 0): 3, ("t", 1): 0, ("u", 0): 5}


def topics(**ids: str) -> dict[str, Topic]:
    return {name: Topic(name, topic_id, 2, {}, frozenset()) for name, topic_id in ids.items()}


def look(refused: dict[str, str] | None = None, **ids: str) -> Look:
    return Look(topics(**ids), topics(**ids), {}, {}, {}, {}, refused or {})


def copied(**positions: int) -> Ledger:
    """Up to there, of each topic's first partition."""
    return Ledger(position_entry((name, 0), position) for name, position in positions.items())


@pytest.fixture
def goal() -> Goal:
    return Goal(topics(t="1", u="2"), ENDS)


def test_it_is_reached_when_nothing_is_left_to_read_or_to_send(goal: Goal) -> None:
    read = {("t", 0): 3, ("t", 1): 0, ("u", 0): 9}
    assert goal.is_reached(read, {})
    assert goal.is_reached(read, {("u", 0): 5})
    assert not goal.is_reached(read, {("u", 0): 4})
    assert not goal.is_reached({**read, ("t", 0): 2}, {})


def test_partitions_that_are_not_there_are_not_waited_for(goal: Goal) -> None:
    assert goal.is_reached({("u", 0): 5}, {})


def test_what_is_copied_may_be_deleted(goal: Goal) -> None:
    goal.check(look(u="2"), copied(t=3, u=7))


def test_topics_that_were_deleted_before_they_were_copied_are_named(goal: Goal) -> None:
    with pytest.raises(Failed, match="^topics t, u: deleted in the source before all records"):
        goal.check(look(), copied(t=2))
    with pytest.raises(Failed, match="^topic t: deleted in the source before all records"):
        goal.check(look(u="2"), copied(t=2, u=5))


def test_a_topic_is_gone_when_another_one_is_in_its_place(goal: Goal) -> None:
    """That is not waited for, and its records don't count."""
    goal.compare(topics(t="other", u="2"))
    assert goal.is_reached({("t", 0): 0, ("t", 1): 0, ("u", 0): 5}, {})
    with pytest.raises(Failed, match="^topic t: deleted in the source before all records"):
        goal.check(look(t="other", u="2"), copied(t=3, u=5))


def test_nothing_is_lost_of_a_topic_that_had_no_records() -> None:
    goal = Goal(topics(t="1"), {("t", 0): 0})
    goal.compare(topics(t="other"))
    assert goal.is_reached({("t", 0): 0}, {})
    goal.check(look(t="other"), copied())


def test_a_partition_that_is_not_there_is_named(goal: Goal) -> None:
    with pytest.raises(Failed, match="^t-0 was not copied to its end: .* that partition"):
        goal.check(look(t="1", u="2"), copied(t=2, u=5))


def test_a_topic_that_is_refused_later_is_not_said_to_be_deleted(goal: Goal) -> None:
    why = {"t": "the source does not tell the configs of topic t: not allowed"}
    with pytest.raises(Failed, match="^t was not copied to its end: .* not allowed"):
        goal.check(look(why, u="2"), copied(u=5))
