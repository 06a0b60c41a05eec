"""Replicas that differ are found, by what differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cluster_faults.replicas import Replica, StoredBatch, diverging, stored
from support.logs import batch

PLACE = ("t", 0)
NONE: frozenset[str] = frozenset()
WELL = Replica(
    [StoredBatch(0, 2, 1, b"a"), StoredBatch(2, 3, 1, b"b"), StoredBatch(3, 5, 4, b"c")],
    high_watermark=5,
    epochs={1: 0, 4: 3},
)


def found(first: Replica, second: Replica, compacted: frozenset[str] = NONE) -> list[str]:
    """What differs between two brokers' replicas."""
    return diverging({"1": {PLACE: first}, "2": {PLACE: second}}, compacted)


def with_batch(at: int, changed: StoredBatch) -> Replica:
    """Another batch in one place."""
    return replace(WELL, batches=[*WELL.batches[:at], changed, *WELL.batches[at + 1 :]])


def test_the_same_is_well() -> None:
    assert found(WELL, WELL) == []


def test_a_replica_may_lack_what_is_not_committed() -> None:
    shorter = Replica(WELL.batches[:2], 3, {1: 0})
    assert found(replace(WELL, high_watermark=3), shorter) == []


def test_a_replica_that_lacks_what_is_committed() -> None:
    (complaint,) = found(WELL, Replica(WELL.batches[:2], 3, {1: 0}))
    assert complaint == "I8 replica divergence: ('t', 0) ends at 3 on 2, 5 is committed"


def test_other_bytes_at_the_same_offset() -> None:
    (complaint,) = found(WELL, with_batch(1, StoredBatch(2, 3, 1, b"x")))
    assert complaint == "I8 replica divergence: ('t', 0) 2 differs on 1 and 2"


def test_a_batch_that_only_one_has() -> None:
    (complaint,) = found(WELL, replace(WELL, batches=[WELL.batches[0], WELL.batches[2]]))
    assert complaint == "I8 replica divergence: only one of 1 and 2 has ('t', 0) 2"


def test_what_compaction_has_removed_may_be_missing() -> None:
    cleaned = replace(WELL, batches=[WELL.batches[0], WELL.batches[2]])
    assert found(WELL, cleaned, frozenset({"t"})) == []


def test_another_history_of_a_compacted_topic() -> None:
    (complaint,) = found(WELL, with_batch(2, StoredBatch(3, 5, 3, b"c")), frozenset({"t"}))
    assert complaint == "I8 replica divergence: ('t', 0) 3 differs on 1 and 2"


def test_a_checkpoint_of_epochs_that_is_wrong() -> None:
    (complaint,) = found(WELL, replace(WELL, epochs={1: 0, 4: 2}))
    assert complaint == (
        "I8 leader epochs: ('t', 0) on 2: epoch 4 begins at 3, its checkpoint says 2"
    )


def test_a_checkpoint_of_epochs_that_is_missing() -> None:
    assert len(found(WELL, replace(WELL, epochs=None))) == 2


def test_files_are_read(tmp_path: Path) -> None:
    directory = tmp_path / "a-b-3"
    directory.mkdir()
    data = bytes(batch([b"one", b"two"]))
    (directory / "00000000000000000000.log").write_bytes(data)
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n7 0\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\na-b 3 2\n")
    (tmp_path / "a-b-3.0123-delete").mkdir()
    (replica,) = stored(tmp_path).values()
    assert stored(tmp_path).keys() == {("a-b", 3)}
    assert replica.high_watermark == replica.end == 2
    assert replica.epochs == {7: 0}
    assert [stored_batch.data for stored_batch in replica.batches] == [data]
