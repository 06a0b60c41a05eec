"""The embedded service's two files, and loading a tree from them.

`coordination.snapshot` has the nodes as of one transaction, `coordination.log` the transactions
since. A log that still begins before the snapshot (after a power failure between the two writes)
is valid too: transactions that the snapshot includes are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.wire.steps import Steps, run_at_once
from kavka.zktree import storage_format
from kavka.zktree.api import MultiFailed
from kavka.zktree.storage_format import Corrupt
from kavka.zktree.tree import Tree

if TYPE_CHECKING:
    from kavka.log.fs import File, FileSystem

LOG_NAME: Final = "coordination.log"
SNAPSHOT_NAME: Final = "coordination.snapshot"

LOG_BYTES_MAX: Final = 1024 * 1024
"""Log size at which a snapshot is taken; but not before the log is as long as the last snapshot.
Replaying this much takes 30 ms."""

SLICE_NODES: Final = 500
"""Nodes or operations loaded or written between two yields to the loop: 1 to 2 ms."""


def has_metadata(fs: FileSystem, directory: str) -> bool:
    """Whether a log directory is the first of a broker that keeps its metadata itself: one of the
    two files is there. OSError."""
    return any(fs.exists(f"{directory}/{name}") for name in (LOG_NAME, SNAPSHOT_NAME))


class Storage:
    """The two files. Its methods block, so they run as jobs, one at a time."""

    def __init__(self, fs: FileSystem, directory: str) -> None:
        self.directory = directory
        self._fs = fs
        self._log_path = f"{directory}/{LOG_NAME}"
        self._snapshot_path = f"{directory}/{SNAPSHOT_NAME}"
        self._log: File | None = None
        self._is_new_log = False
        """Whether the directory still needs a sync: a power failure could restore the old log."""
        self.log_bytes = 0
        self._snapshot_bytes = 0

    @property
    def log_is_long(self) -> bool:
        """Whether a snapshot is due."""
        return self.log_bytes > max(LOG_BYTES_MAX, self._snapshot_bytes)

    def append(self, transactions: list[bytes]) -> None:
        """Append a frame and fsync. OSError: it is not durable and must be appended again."""
        assert self._log is not None
        self._sync_name()
        frame = storage_format.encode_frame(transactions)
        self._log.pwrite(frame, self.log_bytes)
        self._log.sync()
        self.log_bytes += len(frame)

    def replace_log(self, snapshot: list[bytes]) -> None:
        """Write a snapshot (given without its end) and start a new log. OSError: e.g. file
        descriptor exhaustion: the old log stays in use, and may overlap the new snapshot."""
        before = b"".join(snapshot)
        end = storage_format.encode_snapshot_end(before)
        self._fs.write_atomic(self._snapshot_path, before + end, sync=True)
        self._snapshot_bytes = len(before) + len(end)
        self._begin_log()

    def _begin_log(self) -> None:
        """The file is opened only once; the previous log is closed after the rename."""
        temporary_path = f"{self._log_path}.tmp"
        log = self._fs.create(temporary_path)
        log.pwrite(storage_format.LOG_HEADER, 0)
        log.sync()
        self._fs.rename(temporary_path, self._log_path)
        self._is_new_log = True
        self.close()
        self._log = log
        self.log_bytes = len(storage_format.LOG_HEADER)
        self._sync_name()

    def _sync_name(self) -> None:
        if self._is_new_log:
            self._fs.sync_dir(self.directory)
            self._is_new_log = False

    def read(self) -> tuple[bytes | None, bytes]:
        """Snapshot (or None) and log. Creates the log if neither exists. Corrupt if there is a
        snapshot without a log: it would be outdated."""
        snapshot = None
        if self._fs.exists(self._snapshot_path):
            snapshot = self._fs.read_bytes(self._snapshot_path)
            self._snapshot_bytes = len(snapshot)
        if not self._fs.exists(self._log_path):
            if snapshot is not None:
                raise Corrupt(f"{self.directory}: {LOG_NAME} is missing, {SNAPSHOT_NAME} is there")
            self._begin_log()
            return snapshot, storage_format.LOG_HEADER
        return snapshot, self._fs.read_bytes(self._log_path)

    def begin_at(self, position: int, log: bytes, last_frame: int) -> None:
        """Append to `log` from `position` on, truncating what follows.

        A killed process may have written the last frame without a successful fsync, and pages of
        a failed fsync are not written by later ones. So that frame is rewritten and synced.
        """
        if self._log is None:
            self._log = self._fs.open(self._log_path)
        if position < len(log):
            self._log.truncate(position)
        self._log.pwrite(log[last_frame:position], last_frame)
        self._log.sync()
        self.log_bytes = position

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


def read_tree(storage: Storage) -> Tree:
    """The tree that `storage` holds, for a program without a loop; an existing log is not changed.
    Corrupt, OSError."""
    loading = TreeLoading(storage.directory, *storage.read())
    run_at_once(loading.steps())
    return loading.tree


class TreeLoading:
    """Builds a tree from the contents of the two files."""

    def __init__(self, directory: str, snapshot: bytes | None, log: bytes) -> None:
        self._directory = directory
        self._snapshot = snapshot
        self.log = log
        self.tree = Tree()
        # start and end of the log's last complete frame
        self.last_frame = self.end = len(storage_format.LOG_HEADER)

    @property
    def torn_bytes(self) -> int:
        """Bytes after the last complete frame."""
        return len(self.log) - self.end

    def steps(self) -> Steps[None]:
        """Build the tree; pauses now and then. Corrupt names the files."""
        try:
            if self._snapshot is not None:
                yield from self._restore(self._snapshot)
            yield from self._replay()
        except Corrupt as error:
            raise Corrupt(f"{self._directory}: {LOG_NAME} or {SNAPSHOT_NAME}: {error}") from error

    def _restore(self, snapshot: bytes) -> Steps[None]:
        zxid, nodes = storage_format.decode_snapshot(snapshot)
        self.tree = Tree(zxid)
        for number, (path, node) in enumerate(nodes, start=1):
            self.tree.restore(path, node)
            if number % SLICE_NODES == 0:
                yield None

    def _replay(self) -> Steps[None]:
        """Execute the log's transactions that are newer than the tree."""
        log, tree = self.log, self.tree
        if log[: self.end] != storage_format.LOG_HEADER:
            raise Corrupt("not a log of a version that this Kavka reads")
        ops_in_slice = 0
        while (frame := storage_format.read_frame(log, self.end)) is not None:
            for transaction in storage_format.decode_transactions(log, frame):
                if transaction.zxid <= tree.zxid:
                    continue
                if transaction.zxid != tree.zxid + 1:
                    raise Corrupt(f"transactions after {tree.zxid} are missing")
                try:
                    tree.execute(transaction, quiet=True)
                except MultiFailed as failed:
                    raise Corrupt(
                        f"transaction {transaction.zxid} does not fit: {failed}"
                    ) from failed
                ops_in_slice += len(transaction.ops)
                if ops_in_slice >= SLICE_NODES:
                    ops_in_slice = 0
                    yield None
            self.last_frame, self.end = self.end, frame.end
        storage_format.check_tail(log, self.end)
