"""Whether both clusters still have what was copied."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest

from kavka.tools.admin.errors import Failed
from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.continuity import Continuity
from kavka.tools.mirror.failures import Again
from kavka.tools.mirror.ledger import (
    Entry,
    Ledger,
    TopicIds,
    Written,
    group_entry,
    offsets_entry,
    position_entry,
    topic_entry,
)
from kavka.tools.mirror.look import Look
from kavka.tools.mirror.offset_map import Chunk, Run
from kavka.tools.mirror.report import Once, Report
from kavka.tools.mirror.topic_plan import Topic

PLACE = ("t", 1)
KNOWN = topic_entry("t", TopicIds("here", "there"))
COPIED = offsets_entry(PLACE, Chunk(0, [Run(0, 0, 10)]))
EMPTY = position_entry(PLACE, 0)


def seen(source: str = "here", target: str = "there", end: int = 10, partitions: int = 2) -> Look:
    """A look at the topic, which has these ids."""

    def topics(name: str) -> dict[str, Topic]:
        return {"t": Topic("t", name, partitions, {}, frozenset())}

    topic_partitions = [("t", at) for at in range(partitions)]
    return Look(
        topics(source),
        topics(target),
        dict.fromkeys(topic_partitions, 0),
        dict.fromkeys(topic_partitions, end),
        dict.fromkeys(topic_partitions, 0),
        {},
    )


class Looks:
    """Stands in for the later ones."""

    to_copy_again: frozenset[str] = frozenset()

    def __init__(self, *looks: Look) -> None:
        self._looks = iter(looks)

    def patient(self) -> Look:
        return next(self._looks)


class Clusters:
    """Stands in for the source, whose topic has this id now: "" while it is not known; and for the
    target, which has something in these partitions."""

    def __init__(self, source_id: str, *used: TopicPartition) -> None:
        self.source_id, self._used = source_id, set(used)
        self.times_asked = 0

    def source_ids(self, names: Iterable[str]) -> dict[str, str]:
        self.times_asked += 1
        if not self.source_id:
            raise Failed("no broker answers")
        return dict.fromkeys(names, self.source_id)

    def used(self, topic_partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        if not self.source_id:
            raise Failed("no broker answers")
        return self._used & set(topic_partitions)


def of(
    *entries: Entry, later: tuple[Look, ...] = (), clusters: Clusters | None = None
) -> Continuity:
    looks: Any = Looks(*later)
    there: Any = clusters
    return Continuity(there, looks, Ledger(entries), Once(Report(None)))


def test_the_ledger_learns_of_a_topic_once() -> None:
    found = of()
    found.check_topics(seen())
    assert found.new_topics(seen()) == [KNOWN]
    assert found.new_topics(seen()) == []


@pytest.mark.parametrize(
    ("look", "where"), [(seen("another"), "source"), (seen(target="another"), "target")]
)
def test_a_topic_that_was_created_again_is_named(look: Look, where: str) -> None:
    message = (
        f"the {where}'s topic t was deleted and created again since it was copied: leave it out"
    )
    with pytest.raises(Failed, match=message):
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


def test_the_first_that_is_read_of_a_topic_is_known_to_be_its_own() -> None:
    clusters = Clusters("here")
    found = of(KNOWN, clusters=clusters)
    for _ in range(3):
        assert found.others(["t"]) == set()
    assert clusters.times_asked == 1
    changed = of(KNOWN, clusters=Clusters("another"))
    assert changed.others(["t"]) == changed.others(["t"]) == {"t"}
    with pytest.raises(Again, match="no broker answers"):
        of(KNOWN, clusters=Clusters("")).others(["t"])


def test_the_first_of_the_topic_in_its_place_is_asked_about_again() -> None:
    clusters = Clusters("here")
    found = of(KNOWN, clusters=clusters)
    found.others(["t"])
    found.new_topics(seen("another"))
    assert found.others(["t"]) == {"t"}
    assert clusters.times_asked == 2


def test_of_what_was_copied_before_it_is_not_asked() -> None:
    """By then the next look tells."""
    clusters = Clusters("another")
    assert of(KNOWN, COPIED, clusters=clusters).others(["t"]) == set()
    assert not clusters.times_asked


def test_a_source_may_know_less_of_its_end_after_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    behind = seen(end=7)
    found = of(KNOWN, COPIED, later=(behind, behind, seen()))
    assert found.beginnings(behind, [PLACE]) == {PLACE: 10}
    with pytest.raises(Failed, match="t-1: 10 offsets were copied, but the source has only 7 now"):
        of(KNOWN, COPIED, later=(behind,) * 10).beginnings(behind, [PLACE])
    with pytest.raises(Again, match="t-1 is not there any more"):
        of(KNOWN, COPIED, later=(behind, seen(partitions=1))).beginnings(behind, [PLACE])


def test_it_is_said_how_one_topic_is_copied_again() -> None:
    message = r"or delete it in the target and have the mirror copy it again \(--copy-again t\)$"
    for look in (seen("another"), seen(target="another")):
        with pytest.raises(Failed, match=message):
            of(KNOWN, COPIED).check_topics(look)


def test_what_is_copied_again_is_forgotten_with_all_that_was_copied_of_it() -> None:
    """Nothing of another topic, nor which offsets of groups are the mirror's own."""
    other = ("u", 0)
    entries = [
        KNOWN,
        COPIED,
        offsets_entry(PLACE, Chunk(20, [Run(20, 30, 5)]), 3),
        position_entry(PLACE, 40),
        position_entry(("t", 0), 7),
        offsets_entry(other, Chunk(0, [Run(0, 0, 10)])),
        position_entry(other, 11),
        group_entry(("g", *PLACE), Written(4, 4)),
    ]
    found = of(*entries, clusters=Clusters("here"))
    forgotten = found.forget(seen("another", "third"), {"t"})
    found.check_topics(seen("another", "third"))
    new = found.new_topics(seen("another", "third"))
    assert found.beginnings(seen("another", "third"), [PLACE, ("t", 0)]) == {PLACE: 0, ("t", 0): 0}
    after = Ledger([*entries, *forgotten, *new])
    assert after.topics == {"t": TopicIds("another", "third")}
    assert (after.position(PLACE), after.position(("t", 0)), after.position(other)) == (
        None,
        None,
        11,
    )
    assert after.map_of(other).next_source == 10
    assert PLACE not in after.epochs
    assert after.groups == {("g", *PLACE): Written(4, 4)}


def test_what_is_not_empty_in_the_target_is_not_copied_again() -> None:
    """Also by a partition that the source's topic does not have."""
    look = seen(target="new")
    more = look._replace(target={"t": look.target["t"]._replace(partitions=3)})
    with pytest.raises(Failed, match="topic t is not empty in the target: delete it there"):
        of(KNOWN, COPIED, clusters=Clusters("here", ("t", 2))).forget(more, {"t"})
    with pytest.raises(Again, match="the target's offsets are not known: no broker answers"):
        of(KNOWN, COPIED, clusters=Clusters("")).forget(more, {"t"})


def test_a_topic_that_waits_to_be_copied_again_is_not_compared() -> None:
    found = of(KNOWN, COPIED)
    found._looks.to_copy_again = {"t"}
    found.check_topics(seen("another"))


def test_records_of_others_in_the_target_are_said_once_of_a_topic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not where the ledger knows the partition: they may be of an aborted transaction."""
    used = Clusters("here", ("t", 0), PLACE)
    found, begins = of(KNOWN, clusters=used), {("t", 0): 0, PLACE: 3}
    entries = found.first_positions(begins, ())
    assert entries == [position_entry(("t", 0), 0), position_entry(PLACE, 3)]
    assert found.first_positions(begins, ()) == []
    warning = (
        "t has records in the target already that this mirror has not written: what it copies "
    )
    assert capsys.readouterr().err == f"{warning}comes behind them\n"
    assert of(KNOWN, *entries, clusters=used).first_positions(begins, ()) == []
    assert of(KNOWN, COPIED, clusters=used).first_positions({PLACE: 10}, ()) == []
    assert len(of(KNOWN, clusters=used).first_positions(begins, {"t"})) == 2
    assert capsys.readouterr().err == ""


def test_what_was_deleted_since_the_first_look_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Also of a partition that was empty then."""
    found = of(KNOWN, EMPTY)
    look = seen()
    assert found.beginnings(look._replace(starts={PLACE: 5}), [PLACE]) == {PLACE: 5}
    assert capsys.readouterr().err == (
        "t-1: offsets 0 to 4 were deleted in the source before they were copied\n"
    )
