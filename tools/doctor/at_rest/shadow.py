"""A file system that shows another one, and keeps all changes in memory.

So a broker's own start can run on log directories without changing them; what it would have
changed is listed by `changes`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from kavka.log.fs import Buffer, File, FileSystem, Lock, Volume

HELD_BYTES_MAX: Final = 1 << 30
"""Changed content in memory; a write beyond it fails like one to a full disk."""


class _File:
    """A file: the first `kept` bytes are those of `base`, the others in memory."""

    __slots__ = ("base", "base_bytes", "kept", "modified_ms", "tail")

    def __init__(self, base: str | None, size: int, modified_ms: int | None = None) -> None:
        self.base = base
        self.base_bytes = self.kept = size
        self.tail = bytearray()
        self.modified_ms = modified_ms

    @property
    def size(self) -> int:
        return self.kept + len(self.tail)


class _Directory:
    """A directory: `base` has what is not in `known`, where None stands for a removed entry."""

    __slots__ = ("base", "known")

    def __init__(self, base: str | None) -> None:
        self.base = base
        self.known: dict[str, _Node | None] = {}


_Node: TypeAlias = "_File | _Directory"


class Change(NamedTuple):
    """What has become of a file."""

    path: str
    before_bytes: int | None
    """Its length before; None: it is new."""
    after_bytes: int | None
    """Its length now; None: it was removed."""
    is_cut: bool
    """Whether it was only cut at the end."""


class ShadowFs:
    """A `FileSystem` over `base`, which is only read.

    No file grows by more than its volume has room for, nor all of them by `HELD_BYTES_MAX`.
    """

    def __init__(self, base: FileSystem, now_ms: Callable[[], int]) -> None:
        self._base = base
        self.now_ms: Final = now_ms
        self._root = _Directory("/")
        self._room: dict[str, int] = {}
        self._held_bytes = 0

    # --- what has changed

    def changes(self, path: str) -> Iterator[Change]:
        """The changed files below a directory, by path."""
        found = self._find(path)
        if isinstance(found, _Directory):
            yield from self._changes(path, found)

    def _changes(self, path: str, directory: _Directory) -> Iterator[Change]:
        for name, node in sorted(directory.known.items()):
            at = f"{path}/{name}"
            if node is None:
                yield from self._removed(at)
            elif isinstance(node, _Directory):
                if node.base != at:
                    yield from self._removed(at)
                yield from self._changes(at, node)
            elif node.base != at:
                there = self._base.exists(at) and not self._base.is_dir(at)
                yield Change(at, self._base.size(at) if there else None, node.size, False)
            elif node.tail or node.kept < node.base_bytes:
                yield Change(at, node.base_bytes, node.size, not node.tail)

    def _removed(self, path: str) -> Iterator[Change]:
        if not self._base.exists(path):
            return
        if not self._base.is_dir(path):
            yield Change(path, self._base.size(path), None, False)
            return
        for name in self._base.list_dir(path):
            yield from self._removed(f"{path}/{name}")

    # --- nodes

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in self._base.absolute(path).split("/"):
            if name in ("", "."):
                continue
            if not isinstance(node, _Directory):
                return None
            node = self._child(node, name)
        return node

    def _child(self, directory: _Directory, name: str) -> _Node | None:
        if name in directory.known:
            return directory.known[name]
        if directory.base is None:
            return None
        path = f"{directory.base.rstrip('/')}/{name}"
        if not self._base.exists(path):
            return None
        found: _Node
        if self._base.is_dir(path):
            found = _Directory(path)
        else:
            found = _File(path, self._base.size(path))
        return directory.known.setdefault(name, found)

    def _file(self, path: str) -> _File:
        found = self._find(path)
        if isinstance(found, _Directory):
            raise _error(IsADirectoryError, errno.EISDIR, path)
        if found is None:
            raise _error(FileNotFoundError, errno.ENOENT, path)
        return found

    def _directory(self, path: str) -> _Directory:
        found = self._find(path)
        if isinstance(found, _File):
            raise _error(NotADirectoryError, errno.ENOTDIR, path)
        if found is None:
            raise _error(FileNotFoundError, errno.ENOENT, path)
        return found

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = self._base.absolute(path).rstrip("/").rpartition("/")
        return self._directory(parent or "/"), name

    # --- room

    def take(self, path: str, size: int) -> None:
        """Account for `size` more bytes of a file, or fewer. OSError if there is no room."""
        at = path.rpartition("/")[0]
        if at not in self._room:
            self._room[at] = self._usable(at)
        if size > min(self._room[at], HELD_BYTES_MAX - self._held_bytes):
            raise _error(OSError, errno.ENOSPC, path)
        self._room[at] -= size
        self._held_bytes += size

    def _usable(self, path: str) -> int:
        while not self._base.is_dir(path or "/"):
            path = path.rpartition("/")[0]
        return self._base.volume(path or "/").usable_bytes

    def content(self, file: _File) -> File | None:
        """The file that has its first bytes."""
        return None if file.base is None else self._base.open(file.base)

    # --- FileSystem

    def limit_files(self) -> int:
        return self._base.limit_files()

    def on_fd_exhaustion(self, close_some: Callable[[], bool]) -> None:
        self._base.on_fd_exhaustion(close_some)

    def open(self, path: str) -> File:
        return _ShadowFile(self, path, self._file(path))

    def create(self, path: str) -> File:
        parent, name = self._parent(path)
        found = self._child(parent, name)
        if isinstance(found, _Directory):
            raise _error(IsADirectoryError, errno.EISDIR, path)
        if found is None:
            self.take(path, 1)  # a full disk has no room for a name either
            found = parent.known[name] = _File(None, 0)
        file = _ShadowFile(self, path, found)
        file.truncate(0)
        return file

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def size(self, path: str) -> int:
        return self._file(path).size

    def modified_ms(self, path: str) -> int:
        file = self._file(path)
        if file.modified_ms is not None:
            return file.modified_ms
        return self.now_ms() if file.base is None else self._base.modified_ms(file.base)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._file(path).modified_ms = modified_ms

    def absolute(self, path: str) -> str:
        return self._base.absolute(path)

    def volume(self, path: str) -> Volume:
        return self._base.volume(path)

    def list_dir(self, path: str) -> list[str]:
        directory = self._directory(path)
        names = dict.fromkeys([] if directory.base is None else self._base.list_dir(directory.base))
        names |= dict.fromkeys(directory.known)
        known = directory.known
        return sorted(name for name in names if name not in known or known[name] is not None)

    def make_dir(self, path: str) -> None:
        if self.is_dir(path):
            return
        parent = path.rstrip("/").rpartition("/")[0]
        if parent and not self.exists(parent):
            self.make_dir(parent)
        within, name = self._parent(path)
        if self._child(within, name) is not None:
            raise _error(FileExistsError, errno.EEXIST, path)
        self.take(path, 1)
        within.known[name] = _Directory(None)

    def rename(self, source: str, target: str) -> None:
        before, name = self._parent(source)
        node = self._child(before, name)
        if node is None:
            raise _error(FileNotFoundError, errno.ENOENT, source)
        after, new_name = self._parent(target)
        before.known[name] = None
        after.known[new_name] = node

    def remove(self, path: str) -> None:
        size = self._file(path).size
        parent, name = self._parent(path)
        parent.known[name] = None
        self.take(path, -size)

    def remove_tree(self, path: str) -> None:
        if self.exists(path):
            parent, name = self._parent(path)
            parent.known[name] = None

    def sync_dir(self, path: str) -> None:
        self._directory(path)

    def sync_file(self, path: str) -> None:
        self._file(path)

    def read_bytes(self, path: str) -> bytes:
        file = self.open(path)
        return file.pread(file.size(), 0)

    def write_atomic(self, path: str, data: bytes, *, sync: bool) -> None:
        temporary = f"{path}.tmp"
        self.create(temporary).pwrite(data, 0)
        self.rename(temporary, path)

    def lock(self, path: str) -> Lock:
        if not self.exists(path):
            self.create(path)
        return _NoLock()

    def lock_descriptors(self) -> tuple[int, ...]:
        return ()


class _ShadowFile:
    """An open file."""

    def __init__(self, fs: ShadowFs, path: str, file: _File) -> None:
        self._fs = fs
        self._path = path
        self._file = file
        self._content = fs.content(file)

    def pread(self, size: int, offset: int) -> bytes:
        file = self._file
        data = b""
        if offset < file.kept and self._content is not None:
            data = self._content.pread(min(size, file.kept - offset), offset)
        start = max(offset, file.kept) - file.kept
        return data + bytes(file.tail[start : max(start, offset + size - file.kept)])

    def read_into(self, buffer: memoryview, offset: int) -> int:
        file = self._file
        done = 0
        if offset < file.kept and self._content is not None:
            done = self._content.read_into(buffer[: file.kept - offset], offset)
        start = max(offset + done, file.kept) - file.kept
        part = file.tail[start : start + len(buffer) - done]
        buffer[done : done + len(part)] = part
        return done + len(part)

    def read_cached(self, buffer: memoryview, offset: int) -> int | None:
        done = self.read_into(buffer, offset)
        return done if done == len(buffer) else None

    def pwrite(self, data: Buffer, offset: int) -> None:
        file = self._file
        end = offset + len(data)
        if end <= file.size and self.pread(len(data), offset) == data:
            return  # as of what may be on the disk and is written once more
        if offset < file.kept:
            self._hold_from(offset)
        self._fs.take(self._path, max(0, end - file.size))
        file.tail.extend(bytes(max(0, end - file.size)))
        file.tail[offset - file.kept : end - file.kept] = data
        file.modified_ms = self._fs.now_ms()

    def _hold_from(self, offset: int) -> None:
        """Keep what follows in memory."""
        file = self._file
        held = self.pread(file.kept - offset, offset)
        file.tail[:0] = held
        file.kept = offset

    def truncate(self, size: int) -> None:
        file = self._file
        self._fs.take(self._path, min(0, size - file.size))
        if size != file.size:
            file.modified_ms = self._fs.now_ms()
        if size <= file.kept:
            file.kept = size
            file.tail.clear()
        else:
            file.tail[size - file.kept :] = bytes(max(0, size - file.size))

    def size(self) -> int:
        return self._file.size

    def sync(self) -> None:
        """Nothing is on a disk."""

    def close(self) -> None:
        if self._content is not None:
            self._content.close()


class _NoLock:
    """A lock of what nobody else sees."""

    def release(self) -> None:
        """Nothing to do."""


def _error(kind: type[OSError], number: int, path: str) -> OSError:
    return kind(number, os.strerror(number), path)
