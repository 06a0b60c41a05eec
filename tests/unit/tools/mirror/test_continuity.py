"""Whether both clusters still have what was copied."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.mirror.continuity import Continuity
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.ledger import Entry, Ledger, TopicIds, offsets_entry, topic_entry
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.offset_map import Chunk, Run
from kavka.tools.mirror.report import Once, Report
from kavka.tools.mirror.topic_plan import Topic

PLACE = ("t", 1)
KNOWN = topic_entry("t", TopicIds("here", "there"))
COPIED = offsets_entry(PLACE, Chunk(0, [Run(0, 0, 10)]))


def seen(source: str = "here", target: str = "there", end: int = 10, partitions: int = 2) -> Look:
    """A look at the topic, which has these ids."""

    def topics(name: str) -> dict[str, Topic]:
        return {"t": Topic("t", name, partitions, {}, frozenset())}

    places = [("t", at) for at in range(partitions)]
    return Look(
        topics(source),
        topics(target),
        dict.fromkeys(places, 0),
        dict.fromkeys(places, end),
        dict.fromkeys(places, 0),
        {},
    )


class Looks:
    """Stands in for the later ones."""

    def __init__(self, *looks: Look) -> None:
        self._looks = iter(looks)

    def patient(self) -> Look:
        return next(self._looks)


def of(*entries: Entry, later: tuple[Look, ...] = ()) -> Continuity:
    looks: Any = Looks(*later)
    nowhere: Any = None
    return Continuity(nowhere, looks, Ledger(entries), "ledger", Once(Report(None)))


def test_the_ledger_learns_of_a_topic_once() -> None:
    found = of()
    found.check_topics(seen())
    assert found.new_topics(seen()) == [KNOWN]
    assert found.new_topics(seen()) == []


@pytest.mark.parametrize(
    ("look", "where"), [(seen("another"), "source"), (seen(target="another"), "target")]
)
def test_a_topic_that_was_created_again_is_named(look: Look, where: str) -> None:
    said = f"the {where}'s topic t was deleted and created again since it was copied: leave it out"
    with pytest.raises(Failed, match=said):
        of(KNOWN, COPIED).check_topics(look)


def test_one_may_take_the_place_of_a_topic_of_which_nothing_was_copied() -> None:
    found = of(KNOWN)
    found.check_topics(seen("another"))
    assert found.replaced(seen()) == set()
    assert found.replaced(seen("another")) == {"t"}
    assert found.new_topics(seen("another")) == [topic_entry("t", TopicIds("another", "there"))]
    with pytest.raises(Failed, match="the target's topic t"):
        found.check_topics(seen("another", "another"))


def test_partitions_count_that_the_new_topic_has_not() -> None:
    with pytest.raises(Failed, match="the source's topic t"):
        of(KNOWN, COPIED).check_topics(seen("another", partitions=1))


def test_a_source_may_know_less_of_its_end_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    behind = seen(end=7)
    found = of(KNOWN, COPIED, later=(behind, behind, seen()))
    assert found.beginnings(behind, [PLACE]) == {PLACE: 10}
    with pytest.raises(Failed, match="t-1: 10 offsets were copied, but the source has only 7 now"):
        of(KNOWN, COPIED, later=(behind,) * 10).beginnings(behind, [PLACE])
    with pytest.raises(Again, match="t-1 is not there any more"):
        of(KNOWN, COPIED, later=(behind, seen(partitions=1))).beginnings(behind, [PLACE])
