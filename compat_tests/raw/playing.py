"""Playing the scripts of cases against one broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from kavka.compat_tests.raw.case import (
    LOOKS_WITHIN_S,
    Case,
    Facts,
    Ground,
    NotPlayable,
    Outcome,
    Step,
    looking,
)
from kavka.compat_tests.raw.grounds import prepare
from kavka.compat_tests.raw.link import Link
from kavka.compat_tests.raw.names import Names

Runs = Sequence[tuple[Case, int]]

NO_STEP: Final = "<no such step>"
"""The answer in a comparison of a step that one side does not have."""

UNEXPECTED: Final = (LookupError, TypeError, ValueError, AttributeError)
"""What a script raises that expected another answer."""


class Played(NamedTuple):
    """One compared step: the API that was asked, and the answer."""

    api: str
    answer: Any


def prepare_and_play(facts: Facts, runs: Runs) -> tuple[Facts, list[list[Played]]]:
    """Make what these runs need and play them; the facts with the topics' ids, and the answers."""
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
        except UNEXPECTED as failure:
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
        if step.answer_as is not None and not self.on.facts.offers(*step.answer_as):
            api, version = step.answer_as
            raise NotPlayable(f"the broker does not offer {api} {version}")
        link = self._link(step.link)
        if step.later:
            self.awaited[step.link] = step
            return link.send(step)
        if step.answer_as is None:
            sent = self.awaited.pop(step.link)
            answer = link.receive(sent, step.within_s)
        else:
            sent = step
            answer = self._last_of(step, link)
        self.names.learn(answer)
        api = sent.answer_as[0] if sent.answer_as else self.on.case.api
        if step.compared:
            self.found.append(Played(api, sent.shown(answer) if sent.shown else answer))
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
            self.links[name] = self.stack.enter_context(
                Link(self.on.facts.host, self.on.facts.port)
            )
        return self.links[name]


def ranges(versions: Sequence[int]) -> str:
    """`0-3,5`."""
    parts = []
    for _, group in groupby(enumerate(sorted(versions)), key=lambda pair: pair[1] - pair[0]):
        run = [version for _, version in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(parts)
