"""Runs the cases of one API and prints what differs, for those who write cases.

PYTHONPATH=src:tests python -m differential --api 2 --case 'the end*'

Brokers are started for it. Apache Kafka takes some seconds to start: `--serve FILE` keeps both
judges running until Ctrl-C and writes their ports to a file, which another run uses by
`--judges FILE`. Topics have another prefix in each such run. `--alone` asks no Kavka, and prints
what the judges answer.
"""

from __future__ import annotations

import argparse
import json
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from differential import brokers
from differential.brokers import JUDGES
from differential.run import outdated, report, unexplained
from kavka.compat_tests.raw.case import Case, Facts, Ground
from kavka.compat_tests.raw.cases import table_of, tables
from kavka.compat_tests.raw.grounds import facts_of, prepare
from kavka.compat_tests.raw.judges import judge_of
from kavka.compat_tests.raw.playing import played, ranges
from support.ports import HOST

SLOW_S: Final = 2.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m differential", description=__doc__)
    parser.add_argument("--api", help="the API's key or name")
    parser.add_argument("--case", default="*", help="a pattern for the names of cases")
    parser.add_argument("--version", type=int, help="only this version")
    parser.add_argument("--all", action="store_true", help="also print what is allowed")
    parser.add_argument("--judges", type=Path, help="ports of running judges")
    parser.add_argument("--serve", type=Path, help="run the judges, and write their ports here")
    parser.add_argument("--alone", action="store_true", help="print what the judges answer")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if options.serve is not None:
            return serve(Path(folder), options.serve)
        return compare(Path(folder), options)


def serve(home: Path, file: Path) -> int:
    """Keep the judges running until SIGINT or SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # so that they are stopped on the way out
    with brokers.judges(home, JUDGES) as running:
        file.write_text(json.dumps({name: broker.port for name, broker in running.items()}))
        print(f"the judges run, see {file}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopping the judges", flush=True)
    return 0


def compare(home: Path, options: argparse.Namespace) -> int:
    runs = chosen(options)
    names = [name for name in JUDGES if any(judge_of(case.api, n) == name for case, n in runs)]
    if options.judges is not None:
        ports = json.loads(options.judges.read_text())
        return compared(home, runs, {name: ports[name] for name in names}, options)
    with brokers.judges(home, names) as running:
        return compared(home, runs, {name: judge.port for name, judge in running.items()}, options)


def chosen(options: argparse.Namespace) -> list[tuple[Case, int]]:
    every_table = tables() if options.api is None else [table_of(options.api)]
    return [
        (case, version)
        for cases in every_table
        for case, version in cases.runs()
        if fnmatchcase(case.name, options.case) and options.version in (None, version)
    ]


def compared(
    home: Path,
    runs: list[tuple[Case, int]],
    ports: dict[str, int],
    options: argparse.Namespace,
) -> int:
    prefix = f"x{secrets.token_hex(3)}-" if options.judges else ""
    if options.alone:
        for name, port in ports.items():
            summary(
                facts_of(HOST, port, prefix),
                [run for run in runs if judge_of(run[0].api, run[1]) == name],
            )
        return 0
    with brokers.pairs(home, ports, prefix) as pairs:
        findings = [finding for pair in pairs.values() for finding in pair.play(runs)]
    wrong = unexplained(findings)
    print(report(findings if options.all else wrong))
    old: list[str] = []
    if options.case == "*" and options.version is None:
        apis = {case.api: None for case, _ in runs}
        old = [line for api in apis for line in outdated(api, findings)]
        print("\n".join(old))
    print(f"{len(runs)} runs, {len(findings)} differences, {len(wrong)} of them not allowed")
    return 1 if wrong or old else 0


def summary(facts: Facts, runs: list[tuple[Case, int]]) -> None:
    """Print what one broker answers; the same in several versions once."""
    facts = prepare(facts, runs)
    seen: dict[tuple[str, str], list[int]] = {}
    for case, version in runs:
        began_s = time.monotonic()
        found = played(Ground(case, version, facts))
        seconds = time.monotonic() - began_s
        lines = [f"    {answer.api}: {_brief(answer.answer)}" for answer in found]
        text = "\n".join(lines).replace(f"-v{version}-", "-v-")
        seen.setdefault((f"{case.api} '{case.name}'", text), []).append(version)
        if seconds > SLOW_S:
            print(f"{case.name} v{version} took {seconds:.1f} s")
    for (name, text), versions in seen.items():
        print(f"{name} v{ranges(versions)}\n{text}")


def _brief(answer: Any) -> Any:
    """Without what is empty."""
    if isinstance(answer, dict):
        kept = {key: _brief(value) for key, value in answer.items() if key != "own answer"}
        return {key: value for key, value in kept.items() if value or key == "error_code"}
    return [_brief(element) for element in answer] if isinstance(answer, list) else answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
