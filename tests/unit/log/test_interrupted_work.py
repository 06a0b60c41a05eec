"""What interrupted work leaves in a partition's directory."""

from __future__ import annotations

import logging

import pytest

from kavka.log.interrupted_work import base_of, clean_up_interrupted
from kavka.log.memfs import Fault, MemFs
from kavka.wire.record_batches import set_offset_and_epoch
from support import logs


def name(offset: int, suffix: str) -> str:
    return f"{offset:020d}{suffix}"


@pytest.fixture
def fs() -> MemFs:
    found = MemFs()
    found.make_dir("/d")
    return found


def put(fs: MemFs, file: str, *offsets: int) -> None:
    """A file with batches at these offsets."""
    data = b""
    for offset in offsets:
        batch = logs.batch([b"v"])
        set_offset_and_epoch(batch, offset, 0)
        data += bytes(batch)
    fs.create(f"/d/{file}").pwrite(data, 0)


def test_a_tidy_directory_stays_as_it_is(fs: MemFs) -> None:
    names = [name(0, ".index"), name(0, ".log"), "leader-epoch-checkpoint", "partition.metadata"]
    for file in names:
        put(fs, file)
    assert clean_up_interrupted(fs, "/d") == names


def test_discarded_files_are_removed(fs: MemFs) -> None:
    put(fs, name(0, ".log"), 0)
    for suffix in (".log.deleted", ".index.deleted", ".snapshot.deleted", ".log.cleaned", ".tmp"):
        put(fs, name(0, suffix))
    put(fs, "leader-epoch-checkpoint.tmp")
    assert clean_up_interrupted(fs, "/d") == [name(0, ".log")]


def test_a_whole_swap_replaces_what_it_covers(fs: MemFs) -> None:
    for base in (0, 10, 20, 30):
        for suffix in (".log", ".index", ".timeindex"):
            put(fs, name(base, suffix), base)
        put(fs, name(base, ".snapshot"))
    put(fs, name(0, ".log.swap"), 3, 12, 29)
    put(fs, name(0, ".index.swap"))
    put(fs, name(0, ".timeindex.swap"))
    put(fs, "leader-epoch-checkpoint")
    assert clean_up_interrupted(fs, "/d") == sorted(
        [
            *(
                name(base, suffix)
                for base in (0, 30)
                for suffix in (".log", ".index", ".timeindex")
            ),
            name(30, ".snapshot"),
            "leader-epoch-checkpoint",
        ]
    )
    assert fs.size(f"/d/{name(0, '.log')}") == 3 * len(logs.batch([b"v"]))


def test_a_swap_whose_log_has_been_renamed_already(fs: MemFs) -> None:
    put(fs, name(0, ".log"), 3, 12)
    put(fs, name(0, ".index.swap"))
    assert clean_up_interrupted(fs, "/d") == [name(0, ".index"), name(0, ".log")]


def test_an_incomplete_split_is_rolled_back(fs: MemFs) -> None:
    """KAFKA-6264: swap files from the first .cleaned on do not hold all that they should."""
    put(fs, name(0, ".log"), 0, 10, 20)
    put(fs, name(0, ".log.cleaned"), 0)
    put(fs, name(10, ".log.swap"), 10, 20)
    assert clean_up_interrupted(fs, "/d") == [name(0, ".log")]


@pytest.mark.parametrize("step", range(4))
def test_the_rollback_of_a_split_may_be_interrupted(fs: MemFs, step: int) -> None:
    put(fs, name(0, ".log"), 0, 10, 20)
    put(fs, name(0, ".log.cleaned"), 0)
    put(fs, name(0, ".index.cleaned"))
    put(fs, name(10, ".log.swap"), 10, 20)
    put(fs, name(10, ".index.swap"))
    fs.faults.append(Fault("remove", skip=step))
    with pytest.raises(OSError):
        clean_up_interrupted(fs, "/d")
    fs.faults.clear()
    assert clean_up_interrupted(fs, "/d") == [name(0, ".log")]


def test_one_line_is_logged_for_a_log(fs: MemFs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for base in (0, 10):
        put(fs, name(base, ".log"), base)
        put(fs, name(base, ".log.deleted"))
    put(fs, name(0, ".log.swap"), 0, 10)
    clean_up_interrupted(fs, "/d")
    (line,) = caplog.messages
    assert line.startswith("/d: ")
    assert line.endswith("removed 2 files, and completed the swap of 1 segments for 2")


@pytest.mark.parametrize(
    ("file", "base"),
    [
        (name(17, ".log"), 17),
        (name(17, ".index.swap"), 17),
        ("leader-epoch-checkpoint", -1),
        (".log", -1),
        ("-5.log", -1),
        ("\u0663.log", -1),
    ],
)
def test_offsets_in_names(file: str, base: int) -> None:
    assert base_of(file) == base
