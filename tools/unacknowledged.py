"""What Ctrl-C says where a producer must still wait for acknowledgements."""

from __future__ import annotations

import sys
from typing import Final

WAITING: Final = (
    "Waiting until all records that were taken are acknowledged or have failed; "
    "Ctrl-C once more gives up the rest."
)


def say_waiting() -> None:
    """Why the tool does not end yet: an unreachable broker may make it wait for two minutes."""
    print(WAITING, file=sys.stderr, flush=True)
