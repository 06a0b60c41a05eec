"""Prints docs/clients.md, or what differs for one client.

make clients-page
PYTHONPATH=src:tests python -m admin --client kafka-python
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from admin.page import page
from admin.reasons import reason_of
from admin.run import CLIENTS, Cell, brokers, matrix


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m admin", description=__doc__)
    parser.add_argument("--client", choices=[client.name for client in CLIENTS])
    options = parser.parse_args(arguments)
    chosen = [client for client in CLIENTS if options.client in (None, client.name)]
    with tempfile.TemporaryDirectory() as folder, brokers(Path(folder)) as pair:
        cells = matrix(pair, Path(folder), chosen)
    print(page(cells) if options.client is None else differing(cells), end="")
    return 0


def differing(cells: Sequence[Cell]) -> str:
    """Every outcome's word, and what differs."""
    lines = []
    for cell in cells:
        lines.append(f"{cell.operation}: {cell.kavka.word}")
        for difference in cell.differences():
            reason = reason_of(cell, difference)
            lines.append(f"    {difference.path} ({reason.why if reason else 'WHY?'})")
            lines.append(f"        Kavka        {difference.answered!r}")
            lines.append(f"        Apache Kafka {difference.expected!r}")
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
