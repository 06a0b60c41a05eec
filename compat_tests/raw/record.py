"""Records what Apache Kafka answers to the cases, for those who maintain this package.

    python -m kavka.compat_tests.raw.record --judge 4.3.1 --bootstrap HOST:PORT --again HOST:PORT

Both brokers are of the release that `--judge` names, and fresh, with nothing else on them. What
they do not answer alike is noted in the files as unstable.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Final

from kavka.compat_tests.raw.case import Cases, Facts
from kavka.compat_tests.raw.cases import table_of, tables
from kavka.compat_tests.raw.compare import Side, differences, made_alike
from kavka.compat_tests.raw.grounds import facts_of, with_coordinators
from kavka.compat_tests.raw.judges import NEW, OLD, judge_of
from kavka.compat_tests.raw.playing import NO_STEP, Played, prepare_and_play
from kavka.compat_tests.raw.recording import Answers, Recording, Unstable, new_prefix, save

FOLDER: Final = Path(__file__).parent / "recorded"


def main(words: Sequence[str]) -> int:
    """Record; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m kavka.compat_tests.raw.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--judge", required=True, choices=(NEW, OLD), help="its release")
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT")
    parser.add_argument("--again", required=True, metavar="HOST:PORT", help="a second one")
    parser.add_argument("--apis", metavar="NAME,..", help="only these")
    parser.add_argument("--into", type=Path, default=FOLDER, metavar="FOLDER")
    options = parser.parse_args(words)
    chosen = [table_of(name) for name in options.apis.split(",")] if options.apis else tables()
    brokers = [options.bootstrap, options.again]

    def on_api(recording: Recording, seconds: float) -> None:
        size = save(recording, options.into)
        unstable = sum(bool(answers.unstable) for answers in recording.runs.values())
        about = f"{len(recording.runs)} runs, {unstable} of them unstable, {size:,} bytes"
        print(f"{recording.api}: {about}, {seconds:.0f} s", flush=True)

    record(options.judge, brokers, chosen, on_api)
    return 0


def record(
    judge: str,
    brokers: Sequence[str],
    chosen: Sequence[Cases],
    on_api: Callable[[Recording, float], None],
) -> None:
    """Play the cases that a release judges on two brokers of it."""
    prefix = new_prefix()
    known = [facts_at(broker, prefix) for broker in brokers]
    for cases in chosen:
        runs = [(case, n) for case, n in cases.runs() if judge_of(case.api, n) == judge]
        if not runs:
            continue
        began_s = time.monotonic()
        with ThreadPoolExecutor(len(known)) as pool:
            done = list(pool.map(lambda facts, runs=runs: prepare_and_play(facts, runs), known))
        known = [facts for facts, _ in done]
        first, second = ([_alike(facts, played) for played in answers] for facts, answers in done)
        found = {
            (case.name, version): _both(known[0], *pair)
            for (case, version), *pair in zip(runs, first, second, strict=True)
        }
        recording = Recording(judge, cases.api, known[0].now_ms, prefix, found)
        on_api(recording, time.monotonic() - began_s)


def facts_at(bootstrap: str, prefix: str) -> Facts:
    """Of the broker at HOST:PORT."""
    host, _, port = bootstrap.rpartition(":")
    return with_coordinators(facts_of(host, int(port), prefix))


def _alike(facts: Facts, played: Sequence[Played]) -> list[Played]:
    return [
        Played(result.api, made_alike(result.api, Side(result.answer, facts))) for result in played
    ]


def _both(facts: Facts, first: Sequence[Played], second: Sequence[Played]) -> Answers:
    """The first recording, and where the second is another."""
    return Answers(first, list(_unstable(facts, first, second)))


def _unstable(
    facts: Facts, first: Sequence[Played], second: Sequence[Played]
) -> Iterator[Unstable]:
    missing = Played("", NO_STEP)
    for step, (left, right) in enumerate(zip_longest(first, second, fillvalue=missing), 1):
        sides = Side(left.answer, facts), Side(right.answer, facts)
        for difference in differences(left.api or right.api, *sides):
            yield Unstable(step, difference.path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
