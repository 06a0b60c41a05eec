"""A shadow of a file system behaves as the file system would, and leaves it as it is."""

from __future__ import annotations

import errno
import random

import pytest

from kavka.log.fs import FileSystem, Volume
from kavka.log.memfs import MemFs
from kavka.tools.doctor.at_rest.shadow import ShadowFs

NAMES = [f"/d/{log}/{name}" for log in ("a", "b") for name in ("1", "2", "3")]
STEPS = 400


def small() -> MemFs:
    fs = MemFs()
    for log in ("/d", "/d/a", "/d/b"):
        fs.make_dir(log)
    for number, path in enumerate(NAMES[::2]):
        fs.create(path).pwrite(bytes(range(number, number + 100)), 0)
    return fs


def content(fs: FileSystem, path: str = "/d") -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {path: None}
    for name in fs.list_dir(path):
        at = f"{path}/{name}"
        found |= content(fs, at) if fs.is_dir(at) else {at: fs.read_bytes(at)}
    return found


def change(fs: FileSystem, chance: random.Random) -> object:
    """Do anything: what came of it."""
    path, other = chance.choice(NAMES), chance.choice(NAMES)
    offset, data = chance.randrange(120), chance.randbytes(chance.randrange(1, 30))
    action = chance.randrange(8)
    try:
        match action:
            case 0 | 1:
                fs.open(path).pwrite(data, offset)
            case 2:
                fs.open(path).truncate(offset)
            case 3:
                fs.create(path).pwrite(data, 0)
            case 4:
                fs.remove(path)
            case 5:
                fs.rename(path, f"{path[:-1]}{other[-1]}")
            case 6:
                fs.write_atomic(path, data, sync=True)
            case 7:
                file = fs.open(path)
                buffer = bytearray(50)
                read = file.read_into(memoryview(buffer), offset)
                return file.pread(40, offset), bytes(buffer[:read]), file.size(), fs.size(path)
    except FileNotFoundError:
        return FileNotFoundError
    return fs.exists(path), fs.list_dir("/d/a")


@pytest.mark.parametrize("seed", range(20))
def test_it_does_what_the_file_system_does(seed: int) -> None:
    base, real = small(), small()
    before = content(base)
    shadow = ShadowFs(base, lambda: 0)
    chance, same_chance = random.Random(seed), random.Random(seed)
    for _ in range(STEPS):
        assert change(shadow, chance) == change(real, same_chance)
        assert content(shadow) == content(real)
    assert content(base) == before
    after = content(real)
    changed = {path for path in before | after if before.get(path, b"") != after.get(path, b"")}
    found = {file_change.path: file_change for file_change in shadow.changes("/d")}
    assert changed <= set(found)
    for path, file_change in found.items():
        was, now = before.get(path), after.get(path)
        assert file_change.before_bytes == (None if was is None else len(was))
        assert file_change.after_bytes == (None if now is None else len(now))
        if file_change.is_cut:
            assert was is not None and now == was[: file_change.after_bytes]


def test_directories_move_with_what_is_in_them() -> None:
    base = small()
    shadow = ShadowFs(base, lambda: 0)
    shadow.open("/d/a/1").pwrite(b"new", 0)
    shadow.rename("/d/a", "/d/c")
    assert shadow.list_dir("/d") == ["b", "c"]
    assert shadow.read_bytes("/d/c/1")[:4] == b"new\x03"
    assert not shadow.exists("/d/a/1")
    shadow.make_dir("/d/e/f")
    shadow.create("/d/e/f/x").pwrite(b"x", 0)
    shadow.remove_tree("/d/c")
    assert content(shadow).keys() == {"/d", "/d/b", "/d/b/2", "/d/e", "/d/e/f", "/d/e/f/x"}
    gone = [
        file_change.path for file_change in shadow.changes("/d") if file_change.after_bytes is None
    ]
    assert gone == ["/d/a/1", "/d/a/3"]


class Full(MemFs):
    """A disk with little room."""

    def volume(self, path: str) -> Volume:
        return Volume(1000, 10)


def test_a_full_disk_takes_nothing() -> None:
    base = Full()
    base.make_dir("/d")
    base.create("/d/x").pwrite(bytes(50), 0)
    shadow = ShadowFs(base, lambda: 0)
    with pytest.raises(OSError, match="No space left") as failed:
        shadow.open("/d/x").pwrite(bytes(20), 45)
    assert failed.value.errno == errno.ENOSPC
    shadow.open("/d/x").truncate(10)  # makes room
    shadow.open("/d/x").pwrite(bytes(20), 0)
    assert shadow.size("/d/x") == 20
