"""What is said of topics that grow for ever."""

from __future__ import annotations

from kavka.tools.doctor.findings import Level
from kavka.tools.doctor.retention import EACH_MAX, judge_retention

ENDLESS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
LIMITED = ENDLESS | {"retention.bytes": "1000"}


def test_topics_with_a_limit_are_right() -> None:
    (found,) = judge_retention({"a": LIMITED, "b": {"cleanup.policy": "compact"}}, {})
    assert found.level == Level.OK


def test_each_has_its_size_and_its_remedy() -> None:
    found = judge_retention({"a": ENDLESS, "b": LIMITED, "c": ENDLESS}, {"a": 5, "c": 3_000_000})
    assert [finding.subject for finding in found] == ["c", "a"]
    assert "(retention.ms=-1 and retention.bytes=-1), 3.0 MB now: it grows" in found[0].found
    assert "--entity-name c --add-config retention.ms=604800000" in found[0].advice


def test_many_share_a_finding_behind_the_largest() -> None:
    names = [f"t{number:02}" for number in range(EACH_MAX + 3)]
    sizes = {name: number for number, name in enumerate(names)}
    found = judge_retention(dict.fromkeys(names, ENDLESS), sizes)
    assert [finding.subject for finding in found] == [*reversed(names[3:]), "3 more topics"]
    assert found[-1].found == "keep all records for ever: t00, t01, t02"
    assert {finding.problem for finding in found} == {"no-limit"}
