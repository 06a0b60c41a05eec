"""`python -m kavka.compat_tests.raw HOST:PORT`: checks a broker, and prints what is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kavka.compat_tests.raw.checking import check_now
from kavka.compat_tests.raw.outcomes import ApiOutcome, Verdict
from kavka.compat_tests.raw.playing import ranges
from kavka.compat_tests.raw.survey import Unsuitable


def main(words: Sequence[str]) -> int:
    """Check; the exit code: 1 if something failed, 2 if nothing could be checked."""
    parser = argparse.ArgumentParser(prog="python -m kavka.compat_tests.raw")
    parser.add_argument("bootstrap", metavar="HOST:PORT", help="a broker for tests")
    parser.add_argument("--apis", metavar="NAME,..", help="only these, by name or key")
    options = parser.parse_args(words)
    apis = options.apis.split(",") if options.apis else None
    try:
        found = check_now(options.bootstrap, apis, show)
    except Unsuitable as reason:
        print(reason, file=sys.stderr)
        return 2
    counts = {verdict: sum(outcome.verdict == verdict for outcome in found) for verdict in Verdict}
    print("versions: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts[Verdict.FAILED] else 0


def show(outcomes: Sequence[ApiOutcome]) -> None:
    """One API, a line for each verdict, and each failure once for all its versions."""
    for verdict in Verdict:
        mine = [outcome for outcome in outcomes if outcome.verdict == verdict]
        if mine:
            versions = ranges([outcome.version for outcome in mine])
            played, failed = (
                sum(outcome.played for outcome in mine),
                sum(outcome.failed for outcome in mine),
            )
            print(f"{mine[0].api} {versions}: {verdict}, {played} played, {failed} failed")
    versions_of: dict[str, list[int]] = {}
    for outcome in outcomes:
        for failure in outcome.failures:
            versions_of.setdefault(str(failure), []).append(outcome.version)
    for text, failed_in in versions_of.items():
        print(f"    {ranges(sorted(set(failed_in)))}: {text}")
    for reason in sorted({reason for outcome in outcomes for reason in outcome.left_out}):
        count = sum(outcome.left_out.get(reason, 0) for outcome in outcomes)
        print(f"    {count} left out: {reason}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
