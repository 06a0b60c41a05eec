"""Prints docs/clients.md, or what differs for one client.

PYTHONPATH=src:tests python -m admin > docs/clients.md
PYTHONPATH=src:tests python -m admin --client kafka-python
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from admin.run import CLIENTS, brokers, matrix


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m admin", description=__doc__)
    parser.add_argument("--client", choices=[client.name for client in CLIENTS])
    options = parser.parse_args(arguments)
    chosen = [client for client in CLIENTS if options.client in (None, client.name)]
    with tempfile.TemporaryDirectory() as folder, brokers(Path(folder)) as pair:
        cells = matrix(pair, Path(folder), chosen)
    for cell in cells:
        print(cell.client, "|", cell.operation, "|", cell.kavka.word, "|", cell.kafka.word)
        if cell.differs:
            print("   ", str(cell.kavka.told)[:1200])
            print("   ", str(cell.kafka.told)[:1200])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
