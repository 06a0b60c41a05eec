"""Files are damaged behind what was synced, or where a broker can make them anew."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster_faults.damage import OF_SEGMENTS, RECOVERY_POINTS, damage

CONTENT = bytes(range(1, 201))
SYNCED = 120
SEEDS = range(60)


def directory(home: Path) -> Path:
    """One of a broker with a partition, made anew."""
    data = home / f"data-{len(list(home.iterdir()))}"
    partition = data / "t-0"
    partition.mkdir(parents=True)
    (partition / "00000000000000000000.log").write_bytes(CONTENT)
    (partition / "00000000000000000007.log").write_bytes(CONTENT)
    (partition / "00000000000000000007.index").write_bytes(b"index")
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (data / RECOVERY_POINTS).write_text("0\n1\nt 0 9\n")
    (data / "replication-offset-checkpoint").write_text("0\n1\nt 0 12\n")
    return data


def contents(data: Path) -> dict[str, bytes]:
    files = (path for path in data.rglob("*") if path.is_file())
    return {str(file.relative_to(data)): file.read_bytes() for file in files}


@pytest.mark.parametrize("kind", OF_SEGMENTS.values(), ids=list(OF_SEGMENTS))
def test_what_was_synced_stays(
    tmp_path: Path, kind: Callable[[Path, int, random.Random], None]
) -> None:
    changed = set()
    for seed in SEEDS:
        path = tmp_path / "segment"
        path.write_bytes(CONTENT)
        kind(path, SYNCED, random.Random(seed))
        found = path.read_bytes()
        assert found[:SYNCED] == CONTENT[:SYNCED]
        assert len(found) <= len(CONTENT)
        changed.add(found)
    assert len(changed) > 10


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    kinds: set[str] = set()
    for seed in SEEDS:
        data = directory(tmp_path)
        before = contents(data)
        last = data / "t-0" / "00000000000000000007.log"
        done = damage(data, {last.stat().st_ino: SYNCED}, random.Random(seed))
        after = contents(data)
        kinds |= {line.split()[0] for line in done}
        assert after["t-0/00000000000000000000.log"] == CONTENT
        assert after["t-0/00000000000000000007.log"][:SYNCED] == CONTENT[:SYNCED]
        if RECOVERY_POINTS in after:
            *head, offset = after[RECOVERY_POINTS].split()
            assert head == before[RECOVERY_POINTS].split()[:-1]
            assert 0 <= int(offset) <= 9
    assert kinds == {*OF_SEGMENTS, "delete", "stale"}


def test_a_segment_that_is_synced_is_left_alone(tmp_path: Path) -> None:
    for seed in SEEDS:
        data = directory(tmp_path)
        damage(data, {}, random.Random(seed))
        assert (data / "t-0" / "00000000000000000007.log").read_bytes() == CONTENT


def test_a_seed_does_the_same_again(tmp_path: Path) -> None:
    for seed in SEEDS:
        first, second = directory(tmp_path), directory(tmp_path)
        done = [damage(data, {}, random.Random(seed)) for data in (first, second)]
        assert done[0] == done[1]
        assert contents(first) == contents(second)
