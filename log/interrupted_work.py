"""Completes or discards the files of an interrupted compaction, deletion or write.

A compaction writes `.cleaned` files, renames them to `.swap` when they are complete, deletes the
segments that they replace, and removes the suffix. So `.cleaned` files are discarded, and complete
`.swap` files replace the segments they cover. `.deleted` and `.tmp` files are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kavka.log.fs import FileSystem
from kavka.log.scan import headers
from kavka.log.segment import LOG

logger = logging.getLogger(__name__)

CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
DISCARDED_SUFFIXES: Final = (".deleted", CLEANED, ".tmp")


def clean_up_interrupted(fs: FileSystem, directory: str) -> list[str]:
    """Leave only complete files in a partition's directory; their names, sorted."""
    names = fs.list_dir(directory)
    if any(name.endswith((SWAP, *DISCARDED_SUFFIXES)) for name in names):
        removed = _remove_discarded(fs, directory, names)
        replaced, finished = _finish_swaps(fs, directory)
        logger.info(
            "%s: after an interruption removed %d files, and completed the swap of %d segments "
            "for %d",
            directory,
            removed,
            finished,
            replaced,
        )
        names = fs.list_dir(directory)
    return names


def _remove_discarded(fs: FileSystem, directory: str, names: Sequence[str]) -> int:
    """Remove the files to be discarded; how many."""
    cleaned = [base_of(name) for name in names if name.endswith(CLEANED)]
    removed = 0
    # .swap first: if interrupted, a .swap without its .cleaned would be taken for complete
    for name in sorted(names, key=lambda name: not name.endswith(SWAP)):
        # swap files from the first .cleaned on belong to a segment split that was not completed
        half_split = name.endswith(SWAP) and cleaned and base_of(name) >= min(cleaned)
        if half_split or name.endswith(DISCARDED_SUFFIXES):
            fs.remove(f"{directory}/{name}")
            removed += 1
    return removed


def _finish_swaps(fs: FileSystem, directory: str) -> tuple[int, int]:
    """Replace the covered segments by the swap files; how many files of either."""
    names = fs.list_dir(directory)
    swaps = [name for name in names if name.endswith(SWAP)]
    logs = [name for name in swaps if name.endswith(LOG + SWAP)]
    replaced = 0
    if logs:
        covered = range(
            min(base_of(name) for name in logs),
            max(_next_offset(fs, f"{directory}/{name}", base_of(name)) for name in logs),
        )
        for name in names:
            if not name.endswith(SWAP) and name[:1].isdigit() and base_of(name) in covered:
                fs.remove(f"{directory}/{name}")
                replaced += 1
    for name in swaps:
        fs.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
    return replaced, len(swaps)


def _next_offset(fs: FileSystem, path: str, base: int) -> int:
    end = base
    for _, header in headers(fs.open(path), path, 0, fs.size(path)):
        end = header.last_offset + 1
    return end


def base_of(name: str) -> int:
    """The offset in the name of a segment's or snapshot's file, which has 20 digits; -1 when there
    is none."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else -1
