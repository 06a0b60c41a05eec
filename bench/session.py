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
from itertools import groupby
from pathlib import Path

import pytest

from bench import stages
from bench.helper import Helper
from bench.peers import ApacheKafka, Kavka, Peer
from bench.run import LeftOut, Options, Results, Run
from bench.spark_process import SparkProcess
from bench.stages import Stage

PEERS: Mapping[str, type[Peer]] = {"kavka": Kavka, "apache": ApacheKafka}


class BrokerFailed(Exception):
    """A broker did not start or ended by itself; the message has the end of its output."""


def measure(
    names: Sequence[str],
    scratch: Path,
    helper: Helper,
    spark: SparkProcess,
    options: Options,
    only: Sequence[str] | None,
) -> dict[str, Results]:
    """Readings by the names in PEERS. A broker that fails leaves the others to be measured."""
    opening, *later = _blocks(only)
    lives = options.rounds if only is None or "start" in only else 1
    results = {name: Results(PEERS[name].name) for name in names}
    with ExitStack() as stack:
        runs: list[Run] = []
        for name in names:
            with _failures(results[name], runs):
                peer = _bring_up(PEERS[name], scratch / name, lives, results[name], stack)
                runs.append(Run(peer, helper, spark, options, results[name]))
                _in_turn(runs[-1], opening)
        for block in filter(None, later):
            for _ in range(options.rounds if block[0].repeat else 1):
                _for_each(runs, block, Run.wait_quiet)
    return results


def _blocks(only: Sequence[str] | None) -> list[list[Stage]]:
    """The chosen stages in order: those before the first rounds, those of each round, those after
    these rounds, and so on. Some of the lists may be empty."""
    return [
        [stage for stage in block if only is None or _is_chosen(stage, only)]
        for _, block in groupby(stages.STAGES, key=lambda stage: stage.repeat)
    ]


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
        except LeftOut as missing:
            run.results.left_out[stage.name] = str(missing)
            say(run.results.peer, f"{stage.name} left out: {missing}")
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
