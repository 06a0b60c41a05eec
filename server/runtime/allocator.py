"""How the C library's allocator deals with memory that Python has freed.

glibc raises two of its limits with the sizes that a program asks for: soon blocks of up to 32 MiB
lie in its heaps, and of a heap up to 64 MiB of free memory stay with the process; there are heaps
for each thread of a job. A broker's large blocks (requests, answers, what was inflated) come and
go in all sizes, and what lives among them is small, so with time it holds several times what it
uses: 75 of 157 MiB after a million damaged frames (`make fuzz`), and growing.

Source: mallopt(3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Names of mallopt's parameters, from malloc.h."""

MMAP_THRESHOLD_BYTES: Final = 1024 * 1024
"""Larger blocks are mapped one by one, and go back to the system when they are freed."""
TRIM_THRESHOLD_BYTES: Final = 4 * 1024 * 1024
"""So much free memory stays at the end of a heap."""


def return_freed_memory(environ: Mapping[str, str]) -> bool:
    """Fix these limits, so that this process gives back what it does not use; whether they were.

    Not where `environ` sets the allocator (MALLOC_ARENA_MAX, GLIBC_TUNABLES, LD_PRELOAD of another
    one), and not with another C library than glibc.
    """
    if any(name.startswith("MALLOC_") for name in environ):
        return False
    if "GLIBC_TUNABLES" in environ or "LD_PRELOAD" in environ:
        return False
    import ctypes  # 3 ms, which a start need not wait for

    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # One of them alone would set the other to a constant: 128 KiB, which costs much.
    return all(
        library.mallopt(name, limit) == 1
        for name, limit in (
            (_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
            (_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        )
    )
