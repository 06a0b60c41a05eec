"""A whole run: brokers brought up one after the other, then measured in turn, round by round.

While one is measured the other is up but idle (a few percent of a core for a JVM, see the row
"CPU at rest"). That is the price of rounds that alternate: whatever else happens on the machine
in these minutes falls on both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from bench import stages
from bench.helper import Helper
from bench.peers import ApacheKafka, Kavka, Peer
from bench.run import LeftOut, Options, R, Results, Run, Stage
from bench.spark_process import SparkProcess

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
    opening, *later = blocks(stages.STAGES, only, ("warm-up", "end"))
    lives = options.rounds if only is None or "start" in only else 1
    results = {name: Results(PEERS[name].name) for name in names}
    with ExitStack() as stack:
        runs: list[Run] = []
        for name in names:
            with failures(results[name], runs):
                peer = _bring_up(PEERS[name], scratch / name, lives, results[name], stack)
                runs.append(Run(peer, helper, spark, options, results[name]))
                in_turn(runs[-1], opening)
        in_rounds(runs, later, options.rounds)
    return results


def blocks(
    stages: Sequence[Stage[R]], only: Sequence[str] | None, always: Sequence[str]
) -> list[list[Stage[R]]]:
    """The chosen stages in order: those before the first rounds, those of each round, those after
    these rounds, and so on. Some of the lists may be empty. `only`: what names of stages begin
    with, None for all; `always`: names of those that every run has."""

    def is_chosen(stage: Stage[R]) -> bool:
        return only is None or stage.name in always or stage.name.startswith(tuple(only))

    return [
        [stage for stage in block if is_chosen(stage)]
        for _, block in groupby(stages, key=lambda stage: stage.repeat)
    ]


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


def in_rounds(runs: list[R], stage_blocks: Sequence[Sequence[Stage[R]]], rounds: int) -> None:
    """Run each block for each of `runs`, in `rounds` if it repeats. Who fails is taken out."""
    for block in filter(None, stage_blocks):
        for _ in range(rounds if block[0].repeat else 1):
            for run in list(runs):
                with failures(run.results, runs):
                    run.wait_quiet()
                    in_turn(run, block)


def in_turn(run: R, block: Sequence[Stage[R]]) -> None:
    """Run stages; one that fails is noted. BrokerFailed when a broker has ended."""
    for stage in block:
        say(run.results.peer, stage.name)
        try:
            stage.act(run)
        except LeftOut as missing:
            run.results.left_out[stage.name] = str(missing)
            say(run.results.peer, f"{stage.name} left out: {missing}")
        except (RuntimeError, OSError, TimeoutError, AssertionError) as error:
            run.results.failures[stage.name] = f"{type(error).__name__}: {error}"
        if not run.alive():
            raise BrokerFailed(f"ended by itself after {stage.name}\n{run.output_tail()}")


@contextmanager
def failures(results: Results, runs: list[Any]) -> Iterator[None]:
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
