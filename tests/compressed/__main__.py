"""Prints docs/codecs.md.

PYTHONPATH=src:tests python -m compressed > docs/codecs.md
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from compressed.brokers import VERSIONS, compare
from compressed.compare import outdated, unexplained
from compressed.page import page


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        kafka, found = compare(Path(folder))
    print(page(kafka, found, VERSIONS), end="")
    wrong = [*map(str, unexplained(found)), *outdated(found)]
    print(*wrong, sep="\n", file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
