"""Checks a broker against what Apache Kafka answered.

For every version that the broker's ApiVersions offers, of every API that there are cases for, the
cases are played, and what is answered is compared field by field with the recorded answers. What a
broker may choose is made alike first (`nature.py`), and what is right although Apache Kafka answers
something else is accepted (`accepted.py`); where Kavka is another on purpose, the reason is given
(`allowed.py`). What the broker offers beyond the cases is named.

The broker should be one for tests: cases make thousands of topics and change settings. What they
make and change is brought back behind each API (`restoring.py`).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Final, NamedTuple, TypeAlias

from kavka.compat_tests.raw.accepted import is_accepted
from kavka.compat_tests.raw.allowed import reason_for
from kavka.compat_tests.raw.case import (
    GROUP_APIS,
    Case,
    Cases,
    Facts,
    Ground,
    NotPlayable,
)
from kavka.compat_tests.raw.cases import table_of, tables
from kavka.compat_tests.raw.compare import Side, differences
from kavka.compat_tests.raw.grounds import prepare
from kavka.compat_tests.raw.judges import JUDGES, NEW, OLD, judge_of
from kavka.compat_tests.raw.link import Link
from kavka.compat_tests.raw.needs import needs_of
from kavka.compat_tests.raw.outcomes import ApiOutcome, Failure, Verdict
from kavka.compat_tests.raw.playing import NO_STEP, Played, Runs, played
from kavka.compat_tests.raw.recording import Recording, load, new_prefix
from kavka.compat_tests.raw.restoring import Caretaker
from kavka.compat_tests.raw.survey import survey
from kavka.compat_tests.raw.waiting import NotInTime

SLOW_S: Final = 30.0
SLOW_MAX: Final = 3
"""So many cases of a version may take that long; then its others are left out."""

DELAY: Final = "group.initial.rebalance.delay.ms"
CASES_AT_ONCE: Final = 24
"""Where each new group waits for more members."""

TOO_SLOW: Final = f"{SLOW_MAX} cases of this version took longer than {SLOW_S:.0f} s"
SLOW_BEFORE: Final = f"it took longer than {SLOW_S:.0f} s in a version before"
NOT_RECORDED: Final = "there is no recorded answer"
STOPPED: Final = "the check was stopped"

OnApi: TypeAlias = Callable[[Sequence[ApiOutcome]], None]


async def check(
    bootstrap: str,
    apis: Sequence[str] | None = None,
    on_api: OnApi | None = None,
    judges: Collection[str] = JUDGES,
) -> list[ApiOutcome]:
    """Check the broker at HOST:PORT; of `apis`, all if None. `on_api` hears of each API when it is
    done, on the caller's event loop. Versions that another release of Apache Kafka judges than
    `judges` are left out. If all are checked, what the broker offers beyond them is named behind
    them. Unsuitable."""
    loop = asyncio.get_running_loop()
    stop = threading.Event()

    def heard(outcomes: Sequence[ApiOutcome]) -> None:
        if on_api is not None:
            loop.call_soon_threadsafe(on_api, outcomes)

    try:
        return await asyncio.to_thread(check_now, bootstrap, apis, heard, stop, judges)
    finally:
        stop.set()


def check_now(
    bootstrap: str,
    apis: Sequence[str] | None = None,
    on_api: OnApi = lambda outcomes: None,
    stop: threading.Event | None = None,
    judges: Collection[str] = JUDGES,
) -> list[ApiOutcome]:
    """The same in the caller's thread; `stop` ends it early. Unsuitable."""
    chosen = tables() if apis is None else [table_of(name) for name in apis]
    facts = survey(bootstrap, new_prefix())
    found: list[ApiOutcome] = []
    stop = stop or threading.Event()
    for cases in chosen:
        outcomes = ApiCheck(cases, facts, stop, judges).run()
        if stop.is_set():  # the broker may be gone already
            return found
        found += outcomes
        on_api(outcomes)
    if len(chosen) == len(tables()):
        for api in sorted(facts.offered or {}):
            if outcomes := list(without_cases(api, facts)):
                found += outcomes
                on_api(outcomes)
    return found


def without_cases(api: str, facts: Facts) -> Iterator[ApiOutcome]:
    """The versions of an API that the broker offers and that are not tried."""
    lowest, highest = (facts.offered or {})[api]
    mine = next((cases for cases in tables() if cases.api == api), None)
    for version in range(lowest, highest + 1):
        if mine is None or not mine.first <= version <= mine.last:
            yield ApiOutcome(api, version, Verdict.NO_CASES)


class Judged(NamedTuple):
    """One case in one version that was played."""

    version: int
    failures: Sequence[Failure]


@dataclass
class ApiCheck:
    """One API. What each release of Apache Kafka judges is played on topics of its own, since what
    one version leaves in a topic may be what the next one finds."""

    cases: Cases
    facts: Facts
    stop: threading.Event
    judges: Collection[str] = JUDGES
    left_out: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By version: how many cases, by reason."""
    _slow: Counter[int] = field(default_factory=Counter)
    """Cases that took long, by version."""
    _slow_cases: set[str] = field(default_factory=set)

    def run(self) -> list[ApiOutcome]:
        """Its outcomes, version by version."""
        versions = range(self.cases.first, self.cases.last + 1)
        offered = {n for n in versions if self.facts.offers(self.cases.api, n)}
        runs = [(case, n) for case, n in self.cases.runs() if n in offered]
        judged: list[Judged] = []
        for judge, prefix in ((NEW, self.facts.prefix), (OLD, new_prefix())):
            mine = [(case, n) for case, n in runs if judge_of(case.api, n) == judge]
            if judge not in self.judges:
                for _, version in mine:
                    self.left_out[version][f"Apache Kafka {judge} judges it"] += 1
                continue
            recording = load(judge, self.cases.api, prefix)
            facts = replace(self.facts, prefix=prefix)
            judged += self._judged(facts, recording, list(self._playable(recording, mine)))
        return [
            self._outcome(version, judged)
            if version in offered
            else ApiOutcome(self.cases.api, version, Verdict.NOT_OFFERED)
            for version in versions
        ]

    def _outcome(self, version: int, judged: Sequence[Judged]) -> ApiOutcome:
        mine = [run for run in judged if run.version == version]
        failures = [failure for run in mine for failure in run.failures]
        verdict = Verdict.FAILED if failures else Verdict.PASSED if mine else Verdict.LEFT_OUT
        left_out = dict(self.left_out[version])
        return ApiOutcome(self.cases.api, version, verdict, len(mine), failures, left_out)

    def _playable(self, recording: Recording | None, runs: Runs) -> Iterator[tuple[Case, int]]:
        """Those that have a recorded answer, on what the version before has left if they do so."""
        first: dict[str, int] = {}
        for name, version in recording.runs if recording else ():
            first[name] = min(version, first.get(name, version))
        for case, version in runs:
            if recording is None or (case.name, version) not in recording.runs:
                self.left_out[version][NOT_RECORDED] += 1
            elif any(topic.kept for topic in case.topics) and not self.facts.offers(
                case.api, first[case.name]
            ):
                self.left_out[version][f"it builds on version {first[case.name]}"] += 1
            else:
                yield case, version

    def _judged(self, facts: Facts, recording: Recording | None, runs: Runs) -> list[Judged]:
        """Play all, on topics that are made for it; leave the broker as it was."""
        if not runs or recording is None:
            return []
        found: list[Judged] = []
        with Link(facts.host, facts.port, facts.offered) as link:
            caretaker = Caretaker(link, facts)
            before = caretaker.before()
            try:
                facts = prepare(facts, runs)
                with ThreadPoolExecutor(_at_once(facts, self.cases)) as pool:
                    judge = partial(self._one_case, facts, recording)
                    for judged in pool.map(judge, _by_case(runs)):
                        found += judged
            except (NotInTime, NotPlayable) as reason:
                for _, version in runs:
                    self.left_out[version][str(reason)] += 1
            finally:
                caretaker.restore(before)
                caretaker.clear()
        return found

    def _one_case(self, facts: Facts, recording: Recording, runs: Runs) -> list[Judged]:
        """One case in its versions, one after the other."""
        found = []
        for case, version in runs:
            answers = self._played(Ground(case, version, facts))
            if answers is not None:
                failures = list(failures_of(facts, recording, case, version, answers))
                found.append(Judged(version, failures))
        return found

    def _played(self, on: Ground) -> list[Played] | None:
        """None if it was left out."""
        left_out = self.left_out[on.version]
        if self.stop.is_set():
            left_out[STOPPED] += 1
            return None
        if self._slow[on.version] >= SLOW_MAX:
            left_out[TOO_SLOW] += 1
            return None
        if on.case.name in self._slow_cases:
            left_out[SLOW_BEFORE] += 1
            return None
        began_s = time.monotonic()
        try:
            for need in needs_of(on.case):
                on.needs(need.setting, need.value)
            return played(on)
        except NotPlayable as reason:
            left_out[str(reason)] += 1
            return None
        finally:
            if time.monotonic() - began_s > SLOW_S:
                self._slow[on.version] += 1
                self._slow_cases.add(on.case.name)


def _by_case(runs: Runs) -> list[Runs]:
    cases: dict[str, list[tuple[Case, int]]] = {}
    for case, version in runs:
        cases.setdefault(case.name, []).append((case, version))
    return list(cases.values())


def _at_once(facts: Facts, cases: Cases) -> int:
    """How many cases are played at the same time: one, unless most of a case is waiting, and none
    sees what another leaves."""
    waits = facts.settings.get(DELAY, "0") not in ("0", None)
    return CASES_AT_ONCE if waits and cases.api in GROUP_APIS else 1


def failures_of(
    facts: Facts, recording: Recording, case: Case, version: int, answers: Sequence[Played]
) -> Iterator[Failure]:
    """What in the answers to a case is neither Apache Kafka's nor accepted."""
    recorded = recording.runs[case.name, version]
    missing = Played(case.api, NO_STEP)
    steps = zip_longest(answers, recorded.played, fillvalue=missing)
    for step, (found, expected) in enumerate(steps, 1):
        api = expected.api if expected is not missing else found.api
        sides = Side(found.answer, facts), Side(expected.answer, recording.facts)
        for difference in differences(api, *sides):
            why = reason_for(case.api, case.name, version, difference)
            failure = Failure(
                case.name, step, api, difference.path, difference.answered, difference.expected, why
            )
            unstable = recorded.is_unstable(step, difference.path)
            if not unstable and not is_accepted(case.api, version, failure):
                yield failure
