"""Which kafka-python the console tools run on: version 3, also where another one is installed."""

from __future__ import annotations

import sys

from kavka.wire.codec.private_copy import VENDORED_DIRECTORY, find_codec


def choose() -> None:
    """To be called before `kafka` is imported: if Kavka has a copy of its own (docs/testing.md,
    "Beside kafka-python 2"), that is the one that will be."""
    if find_codec().root.startswith(VENDORED_DIRECTORY):
        sys.path.insert(0, VENDORED_DIRECTORY)
