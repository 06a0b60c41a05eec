"""Fixes limits of glibc's allocator, so that freed memory returns to the system.

By default glibc raises two limits with the sizes that a program allocates: blocks of up to 32 MiB
are then allocated in its heaps, and each heap keeps up to 64 MiB of free memory; job threads have
heaps of their own. A broker's large blocks (requests, responses, decompressed batches) come and go
in all sizes, with small live objects among them, so over time it holds several times what it uses:
75 of 157 MiB after a million damaged frames (`make fuzz`), and growing.

Source: mallopt(3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Parameters of mallopt, from malloc.h."""

MMAP_THRESHOLD_BYTES: Final = 1024 * 1024
"""Larger blocks are mapped individually, and return to the system when they are freed."""
TRIM_THRESHOLD_BYTES: Final = 4 * 1024 * 1024
"""Free memory that a heap keeps at its end."""


def return_freed_memory(environ: Mapping[str, str]) -> bool:
    """Fix both limits for this process; False if they were not changed.

    They are left alone if `environ` configures the allocator (MALLOC_ARENA_MAX, GLIBC_TUNABLES,
    LD_PRELOAD of another one), and with a C library other than glibc.
    """
    if any(name.startswith("MALLOC_") for name in environ):
        return False
    if "GLIBC_TUNABLES" in environ or "LD_PRELOAD" in environ:
        return False
    import ctypes  # lazy import: 3 ms, which a start need not wait for

    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # Setting only one would fix the other at 128 KiB, which is slow.
    return all(
        library.mallopt(name, limit) == 1
        for name, limit in (
            (_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
            (_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
        )
    )
