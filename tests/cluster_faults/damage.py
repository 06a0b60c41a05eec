"""What may be wrong with the files of a broker that was killed, as its disk lets it down.

What was synced is as it was written. Files that a broker can make anew may be missing altogether,
and its recovery points may be older than what it wrote last.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CHECKPOINTS: Final = (
    RECOVERY_POINTS,
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
REMADE: Final = ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint")
FLIPPED_BYTES_MAX: Final = 400
FLIPPED_BITS: Final = 3
SHARE: Final = 0.7
"""Of the partitions that something happens to."""


def last_segment(directory: Path) -> Path | None:
    """Of a partition."""
    return max(directory.glob("*.log"), default=None)


def cut(segment: Path, synced: int, chance: random.Random) -> None:
    """It ends anywhere behind what was synced."""
    os.truncate(segment, chance.randint(synced, segment.stat().st_size))


def zero(segment: Path, synced: int, chance: random.Random) -> None:
    """Its tail is zeros."""
    size = segment.stat().st_size
    cut(segment, synced, chance)
    os.truncate(segment, size)


def flip(segment: Path, synced: int, chance: random.Random) -> None:
    """Some bits near its end are wrong."""
    content = bytearray(segment.read_bytes())
    begin = max(synced, len(content) - FLIPPED_BYTES_MAX)
    for _ in range(FLIPPED_BITS if begin < len(content) else 0):
        content[chance.randrange(begin, len(content))] ^= 1 << chance.randrange(8)
    with segment.open("r+b") as file:  # the same inode
        file.write(content)


OF_SEGMENTS: Final[Mapping[str, Callable[[Path, int, random.Random], None]]] = {
    "cut": cut,
    "zero": zero,
    "flip": flip,
}


def damage(data_dir: Path, synced: Mapping[int, int], chance: random.Random) -> list[str]:
    """Damage what a broker has stored; `synced` bytes of its files by inode, all of those that are
    not in it. What was done."""
    done = []
    for directory in sorted(data_dir.glob("*-*/")):
        segment = last_segment(directory)
        if segment is None or chance.random() > SHARE:
            continue
        found = segment.stat()
        safe = min(synced.get(found.st_ino, found.st_size), found.st_size)
        kind = chance.choice([*OF_SEGMENTS, "delete"])
        if kind != "delete" and safe < found.st_size:
            OF_SEGMENTS[kind](segment, safe, chance)
            done.append(f"{kind} {directory.name}")
        else:
            pattern = chance.choice(REMADE)
            done += [_delete(path, data_dir) for path in sorted(directory.glob(pattern))]
    name = chance.choice(CHECKPOINTS)
    if name == RECOVERY_POINTS and chance.random() < 0.5:
        _make_stale(data_dir / name, chance)
        done.append("stale recovery points")
    elif (data_dir / name).exists():
        done.append(_delete(data_dir / name, data_dir))
    return done


def _delete(path: Path, data_dir: Path) -> str:
    path.unlink()
    return f"delete {path.relative_to(data_dir)}"


def _make_stale(checkpoint: Path, chance: random.Random) -> None:
    """Each recovery point is one that it may have had earlier."""
    if not checkpoint.exists():
        return
    version, count, *lines = checkpoint.read_text().splitlines()
    earlier = []
    for line in lines:
        topic, partition, offset = line.split()
        earlier.append(f"{topic} {partition} {chance.randint(0, int(offset))}")
    checkpoint.write_text("\n".join([version, count, *earlier]) + "\n")
