"""What can be wrong with a log directory of Kavka's with topics `t` and `compacted`, made on
purpose, and what `kavka doctor` must find then."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from kavka.log import dir_names

RECORD_BYTES: Final = 20_000
UNCLEAN: Final = "directory/unclean-shutdown"


def t0(data: Path) -> Path:
    return data / "t-0"


def newest(data: Path, suffix: str) -> Path:
    return max(t0(data).glob(f"*{suffix}"))


def oldest(data: Path, suffix: str) -> Path:
    return min(t0(data).glob(f"*{suffix}"))


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:-size])


def add(path: Path, more: bytes) -> None:
    path.write_bytes(path.read_bytes() + more)


def tear(data: Path) -> None:
    """As if the broker had been killed while it wrote a batch."""
    log = newest(data, ".log")
    size = struct.unpack_from(">i", log.read_bytes(), 8)[0] + 12
    add(log, log.read_bytes()[: size // 2])


def set_offset(data: Path, name: str, offset: int) -> None:
    """That of t-0 in a checkpoint."""
    lines = (data / name).read_text().splitlines()
    kept = [line for line in lines[2:] if not line.startswith("t 0 ")]
    kept.append(f"t 0 {offset}")
    (data / name).write_text("\n".join([lines[0], str(len(kept)), *kept, ""]))


def lose_middle(data: Path) -> None:
    base = sorted(t0(data).glob("*.log"))[1].stem
    for path in t0(data).glob(f"{base}.*"):
        path.unlink()


def hide_transactions(data: Path) -> None:
    """Damage a header, and remove what would tell without it which transactions are open."""
    flip(oldest(data, ".log"), 16)
    for path in t0(data).glob("*.snapshot"):
        if path != newest(data, ".snapshot"):
            path.unlink()
    flip(newest(data, ".snapshot"), 20)


def lose_last(data: Path) -> None:
    base = newest(data, ".log").stem
    for path in t0(data).glob(f"{base}.*"):
        path.unlink()


def other_topic(data: Path) -> None:
    (t0(data) / dir_names.PARTITION_FILE).write_bytes(dir_names.encode_partition(UUID(int=7)))


def leftover(data: Path) -> None:
    """Of a topic that was deleted, and of a move, and what nobody knows."""
    for name in (f"old-0.{'a' * 32}-delete", f"compacted-0.{'b' * 32}-future", "t-9.c-stray"):
        shutil.copytree(data / "compacted-0", data / name)
    (data / "notes.txt").write_text("?")
    (t0(data) / "notes.txt").write_text("?")
    (t0(data) / "00000000000000000000.log.deleted").write_text("?")
    (data / "recovery-point-offset-checkpoint.tmp").write_text("?")


def wrong_times(data: Path) -> None:
    flip(oldest(data, ".timeindex"), 7)


def wrong_epochs(data: Path) -> None:
    (t0(data) / "leader-epoch-checkpoint").write_text("0\n0\n")


class Fault(NamedTuple):
    """What is done to a directory, and what must be found; steps and problems."""

    name: str
    harm: Callable[[Path], object]
    problems: set[str]
    notes: frozenset[str] = frozenset()
    is_killed: bool = False
    """Whether it is the directory of a broker that was killed."""
    was_here: bool = False
    """Whether the broker was run in this place before."""
    words: tuple[str, ...] = ()
    """--override's of the broker."""


POINTS: Final = dir_names.RECOVERY_POINTS_FILE
FAULTS: Final = (
    Fault("nothing", lambda _: None, set()),
    Fault(
        "unclean shutdown",
        lambda _: None,
        {UNCLEAN},
        frozenset({"start/recovers"}),
        is_killed=True,
    ),
    Fault(
        "torn batch",
        tear,
        {UNCLEAN, "logs/torn-batch", "start/cuts-torn-batch"},
        is_killed=True,
    ),
    Fault(
        "cut segment",
        lambda data: cut(newest(data, ".log"), 100),
        {
            "logs/torn-batch",
            "checkpoints/recovery-point",
            "checkpoints/high-watermark",
            "start/loses-records",
            "start/start-says",
        },
    ),
    Fault(
        "flipped byte in what was not flushed",
        lambda data: flip(newest(data, ".log"), 2 * RECORD_BYTES),
        {UNCLEAN, "logs/damaged-batch", "start/loses-records"},
        is_killed=True,
    ),
    Fault(
        "flipped byte in what was flushed",
        lambda data: flip(oldest(data, ".log"), 2 * RECORD_BYTES),
        {"logs/damaged-batch"},
    ),
    Fault(
        "damage that hides transactions",
        hide_transactions,
        {"logs/damaged-batch", "logs/damaged-snapshot", "start/start-says", "start/start-fails"},
    ),
    Fault(
        "missing last segment",
        lose_last,
        {"checkpoints/recovery-point", "checkpoints/high-watermark", "start/start-says"},
    ),
    Fault("missing segment", lose_middle, {"logs/missing-segment"}),
    Fault(
        "missing index",
        lambda data: oldest(data, ".index").unlink(),
        {"logs/missing-index", "start/start-says"},
    ),
    Fault("wrong index", lambda data: flip(oldest(data, ".index"), 7), {"logs/wrong-index"}),
    Fault("wrong time index", wrong_times, {"logs/wrong-index"}),
    Fault(
        "index of no segment",
        lambda data: (t0(data) / "00000000000000000007.index").write_bytes(b""),
        {"logs/stray-index", "start/start-says"},
    ),
    Fault(
        "missing transaction index",
        lambda data: oldest(data, ".txnindex").unlink(),
        {"logs/missing-aborted"},
    ),
    Fault(
        "wrong transaction index",
        lambda data: add(oldest(data, ".txnindex"), b"x"),
        {"logs/wrong-index", "start/start-says"},
    ),
    Fault(
        "damaged snapshot",
        lambda data: flip(newest(data, ".snapshot"), 20),
        {"logs/damaged-snapshot", "start/start-says"},
    ),
    Fault("wrong leader epochs", wrong_epochs, {"logs/wrong-epochs"}),
    Fault(
        "damaged leader epochs",
        lambda data: (t0(data) / "leader-epoch-checkpoint").write_text("0\n1\nx 0\n"),
        {"logs/damaged-epochs", "start/start-says"},
    ),
    Fault(
        "missing topic id",
        lambda data: (t0(data) / dir_names.PARTITION_FILE).unlink(),
        {"logs/missing-topic-id"},
    ),
    Fault(
        "another topic's log",
        other_topic,
        {"metadata/wrong-topic-id", "start/start-says"},
    ),
    Fault(
        "recovery point too low",
        lambda data: set_offset(data, POINTS, 3),
        {"checkpoints/recovery-point", "start/start-says"},
    ),
    Fault(
        "recovery point too high",
        lambda data: set_offset(data, POINTS, 10**6),
        {"checkpoints/recovery-point", "start/start-says"},
    ),
    Fault(
        "high watermark too high",
        lambda data: set_offset(data, dir_names.HIGH_WATERMARKS_FILE, 10**6),
        {"checkpoints/high-watermark"},
    ),
    Fault(
        "start offset too high",
        lambda data: set_offset(data, dir_names.START_OFFSETS_FILE, 10**6),
        {"checkpoints/start-offset", "start/start-says"},
    ),
    Fault(
        "damaged checkpoint",
        lambda data: (data / POINTS).write_text("0\n5\nt 0 x\n"),
        {"directory/damaged-checkpoint", "start/start-says"},
    ),
    Fault(
        "missing partition",
        lambda data: shutil.rmtree(t0(data)),
        {"metadata/missing-log", "checkpoints/no-log", "start/start-says"},
    ),
    Fault(
        "missing meta.properties",
        lambda data: (data / dir_names.META_FILE).unlink(),
        {"directory/missing-meta", "start/start-fails"},
        was_here=True,
    ),
    Fault(
        "damaged meta.properties",
        lambda data: (data / dir_names.META_FILE).write_text("version=0\n"),
        {"directory/damaged-meta", "start/start-fails"},
    ),
    Fault("another broker's", lambda _: None, {"start/start-fails"}, words=("broker.id=2",)),
    Fault(
        "foreign directory",
        lambda data: (data / "lost+found").mkdir(),
        {"directory/foreign-directory", "start/start-fails"},
    ),
    Fault(
        "leftovers",
        leftover,
        {"start/start-says"},  # the log that was being moved is in the same directory
        frozenset(
            {
                "directory/deleted-log",
                "directory/future-log",
                "directory/stray-log",
                "directory/unknown-file",
                "directory/interrupted",
                "logs/unknown-file",
                "logs/interrupted",
            }
        ),
    ),
    Fault(
        "damaged metadata",
        lambda data: flip(data / "coordination.log", 60),
        {"metadata/damaged-metadata", "start/start-fails"},
    ),
    Fault(
        "torn metadata",
        lambda data: cut(data / "coordination.log", 5),
        {"metadata/torn-metadata", "start/start-says"},
    ),
    Fault(
        "missing metadata",
        lambda data: (data / "coordination.log").unlink(),
        {"start/start-fails"},
    ),
)
