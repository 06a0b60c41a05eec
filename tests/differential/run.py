"""Playing cases against pairs of brokers, and judging what was answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest

from kavka.compat_tests.raw.allowed import ALLOWED, Allowed
from kavka.compat_tests.raw.case import ANSWER_WITHIN_S, Case
from kavka.compat_tests.raw.compare import Side, differences
from kavka.compat_tests.raw.differences import Difference
from kavka.compat_tests.raw.grounds import facts_of
from kavka.compat_tests.raw.judges import judge_of
from kavka.compat_tests.raw.playing import NO_STEP, Played, Runs, prepare_and_play, ranges
from support.ports import HOST


@dataclass(frozen=True)
class Finding:
    """A difference, with where it was found."""

    case: Case
    version: int
    step: int
    judge: str
    difference: Difference

    def is_allowed_by(self, entry: Allowed) -> bool:
        return entry.covers(self.case.api, self.case.name, self.version, self.difference)


class Pair:
    """Kavka and the Apache Kafka that it is compared with, both running."""

    def __init__(self, judge: str, kavka_port: int, kafka_port: int, prefix: str = "") -> None:
        self.judge = judge
        self._kavka = replace(facts_of(HOST, kavka_port, prefix), patience_s=ANSWER_WITHIN_S)
        self._kafka = facts_of(HOST, kafka_port, prefix)

    def play(self, runs: Runs) -> list[Finding]:
        """Run all cases of `runs` that this pair's judge is for."""
        mine = [(case, n) for case, n in runs if judge_of(case.api, n) == self.judge]
        with ThreadPoolExecutor(2) as pool:
            ours = pool.submit(prepare_and_play, self._kavka, mine)
            theirs = pool.submit(prepare_and_play, self._kafka, mine)
            self._kavka, our_answers = ours.result()
            self._kafka, their_answers = theirs.result()
        found: list[Finding] = []
        for (case, version), left, right in zip(mine, our_answers, their_answers, strict=True):
            found += self._judged(case, version, left, right)
        return found

    def _judged(
        self, case: Case, version: int, ours: list[Played], theirs: list[Played]
    ) -> Iterator[Finding]:
        missing = Played(case.api, NO_STEP)
        for step, (left, right) in enumerate(zip_longest(ours, theirs, fillvalue=missing), 1):
            sides = Side(left.answer, self._kavka), Side(right.answer, self._kafka)
            for difference in differences(right.api, *sides):
                yield Finding(case, version, step, self.judge, difference)


def unexplained(findings: Iterable[Finding]) -> list[Finding]:
    """What no entry of the list allows."""
    return [
        finding
        for finding in findings
        if not any(finding.is_allowed_by(entry) for entry in ALLOWED)
    ]


def outdated(api: str, findings: Sequence[Finding]) -> list[str]:
    """Entries of an API that do not occur in the first and the last of their versions."""
    found = []
    for entry in ALLOWED:
        seen = {finding.version for finding in findings if finding.is_allowed_by(entry)}
        missing = {version for version in entry.versions if version not in seen}
        if entry.api == api and missing:
            found.append(f"{entry} does not occur in version {min(missing)}")
    return found


def report(findings: Sequence[Finding]) -> str:
    """The same difference in several versions as one paragraph."""
    versions: dict[tuple[str, ...], list[int]] = {}
    for finding in findings:
        seen = finding.difference
        place = finding.case.api, finding.case.name, str(finding.step), seen.path or "the whole"
        key = (*place, repr(seen.answered), repr(seen.expected), finding.judge)
        versions.setdefault(key, []).append(finding.version)
    lines = []
    for (api, case, step, path, kavka, kafka, judge), found in versions.items():
        lines.append(
            f"{api} v{ranges(found)} '{case}', step {step}, {path}:\n"
            f"    Kavka              {kavka}\n    Apache Kafka {judge} {kafka}"
        )
    return "\n".join(lines)
