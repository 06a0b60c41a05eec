"""Kavka as a process whose children the kernel does not kill with it, as where there is no
PR_SET_PDEATHSIG: `python -m support.lingering start …` is `python -m kavka start …` otherwise."""

from __future__ import annotations

import sys
from typing import ClassVar

from kavka.server.runtime import processes
from support import checked
from support.broker import Kavka

_COMMAND = """
import sys
from kavka.server.runtime import process_worker as worker
worker._die_with = lambda starter: None
worker.main(int(sys.argv[1]))
"""


class LingeringKavka(Kavka):
    """A broker process whose children outlive it as long as they are stopped."""

    kind: ClassVar[str] = "lingering kavka"
    module: ClassVar[str] = "support.lingering"


if __name__ == "__main__":
    vars(processes)["_COMMAND"] = _COMMAND
    sys.exit(checked.main(sys.argv[1:]))
