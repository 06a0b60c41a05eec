"""An in-memory file system that simulates power failures, full disks and I/O errors.

It keeps two states: what the process sees, and what is on the disk after a power failure. A write
reaches the disk with the file's `sync`, a name (created, renamed, removed) with its directory's
`sync_dir`. `kill` ends the process and keeps the state it saw; `crash` reverts to the state on the
disk, plus some of the unsynced writes, whole or torn, if it is given a random source.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kavka.log.fs import Buffer, File, Lock, Volume
from kavka.seams import Random

SECTOR_BYTES: Final = 512
"""The unit that a disk writes atomically."""

_CHANGES: Final = frozenset(
    {"create", "make_dir", "pwrite", "truncate", "sync", "rename", "remove", "sync_dir"}
)


class Died(BaseException):
    """The process died at this operation (`MemFs.dies_after`). Not an Exception, so that no
    handler continues."""


Node: TypeAlias = "_Inode | _Directory"


@dataclass(slots=True)
class Fault:
    """An injected failure of the next `times` calls of `op` on paths ending with `suffix`."""

    op: str
    """open, create, pread, read_bytes, pwrite, truncate, sync, rename, remove, list_dir,
    make_dir, sync_dir, lock or volume."""

    suffix: str = ""
    error: int = errno.EIO
    times: int = 1
    skip: int = 0
    """Calls that succeed before the failing ones."""


class MemFs:
    """A `FileSystem` in memory. `capacity_bytes` limits the sum of all files (ENOSPC)."""

    def __init__(self, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.faults: list[Fault] = []
        self.cached = True
        """Whether `read_cached` finds everything in memory, or nothing."""

        self.dies_after: int | None = None
        """After this many changing calls the next ones raise `Died`; a write is then half done."""

        self.now_ms: Callable[[], int] = lambda: 0
        """The clock for the modification times of files."""

        self._root = _Directory()
        self._used_bytes = 0
        self._generation = 0
        self._locked: set[str] = set()

    # --- crashes

    def kill(self) -> None:
        """The process ends: open files and locks are gone, all writes stay."""
        self._generation += 1
        self._locked.clear()
        self.faults.clear()
        self.dies_after = None

    def crash(self, random: Random | None = None) -> None:
        """A power failure. Without `random` everything unsynced is lost. With it any of the
        unsynced sectors of each file may have reached the disk, and some of the unsynced changes
        of each directory, in order."""
        self.kill()
        self._root.crash(random)
        self._used_bytes = sum(len(inode.data) for inode in self._root.inodes())

    def flip_bit(self, path: str, bit: int) -> None:
        """Flip a bit of a file, in memory and on the disk."""
        inode = self._inode(path)
        inode.data[bit // 8] ^= 1 << bit % 8
        if bit // 8 < len(inode.durable):
            inode.durable[bit // 8] ^= 1 << bit % 8

    def check(self, op: str, path: str) -> None:
        """Raise an injected fault, or `Died`."""
        if self.dies_after is not None and op in _CHANGES:
            self.dies_after -= 1
            if self.dies_after < 0:
                raise Died(op, path)
        for fault in self.faults:
            if fault.op == op and path.endswith(fault.suffix) and fault.times:
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                raise OSError(fault.error, os.strerror(fault.error), path)

    def resized(self, before: int, after: int) -> None:
        """Account for the new length of a file."""
        self._used_bytes += after - before

    @property
    def used_bytes(self) -> int:
        """The sum of all files."""
        return self._used_bytes

    def free_bytes(self) -> int:
        """The free space."""
        if self.capacity_bytes is None:
            return 1 << 62
        return max(0, self.capacity_bytes - self._used_bytes)

    @property
    def generation(self) -> int:
        """Counts the processes; files opened by an earlier one can't be used."""
        return self._generation

    # --- FileSystem

    def limit_files(self) -> int:
        return 1 << 20

    def on_fd_exhaustion(self, close_some: Callable[[], bool]) -> None:
        """Does nothing: there is no limit on descriptors here."""

    def open(self, path: str) -> File:
        self.check("open", path)
        return _MemFile(self, path, self._inode(path))

    def create(self, path: str) -> File:
        self.check("create", path)
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if node is None:
            node = _Inode()
            directory.put(name, node)
        file = _MemFile(self, path, node)
        if node.data:
            file.truncate(0)
        return file

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.check("set_modified_ms", path)
        self._inode(path).modified_ms = modified_ms

    def absolute(self, path: str) -> str:
        return f"/{path.removeprefix('/')}"

    def volume(self, path: str) -> Volume:
        self.check("volume", path)
        self._directory(path)
        usable = self.free_bytes()
        return Volume(self._used_bytes + usable, usable)

    def list_dir(self, path: str) -> list[str]:
        self.check("list_dir", path)
        return sorted(self._directory(path).entries)

    def make_dir(self, path: str) -> None:
        self.check("make_dir", path)
        directory = self._root
        for part in _parts(path):
            node = directory.entries.get(part)
            if node is None:
                node = _Directory()
                directory.put(part, node)
            if not isinstance(node, _Directory):
                raise FileExistsError(errno.EEXIST, "is a file", path)
            directory = node

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        directory, name = self._parent(source)
        other, new_name = self._parent(target)
        if name not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        if other is not directory:
            raise OSError(errno.EXDEV, "renames stay within a directory here", source)
        replaced = directory.entries.get(new_name)
        if isinstance(replaced, _Inode):
            self.resized(len(replaced.data), 0)
        moved = directory.entries[name]
        if isinstance(moved, _Inode):
            moved.renamed = target
        directory.rename(name, new_name)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self.resized(len(self._inode(path).data), 0)
        directory, name = self._parent(path)
        directory.drop(name)

    def remove_tree(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, _Inode):
            self.remove(path)
        elif node is not None:
            for name in sorted(node.entries):
                self.remove_tree(f"{path}/{name}")
            self.check("remove", path)
            directory, name = self._parent(path)
            directory.drop(name)

    def sync_dir(self, path: str) -> None:
        self.check("sync_dir", path)
        self._directory(path).sync()

    def sync_file(self, path: str) -> None:
        self.open(path).sync()

    def read_bytes(self, path: str) -> bytes:
        self.check("read_bytes", path)
        return bytes(self._inode(path).data)

    def write_atomic(self, path: str, data: bytes, *, sync: bool) -> None:
        file = self.create(f"{path}.tmp")
        file.pwrite(data, 0)
        if sync:
            file.sync()
        self.rename(f"{path}.tmp", path)
        if sync:
            self.sync_dir(path.rpartition("/")[0])

    def lock_descriptors(self) -> tuple[int, ...]:
        return ()

    def lock(self, path: str) -> Lock:
        self.check("lock", path)
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, "locked", path)
        if not self.exists(path):
            self.create(path)
        self._locked.add(path)
        return _MemLock(self._locked, path)

    # --- paths

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for part in _parts(path):
            if not isinstance(node, _Directory):
                return None
            node = node.entries.get(part)
        return node

    def _inode(self, path: str) -> _Inode:
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        *above, name = _parts(path)
        return self._directory("/".join(above)), name


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part and part != "."]


@dataclass(slots=True, eq=False)
class _Inode:
    """A file: its visible content, its content on the disk, and the unsynced changes."""

    data: bytearray = field(default_factory=bytearray)
    modified_ms: int = 0
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes (offset, data) and truncations (size, None) since the last sync."""
    renamed: str | None = None
    """Its path after a rename."""

    def sync(self) -> None:
        for offset, written in self.pending:
            if written is None:
                _resize(self.durable, offset)
            else:
                _put(self.durable, offset, written)
        self.pending.clear()

    def crash(self, random: Random | None) -> None:
        for offset, written in self.pending if random is not None else ():
            assert random is not None
            if written is not None:
                _tear(self.durable, offset, written, random)
            elif random.random() < 0.5:
                _resize(self.durable, offset)
        self.pending.clear()
        self.data = bytearray(self.durable)


def _resize(data: bytearray, size: int) -> None:
    if size < len(data):
        del data[size:]
    else:
        data.extend(bytes(size - len(data)))


def _put(data: bytearray, offset: int, written: bytes) -> None:
    if len(data) < offset:
        _resize(data, offset)
    data[offset : offset + len(written)] = written


def _tear(data: bytearray, offset: int, written: bytes, random: Random) -> None:
    """Write all, nothing, or some of the sectors."""
    fate = random.randrange(3)
    start = 0
    while start < len(written):
        end = min(len(written), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        if fate == 0 or (fate == 1 and random.random() < 0.5):
            _put(data, offset + start, written[start:end])
        start = end


@dataclass(slots=True, eq=False)
class _Directory:
    """Names: the visible ones and those on the disk."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[tuple[str, str | None, Node]] = field(default_factory=list)
    """Changes since the last sync: name removed (or ""), name added (or None), which node."""

    def put(self, name: str, node: Node) -> None:
        self._change("", name, node)

    def drop(self, name: str) -> None:
        self._change(name, None, self.entries[name])

    def rename(self, name: str, new_name: str) -> None:
        self._change(name, new_name, self.entries[name])

    def _change(self, old: str, new: str | None, node: Node) -> None:
        self.pending.append((old, new, node))
        _apply(self.entries, old, new, node)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.pending.clear()

    def crash(self, random: Random | None) -> None:
        kept = random.randint(0, len(self.pending)) if random is not None else 0
        for old, new, node in self.pending[:kept]:
            _apply(self.durable, old, new, node)
        self.entries = dict(self.durable)
        self.pending.clear()
        for node in self.entries.values():
            node.crash(random)

    def inodes(self) -> list[_Inode]:
        found = []
        for node in self.entries.values():
            found += node.inodes() if isinstance(node, _Directory) else [node]
        return found


def _apply(entries: dict[str, Node], old: str, new: str | None, node: Node) -> None:
    if old:
        entries.pop(old, None)
    if new is not None:
        entries[new] = node


class _MemFile:
    """One open file."""

    def __init__(self, fs: MemFs, path: str, inode: _Inode) -> None:
        self._fs = fs
        self._path = path
        self._inode = inode
        self._generation = fs.generation

    def _check(self, op: str) -> None:
        if self._generation != self._fs.generation:
            raise OSError(errno.EBADF, "opened by a process that is gone", self._path)
        self._fs.check(op, self._inode.renamed or self._path)

    def pread(self, size: int, offset: int) -> bytes:
        self._check("pread")
        return bytes(self._inode.data[offset : offset + size])

    def read_into(self, buffer: memoryview, offset: int) -> int:
        data = self.pread(len(buffer), offset)
        buffer[: len(data)] = data
        return len(data)

    def read_cached(self, buffer: memoryview, offset: int) -> int | None:
        if not self._fs.cached or offset + len(buffer) > len(self._inode.data):
            return None
        return self.read_into(buffer, offset)

    def pwrite(self, data: Buffer, offset: int) -> None:
        try:
            self._check("pwrite")
        except Died:
            if self._fs.dies_after == -1:  # in the middle of this write
                self._write(bytes(data)[: len(data) // 2], offset)
            raise
        free_bytes = max(0, len(self._inode.data) + self._fs.free_bytes() - offset)
        self._write(bytes(data)[:free_bytes], offset)
        if free_bytes < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)

    def _write(self, written: bytes, offset: int) -> None:
        inode = self._inode
        before = len(inode.data)
        if written:
            _put(inode.data, offset, written)
            inode.pending.append((offset, written))
            inode.modified_ms = self._fs.now_ms()
            self._fs.resized(before, len(inode.data))

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._fs.resized(len(self._inode.data), size)
        _resize(self._inode.data, size)
        self._inode.pending.append((size, None))

    def size(self) -> int:
        return len(self._inode.data)

    def sync(self) -> None:
        try:
            self._check("sync")
        except OSError:
            # as on Linux: the pages are marked clean although they were not written, and the next
            # fsync does not report them
            self._inode.pending.clear()
            raise
        self._inode.sync()

    def close(self) -> None:
        self._generation = -1


class _MemLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)
