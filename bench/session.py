"""A whole run: brokers brought up one after the other, then measured in turn, round by round.

While one is measured the other is up but idle (a few percent of a core for a JVM, see the row
"CPU at rest"). That is the price of rounds that alternate: whatever else happens on the machine
in these minutes falls on both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bench import stages
from bench.helper import Helper
from bench.peers import ApacheKafka, Kavka, Peer
from bench.run import Options, Results, Run
from bench.stages import Stage

PEERS: Mapping[str, type[Peer]] = {"kavka": Kavka, "apache": ApacheKafka}


class BrokerFailed(Exception):
    """A broker did not start or ended by itself; the message has the end of its output."""


def measure(
    names: Sequence[str],
    scratch: Path,
    helper: Helper,
    options: Options,
    only: Sequence[str] | None,
) -> dict[str, Results]:
    """Readings by the names in PEERS. A broker that fails leaves the others to be measured."""
    opening, repeated, closing = _plan(only)
    lives = options.rounds if only is None or "start" in only else 1
    results = {name: Results(PEERS[name].name) for name in names}
    with ExitStack() as stack:
        runs: list[Run] = []
        for name in names:
            with _failures(results[name], runs):
                peer = _bring_up(PEERS[name], scratch / name, lives, results[name], stack)
                runs.append(Run(peer, helper, options, results[name]))
                _in_turn(runs[-1], opening)
        for _ in range(options.rounds):
            _for_each(runs, repeated, Run.wait_quiet)
        _for_each(runs, closing, Run.wait_quiet)
    return results


def _plan(only: Sequence[str] | None) -> tuple[list[Stage], list[Stage], list[Stage]]:
    """The chosen stages: before the rounds, of each round, and after them."""
    chosen = [stage for stage in stages.STAGES if only is None or _is_chosen(stage, only)]
    first = next((at for at, stage in enumerate(stages.STAGES) if stage.repeat), 0)
    early = [stage.name for stage in stages.STAGES[:first]]
    return (
        [stage for stage in chosen if stage.name in early],
        [stage for stage in chosen if stage.repeat],
        [stage for stage in chosen if not stage.repeat and stage.name not in early],
    )


def _is_chosen(stage: Stage, only: Sequence[str]) -> bool:
    return stage.name in ("warm-up", "end") or stage.name.startswith(tuple(only))


def _bring_up(kind: type[Peer], home: Path, lives: int, results: Results, stack: ExitStack) -> Peer:
    """Start a broker on an empty directory, and again, `lives` times; the last stays up."""
    home.mkdir()
    for number in range(lives - 1):
        with kind(home / str(number)) as peer:
            _first_steps(peer, results)
    peer = stack.enter_context(kind(home / str(lives - 1)))
    _first_steps(peer, results)
    return peer


def _first_steps(peer: Peer, results: Results) -> None:
    say(results.peer, "start")
    try:
        peer.prepare()
        stages.start(peer, results)
    except (RuntimeError, OSError) as error:
        raise BrokerFailed(f"{error}\n{peer.output_tail()}") from error


def _for_each(runs: list[Run], wanted: Sequence[Stage], before: Callable[[Run], None]) -> None:
    for run in list(runs):
        with _failures(run.results, runs):
            before(run)
            _in_turn(run, wanted)


def _in_turn(run: Run, wanted: Sequence[Stage]) -> None:
    for stage in wanted:
        say(run.results.peer, stage.name)
        try:
            stage.act(run)
        except (RuntimeError, OSError, TimeoutError) as error:
            run.results.failures[stage.name] = f"{type(error).__name__}: {error}"
        if not run.peer.alive():
            raise BrokerFailed(f"ended by itself after {stage.name}\n{run.peer.output_tail()}")


@contextmanager
def _failures(results: Results, runs: list[Run]) -> Iterator[None]:
    """Note why a broker can't be measured (any longer), and leave it out from then on."""
    try:
        yield
    except BrokerFailed as failure:
        results.failures["broker"] = str(failure)
        runs[:] = [run for run in runs if run.results is not results]
    except (pytest.skip.Exception, pytest.fail.Exception) as missing:  # no Java, no jars
        results.failures["broker"] = str(missing)


def say(peer: str, stage: str) -> None:
    """Tell on stderr what is done now."""
    print(f"[{time.strftime('%H:%M:%S')}] {peer}: {stage}", file=sys.stderr, flush=True)
