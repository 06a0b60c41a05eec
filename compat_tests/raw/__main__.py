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
    counts = {one: sum(it.verdict == one for it in found) for one in Verdict}
    print("versions: " + ", ".join(f"{count} {one}" for one, count in counts.items()))
    return 1 if counts[Verdict.FAILED] else 0


def show(outcomes: Sequence[ApiOutcome]) -> None:
    """One API, a line for each verdict, and each failure once for all its versions."""
    for verdict in Verdict:
        mine = [one for one in outcomes if one.verdict == verdict]
        if mine:
            versions = ranges([one.version for one in mine])
            played, failed = sum(one.played for one in mine), sum(one.failed for one in mine)
            print(f"{mine[0].api} {versions}: {verdict}, {played} played, {failed} failed")
    versions_of: dict[str, list[int]] = {}
    for one in outcomes:
        for failure in one.failures:
            versions_of.setdefault(str(failure), []).append(one.version)
    for text, failed_in in versions_of.items():
        print(f"    {ranges(sorted(set(failed_in)))}: {text}")
    for reason in sorted({reason for one in outcomes for reason in one.left_out}):
        count = sum(one.left_out.get(reason, 0) for one in outcomes)
        print(f"    {count} left out: {reason}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
