"""Playing cases against pairs of brokers, and judging what was answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import groupby, zip_longest
from typing import Any, Final, NamedTuple

from differential.allowed import ALLOWED, Allowed
from differential.case import (
    ANSWER_WITHIN_S,
    LOOKS_WITHIN_S,
    Case,
    Facts,
    Ground,
    Outcome,
    Step,
    looking,
)
from differential.compare import Side, differences
from differential.grounds import facts_of, prepare
from differential.judges import judge_of
from differential.names import Names
from differential.wire import Link
from support.differences import Difference
from support.ports import HOST

NO_STEP: Final = "<no such step>"

Runs = Sequence[tuple[Case, int]]


class Played(NamedTuple):
    """One compared step: the API that was asked, and the answer."""

    api: str
    answer: Any


@dataclass(frozen=True)
class Finding:
    """A difference, with where it was found."""

    case: Case
    version: int
    step: int
    judge: str
    difference: Difference

    def is_allowed_by(self, entry: Allowed) -> bool:
        first, last = entry.versions
        return (
            first <= self.version <= last
            and entry.api == self.case.api
            and fnmatchcase(self.case.name, entry.cases)
            and fnmatchcase(self.difference.path, entry.path)
            and bool(entry.kavka == self.difference.kavka)
            and bool(entry.kafka == self.difference.kafka)
        )


class Pair:
    """Kavka and the Apache Kafka that it is compared with, both running."""

    def __init__(self, judge: str, kavka_port: int, kafka_port: int, prefix: str = "") -> None:
        self.judge = judge
        self._kavka = replace(facts_of(kavka_port, prefix), patience_s=ANSWER_WITHIN_S)
        self._kafka = facts_of(kafka_port, prefix)

    def play(self, runs: Runs) -> list[Finding]:
        """Run all cases of `runs` that this pair's judge is for."""
        mine = [(case, n) for case, n in runs if judge_of(case.api, n) == self.judge]
        with ThreadPoolExecutor(2) as pool:
            ours = pool.submit(_prepare_and_play, self._kavka, mine)
            theirs = pool.submit(_prepare_and_play, self._kafka, mine)
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


def _prepare_and_play(facts: Facts, runs: Runs) -> tuple[Facts, list[list[Played]]]:
    facts = prepare(facts, runs)
    return facts, [played(Ground(case, version, facts)) for case, version in runs]


def played(on: Ground) -> list[Played]:
    """The answers to the steps that are compared."""
    made = on.case.function(on)
    with ExitStack() as stack:
        player = _Player(on, stack)
        if isinstance(made, Mapping):
            player.play(on.ask(**made))
            return player.found
        answer: Any = None
        try:
            while True:
                answer = player.play(made.send(answer))
        except StopIteration:
            pass
        except (KeyError, IndexError, TypeError) as failure:  # the script expected another answer
            player.found.append(Played(on.case.api, f"the script failed: {failure!r}"))
        return [Played(api, player.names.named(answer)) for api, answer in player.found]


@dataclass
class _Player:
    """One script's connections, and what was answered on them."""

    on: Ground
    stack: ExitStack
    links: dict[str, Link] = field(default_factory=dict)
    awaited: dict[str, Step] = field(default_factory=dict)
    """By connection: what was sent there for later."""
    names: Names = field(default_factory=Names)
    found: list[Played] = field(default_factory=list)

    def play(self, step: Step) -> Any:
        """Its answer; None for one that is only sent."""
        link = self._link(step.link)
        if step.later:
            self.awaited[step.link] = step
            return link.send(step)
        if step.answer_as is None:
            asked = self.awaited.pop(step.link)
            answer = link.receive(asked, step.within_s)
        else:
            asked = step
            answer = self._last_of(step, link)
        self.names.learn(answer)
        api = asked.answer_as[0] if asked.answer_as else self.on.case.api
        if step.compared:
            self.found.append(Played(api, asked.shown(answer) if asked.shown else answer))
        elif isinstance(answer, Outcome):
            self.found.append(Played(self.on.case.api, answer))
        return answer

    def _last_of(self, step: Step, link: Link) -> Any:
        """The answer to a step, asked as often as it says."""
        answer = link.play(step)
        for _ in looking():
            if step.again is None or isinstance(answer, Outcome) or not step.again(answer):
                return answer
            answer = link.play(step)
        return f"asked for {LOOKS_WITHIN_S:g} s: {answer}"

    def _link(self, name: str) -> Link:
        if name not in self.links:
            self.links[name] = self.stack.enter_context(Link(HOST, self.on.facts.port))
        return self.links[name]


# -- judging --------------------------------------------------------------------------------


def unexplained(findings: Iterable[Finding]) -> list[Finding]:
    """What no entry of the list allows."""
    return [one for one in findings if not any(one.is_allowed_by(entry) for entry in ALLOWED)]


def outdated(api: str, findings: Sequence[Finding]) -> list[str]:
    """Entries of an API that do not occur in the first and the last of their versions."""
    found = []
    for entry in ALLOWED:
        seen = {one.version for one in findings if one.is_allowed_by(entry)}
        missing = {version for version in entry.versions if version not in seen}
        if entry.api == api and missing:
            found.append(f"{entry} does not occur in version {min(missing)}")
    return found


def report(findings: Sequence[Finding]) -> str:
    """The same difference in several versions as one paragraph."""
    versions: dict[tuple[str, ...], list[int]] = {}
    for one in findings:
        seen = one.difference
        place = one.case.api, one.case.name, str(one.step), seen.path or "the whole"
        key = (*place, repr(seen.kavka), repr(seen.kafka), one.judge)
        versions.setdefault(key, []).append(one.version)
    lines = []
    for (api, case, step, path, kavka, kafka, judge), found in versions.items():
        lines.append(
            f"{api} v{ranges(found)} '{case}', step {step}, {path}:\n"
            f"    Kavka              {kavka}\n    Apache Kafka {judge} {kafka}"
        )
    return "\n".join(lines)


def ranges(versions: Sequence[int]) -> str:
    """`0-3,5`."""
    parts = []
    for _, group in groupby(enumerate(sorted(versions)), key=lambda pair: pair[1] - pair[0]):
        run = [version for _, version in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(parts)
