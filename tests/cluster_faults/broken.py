"""A broker process whose disk and clock fail while it runs.

`python -m cluster_faults.broken CONTROL SYNCED start …` is `python -m kavka start …` that does what
the file CONTROL says (see `control`), and notes in the file SYNCED what of its files is synced (see
`power`).
"""

from __future__ import annotations

import sys

from cluster_faults.broken_fs import BrokenClock, BrokenFs
from cluster_faults.control import Control
from cluster_faults.power import Synced
from kavka import cli
from kavka.server import host


def main(control: str, notes: str, arguments: list[str]) -> int:
    """Run a command of Kavka's."""
    shared, synced = Control(control), Synced(notes)
    vars(host)["OsFs"] = lambda: BrokenFs(shared, synced)
    vars(host)["SystemClock"] = lambda: BrokenClock(shared)
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
