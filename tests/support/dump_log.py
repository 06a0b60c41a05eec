"""Apache Kafka's own DumpLogSegments as judge of the files on disk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from support import java

SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")

FILES_AT_ONCE_MAX = 500
"""What fits on a command line."""

KRAFT_LOG = "__cluster_metadata-0"
"""The oracle's own; it grows while the broker does nothing."""

# All that it prints about sound files. Any other line is a complaint.
SOUND = re.compile(
    r"""
    Dumping\ \S+
    | Log\ starting\ offset:\ \d+
    | baseOffset:\ .*\ isvalid:\ true
    | \|\ offset:\ \d+\ .*
    | \S+\ passed\ sanity\ check\.
    | \S+\ is\ empty\.
    | offset:\ \d+\ position:\ \d+
    | timestamp:\ -?\d+\ offset:\ \d+
    | producerId:\ \d+\ .*
    | version:\ 0\ producerId:\ \d+\ firstOffset:\ .*
    """,
    re.VERBOSE,
)


# 4.3.1 counts the first record of each segment as following one at -1, and so finds a gap in every
# segment but the first. Only that is let through: a real gap adds a line of its own.
FIRST_OFFSET = re.compile(
    r"^Non-consecutive offsets in \S*/0*(\d+)\.log\n  -1 is followed by \1\n(?!  )", re.MULTILINE
)


class Dumped(NamedTuple):
    """What DumpLogSegments made of some files."""

    complaints: list[str]
    records: int
    index_entries: int
    producers: int
    aborted: int
    """Entries of transaction indexes."""


def files(data_dir: Path) -> list[Path]:
    """Every file of a partition under `data_dir` that DumpLogSegments can read."""
    found = sorted(path for path in data_dir.glob("*-*/*") if path.suffix in SUFFIXES)
    return [path for path in found if path.parent.name != KRAFT_LOG]


def dump(paths: Sequence[Path], *options: str, compacted: Sequence[str] = ()) -> Dumped:
    """Let it read `paths`; see `--help` of the tool for options. Topics that are `compacted` have
    gaps between offsets."""
    parts = [
        _dump(paths[start : start + FILES_AT_ONCE_MAX], options, compacted)
        for start in range(0, max(1, len(paths)), FILES_AT_ONCE_MAX)
    ]
    counts = zip(*(part[1:] for part in parts), strict=True)
    return Dumped([line for part in parts for line in part.complaints], *map(sum, counts))


def _dump(paths: Sequence[Path], options: Sequence[str], compacted: Sequence[str]) -> Dumped:
    done = java.run(java.DUMP_LOG, *options, "--files", ",".join(map(str, paths)))
    lines = done.text.splitlines()
    complaints = [line for line in lines if line and not SOUND.fullmatch(line)]
    stderr = FIRST_OFFSET.sub("", done.stderr)
    for topic in compacted:
        stderr = gaps_in(topic).sub("", stderr)
    complaints += stderr.splitlines()
    if done.exit_code:
        complaints.append(f"exit code {done.exit_code}")
    return Dumped(
        complaints,
        records=sum(line.startswith("| offset:") for line in lines),
        index_entries=sum(line.startswith(("offset: ", "timestamp: ")) for line in lines),
        producers=sum(line.startswith("producerId: ") for line in lines),
        aborted=sum(line.startswith("version: 0 producerId: ") for line in lines),
    )


def gaps_in(topic: str) -> re.Pattern[str]:
    """What it says of a topic that may miss offsets."""
    return re.compile(
        rf"^Non-consecutive offsets in \S*/{re.escape(topic)}-\d+/\d+\.log\n(?:  .*\n)*",
        re.MULTILINE,
    )


def assert_sound(*data_dirs: Path, compacted: Sequence[str] = ()) -> Dumped:
    """Every file in log directories is read without complaint; returns what was in them.

    Gaps between offsets are none in the topics that are `compacted`.

    Two runs: with `--index-sanity-check` the tool looks only at an index's form, without it it
    compares each entry with the log.
    """
    paths = [path for data_dir in data_dirs for path in files(data_dir)]
    assert paths, f"no files in {data_dirs}"
    deep = dump(paths, "--deep-iteration", "--index-sanity-check", compacted=compacted)
    assert not deep.complaints, deep.complaints[:20]
    indexes = dump([path for path in paths if path.suffix in (".index", ".timeindex")])
    assert not indexes.complaints, indexes.complaints[:20]
    return deep._replace(index_entries=indexes.index_entries)
