"""Memory that was freed goes back to the system; the judge is the kernel, by /proc."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from kavka.server.runtime import allocator

MIB = 1024 * 1024
FREED = """
import os, sys
from kavka.server.runtime.allocator import return_freed_memory
if sys.argv[1] == "limited" and not return_freed_memory({}):
    sys.exit("the limits could not be set")
def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
block = b"x" * (30 << 20)
del block  # now glibc takes it that blocks are that large, and keeps room for the next ones
before = resident_bytes()
blocks = [b"x" * (3 << 20) for _ in range(8)]
del blocks
print(resident_bytes() - before)
"""

of_glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the C library is not glibc"
)


def kept_bytes(how: str) -> int:
    """What a process still has of 24 MiB that it has freed."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MALLOC_") and name not in ("GLIBC_TUNABLES", "LD_PRELOAD")
    }
    done = subprocess.run(
        [sys.executable, "-c", FREED, how],
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@of_glibc
def test_freed_memory_goes_back() -> None:
    assert kept_bytes("as it is") > 16 * MIB, "there is nothing to mend"
    assert kept_bytes("limited") < 4 * MIB


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_the_users_own_settings_stand(name: str) -> None:
    assert not allocator.return_freed_memory({name: "2"})
