"""Keeps the cores awake while something is measured.

A core with nothing to do is put to sleep, and on a virtual machine it goes back to the host; to
wake it costs tens of microseconds of CPU time that are charged to whoever sends to a sleeping
process, and clocks slow down meanwhile. How often that happens depends on what else runs, so the
same request costs a broker 20 us on a busy machine and 60 us on a quiet one. Here a process of
the idle scheduling class on each core, which any other displaces at once, keeps that out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Ends by itself when the bench is gone.
_SPIN = """
import os, sys
parent, core = int(sys.argv[1]), int(sys.argv[2])
os.sched_setaffinity(0, [core])
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
print(flush=True)
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@contextmanager
def cores_awake() -> Iterator[list[int]]:
    """For the length of the block; gives the ids of the processes that do it."""
    command = [sys.executable, "-S", "-E", "-c", _SPIN, str(os.getpid())]
    spinners: list[subprocess.Popen[bytes]] = []
    try:
        for core in sorted(os.sched_getaffinity(0)):
            spinners.append(subprocess.Popen([*command, str(core)], stdout=subprocess.PIPE))
        for spinner in spinners:
            assert spinner.stdout is not None
            spinner.stdout.readline()  # it is in its class now
        yield [spinner.pid for spinner in spinners]
    finally:
        for spinner in spinners:
            spinner.kill()
        for spinner in spinners:
            spinner.wait()
            assert spinner.stdout is not None
            spinner.stdout.close()
