"""The two file systems keep one contract; the real one also keeps others out."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.log.fs import FileSystem, OrphanedLockError, OsFs, OsLock
from kavka.log.memfs import MemFs


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system and a directory in it."""
    if request.param == "os":
        return OsFs(), str(tmp_path)
    fs = MemFs()
    fs.make_dir("/d")
    return fs, "/d"


Place = tuple[FileSystem, str]

GRAIN_MS = 1000
"""How far behind the clock a kernel may be that looks at it with every tick: ticks are late on a
virtual machine whose core was taken away."""


def test_a_file_is_written_and_read_at_any_offset(place: Place) -> None:
    fs, directory = place
    file = fs.create(f"{directory}/f")
    file.pwrite(b"hello", 0)
    file.pwrite(memoryview(bytearray(b"world")), 8)
    assert file.size() == fs.size(f"{directory}/f") == 13
    assert file.pread(100, 0) == b"hello\0\0\0world"
    assert file.pread(3, 9) == b"orl"
    buffer = memoryview(bytearray(4))
    assert file.read_into(buffer, 11) == 2
    assert bytes(buffer) == b"ld\0\0"
    file.truncate(4)
    assert fs.open(f"{directory}/f").pread(100, 0) == b"hell"
    file.sync()


def test_cached_reads_are_whole_or_none(place: Place) -> None:
    fs, directory = place
    file = fs.create(f"{directory}/f")
    file.pwrite(b"0123456789", 0)
    buffer = memoryview(bytearray(4))
    assert file.read_cached(buffer, 3) == 4
    assert bytes(buffer) == b"3456"
    assert file.read_cached(buffer, 8) is None


def test_create_empties_what_is_there(place: Place) -> None:
    fs, directory = place
    fs.create(f"{directory}/f").pwrite(b"old", 0)
    assert fs.create(f"{directory}/f").size() == 0


def test_names(place: Place) -> None:
    fs, directory = place
    fs.make_dir(f"{directory}/a/b")
    fs.make_dir(f"{directory}/a/b")
    fs.create(f"{directory}/a/2")
    fs.create(f"{directory}/a/10")
    assert fs.list_dir(f"{directory}/a") == ["10", "2", "b"]
    assert fs.is_dir(f"{directory}/a/b") and not fs.is_dir(f"{directory}/a/2")
    assert not fs.exists(f"{directory}/a/c")
    fs.rename(f"{directory}/a/2", f"{directory}/a/10")
    fs.remove(f"{directory}/a/10")
    assert fs.list_dir(f"{directory}/a") == ["b"]
    fs.sync_dir(f"{directory}/a")
    fs.remove_tree(f"{directory}/a")
    fs.remove_tree(f"{directory}/a")
    assert not fs.exists(f"{directory}/a")


@pytest.mark.parametrize(
    "call",
    [
        lambda fs, path: fs.open(path),
        lambda fs, path: fs.size(path),
        lambda fs, path: fs.remove(path),
        lambda fs, path: fs.read_bytes(path),
        lambda fs, path: fs.sync_file(path),
        lambda fs, path: fs.rename(path, path + "x"),
        lambda fs, path: fs.list_dir(path),
        lambda fs, path: fs.create(path + "/below"),
    ],
)
def test_missing_paths(place: Place, call: Callable[[FileSystem, str], object]) -> None:
    fs, directory = place
    with pytest.raises(FileNotFoundError):
        call(fs, f"{directory}/missing")


@pytest.mark.parametrize("sync", [True, False])
def test_atomic_write_leaves_one_file(place: Place, sync: bool) -> None:
    fs, directory = place
    fs.write_atomic(f"{directory}/f", b"one", sync=sync)
    fs.write_atomic(f"{directory}/f", b"second", sync=sync)
    assert fs.read_bytes(f"{directory}/f") == b"second"
    assert fs.list_dir(directory) == ["f"]


def test_a_lock_keeps_a_second_one_out_until_it_is_released(place: Place) -> None:
    fs, directory = place
    held = fs.lock(f"{directory}/.lock")
    with pytest.raises(BlockingIOError):
        fs.lock(f"{directory}/.lock")
    with pytest.raises(BlockingIOError):
        fs.lock(f"{directory}/.lock")
    held.release()
    fs.lock(f"{directory}/.lock").release()


def test_a_released_lock_is_not_left_to_a_forked_child(tmp_path: Path) -> None:
    held = OsFs().lock(f"{tmp_path}/.lock")
    assert isinstance(held, OsLock)
    child = os.dup(held.fd)  # what a fork does with each descriptor
    held.release()
    OsFs().lock(f"{tmp_path}/.lock").release()
    os.close(child)


def test_a_lock_that_a_process_has_too_is_held_until_that_ends(tmp_path: Path) -> None:
    """As a process has it that a broker started which was killed since."""
    path = tmp_path / ".lock"
    fs = OsFs()
    held = fs.lock(str(path))
    (descriptor,) = fs.lock_descriptors()
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[descriptor]):
        assert int(path.read_bytes()) == os.getpid()
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        path.write_text(f"{ended.pid}\n")  # whose lock it was
        del held
        assert fs.lock_descriptors() == ()
        with pytest.raises(OrphanedLockError):
            OsFs().lock(str(path))
        path.write_text(f"{os.getpid()}\n")
        with pytest.raises(BlockingIOError) as caught:
            OsFs().lock(str(path))
        assert not isinstance(caught.value, OrphanedLockError)
    OsFs().lock(str(path)).release()
    assert path.read_bytes() == b""


@pytest.mark.parametrize("content", [b"", b"x", b"9" * 30, b"-1", b"\xff\xff"])
def test_a_lock_file_without_a_valid_pid_belongs_to_another_broker(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / ".lock"
    held = OsFs().lock(str(path))
    path.write_bytes(content)
    with pytest.raises(BlockingIOError) as caught:
        OsFs().lock(str(path))
    assert not isinstance(caught.value, OrphanedLockError)
    held.release()


def test_a_forked_child_that_forgets_the_lock_leaves_it_to_its_parent(tmp_path: Path) -> None:
    held = OsFs().lock(f"{tmp_path}/.lock")
    assert isinstance(held, OsLock)
    copy = OsLock(os.dup(held.fd))
    del copy
    with pytest.raises(BlockingIOError):
        OsFs().lock(f"{tmp_path}/.lock")
    held.release()


LOCK_IT = """
import sys
from kavka.log.fs import OsFs
try:
    OsFs().lock(sys.argv[1])
except BlockingIOError:
    print("refused")
else:
    print("locked")
"""


def _lock_in_another_process(path: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOCK_IT, path],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_lock_keeps_other_processes_out(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = OsFs().lock(path)
    assert _lock_in_another_process(path) == "refused"
    held.release()
    assert _lock_in_another_process(path) == "locked"


def test_a_file_is_closed_with_its_last_reference(tmp_path: Path) -> None:
    def count() -> int:
        """Not of all that is open: threads of other tests may be about to close something."""
        links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
        return sum(link.resolve() == tmp_path / "f" for link in links)

    fs = OsFs()
    file = fs.create(str(tmp_path / "f"))
    again = fs.open(str(tmp_path / "f"))
    assert count() == 2
    del file
    again.close()
    gc.collect()
    assert count() == 0


def test_an_open_file_outlives_its_name(place: Place) -> None:
    fs, directory = place
    file = fs.create(f"{directory}/f")
    file.pwrite(b"still here", 0)
    fs.remove(f"{directory}/f")
    assert file.pread(100, 0) == b"still here"


def test_the_volume_of_a_directory(place: Place) -> None:
    fs, directory = place
    total, usable = fs.volume(directory)
    assert 0 < usable <= total
    with pytest.raises(FileNotFoundError):
        fs.volume(f"{directory}/none")


def test_the_volume_is_the_operating_systems(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path)
    total, usable = OsFs().volume(str(tmp_path))
    assert total == free.total
    assert usable == pytest.approx(free.free, rel=0.2), "others write meanwhile"


def test_a_file_has_a_modification_time(place: Place) -> None:
    fs, directory = place
    if isinstance(fs, MemFs):
        fs.now_ms = lambda: int(time.time() * 1000)
    before_ms = int(time.time() * 1000) - GRAIN_MS
    file = fs.create(f"{directory}/f")
    file.pwrite(b"x", 0)
    written_ms = fs.modified_ms(f"{directory}/f")
    assert before_ms <= written_ms <= time.time() * 1000
    file.sync()
    fs.rename(f"{directory}/f", f"{directory}/g")
    assert fs.modified_ms(f"{directory}/g") == written_ms
    fs.set_modified_ms(f"{directory}/g", 1_234_567)
    assert fs.modified_ms(f"{directory}/g") == 1_234_567


def test_absolute_paths(place: Place) -> None:
    fs, directory = place
    assert fs.absolute(directory) == directory
    assert fs.absolute("a/../b").endswith("/a/../b")


def test_absolute_paths_begin_with_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert OsFs().absolute("data") == f"{tmp_path}/data"


def test_where_descriptors_run_out_some_are_closed(tmp_path: Path) -> None:
    """In a process of its own, which may not open many."""
    script = """
import errno, resource, sys
from kavka.log.fs import OsFs
directory = sys.argv[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
fs, held, asked = OsFs(), [], []
assert fs.limit_files() == 40
def close_some():
    asked.append(len(held))
    was_any = bool(held)
    del held[:10]
    return was_any
fs.on_fd_exhaustion(close_some)
for number in range(100):
    held.append(fs.create(f"{directory}/{number}"))
assert len(asked) > 5 and len(held) < 40
while len(held) < asked[0]:
    held.append(fs.open(f"{directory}/1"))
fs.sync_file(f"{directory}/1"), fs.sync_dir(directory), fs.read_bytes(f"{directory}/1")
others = []
try:
    while True:
        others.append(fs.open(f"{directory}/2"))
except OSError as error:
    assert error.errno == errno.EMFILE and not held
print("well")
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "well\n", done.stderr


def test_it_can_be_sent_to_another_process() -> None:
    fs = OsFs()
    fs.on_fd_exhaustion(lambda: True)
    assert isinstance(pickle.loads(pickle.dumps(fs)), OsFs)
