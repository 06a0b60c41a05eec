"""What a word may become, from what --help says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kavka.tools.completion.candidates import candidates

HELPS = {
    (): """
usage: kavka [-h] COMMAND ...

options:
  -h, --help  show this help message and exit

commands:
  COMMAND
    topics    create topics
    features  print features
""",
    ("topics",): """Create topics.

usage: kavka topics --bootstrap-server HOST:PORT [options]

  --create
      Create a topic, as --alter changes one.
  --replica-assignment 1:2,..
      Brokers.
  --admin.config FILE
""",
    ("features",): """Features.

  --bootstrap-server HOST:PORT
  -h, --help

commands:
  describe
      Print the features.
  describe-all
      Print others.
""",
    ("features", "describe"): """
  -n, --node-id ID
      The one to ask.
  -f FILE, --file FILE
""",
}


def help_of(words: Sequence[str]) -> str:
    return HELPS.get(tuple(words), "")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kavka ", ["features", "topics"]),
        ("kavka to", ["topics"]),
        ("kavka nothing", []),
        ("kavka -", ["--help"]),
        ("kavka topics ", []),
        ("kavka topics --", ["--admin.config", "--create", "--replica-assignment"]),
        ("/usr/bin/kavka-topics --cr", ["--create"]),
        ("kavka topics --bootstrap-server topics --re", ["--replica-assignment"]),
        ("kavka features --bootstrap-server a:1 d", ["describe", "describe-all"]),
        ("kavka features --bootstrap-server a:1 describe --", ["--file", "--node-id"]),
        ("kavka-features describe --n", ["--node-id"]),
    ],
)
def test_candidates(line: str, found: list[str]) -> None:
    assert candidates(line.split(" "), help_of) == found
