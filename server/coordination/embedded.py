"""The coordination service of a broker without ZooKeeper: the tree, a log and a snapshot.

Two files in the first log directory: `coordination.snapshot` has all nodes at some zxid, and
`coordination.log` the transactions since then. A transaction takes effect in memory at once; its
response, its watch events and the responses to reads that may have seen it are held back until it
is on disk. Pending transactions share one fsync, which runs in a thread. When the log has grown
past `storage.LOG_BYTES_MAX`, it is replaced by a snapshot.

There is one session, which lasts as long as the process; its ephemeral nodes are removed at the
next start. The caller holds the lock of the directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from kavka.log.fs import is_fd_exhaustion
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.server.coordination.tree_session import TreeSession
from kavka.server.runtime.cooperative import run_rest
from kavka.wire.errors import clear_tracebacks
from kavka.zktree import storage_format
from kavka.zktree.api import (
    ConnectionLost,
    CoordinationError,
    Op,
    OpResult,
    Overloaded,
    SessionEvent,
    SessionExpired,
    Watch,
    WatchEvent,
)
from kavka.zktree.storage import SLICE_NODES, Storage, TreeLoading
from kavka.zktree.tree import CloseSession, MultiTransaction, Tree, TreeOp

if TYPE_CHECKING:
    import asyncio

    from kavka.log.fs import FileSystem

logger = logging.getLogger(__name__)

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Transactions that are not on disk yet; a write beyond this limit fails with Overloaded."""


SHORTAGE_RETRY_S: Final = 1.0
"""When an operation that failed for lack of file descriptors is retried."""


class _Pending(Protocol):
    """A response or event that is held back until the transactions before it are on disk."""

    def release(self, tasks: Tasks) -> None:
        """Deliver it: they are on disk."""
        ...

    def fail(self, reason: str) -> None:
        """Handle a failed write, after which it is unknown whether they are on disk."""
        ...


@dataclass(slots=True)
class _Reply:
    future: asyncio.Future[Any]
    value: object
    error: CoordinationError | None = None

    def release(self, tasks: Tasks) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.value)
            return
        self.future.set_exception(self.error)
        if isinstance(self.error, SessionExpired):
            self._mark_retrieved()

    def fail(self, reason: str) -> None:
        if not self.future.done():
            self.future.set_exception(ConnectionLost(reason))
            self._mark_retrieved()

    def _mark_retrieved(self) -> None:
        """The end of a session fails all requests. A caller that has sent several stops at the
        first one that it awaits, and asyncio would log the others as never retrieved."""
        self.future.exception()


@dataclass(slots=True)
class _WatchCall:
    watch: Watch
    event: WatchEvent

    def release(self, tasks: Tasks) -> None:
        tasks.call_soon(self.watch, self.event)

    def fail(self, reason: str) -> None:
        """Nothing to do: the expiry of the session has its own event."""


@dataclass(slots=True)
class _Batch:
    """Transactions that share one fsync, and what is held back until then, in order."""

    transactions: list[bytes] = field(default_factory=list)
    transactions_bytes: int = 0
    last_zxid: int = 0
    waiting: list[_Pending] = field(default_factory=list)


class EmbeddedCoordination(TreeSession):
    """`Coordination` on this broker's own disk. Made by `open_embedded`."""

    def __init__(
        self, tree: Tree, storage: Storage, *, clock: Clock, tasks: Tasks, jobs: Jobs
    ) -> None:
        super().__init__(tree)
        self._storage = storage
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        # Unique: no earlier node can have this id as its owner, as zxids only increase.
        self.session_id = tree.zxid + 1
        self.last_zxid = tree.zxid
        self._expired = False
        self._collecting = _Batch()
        self._syncing: _Batch | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._rewrite_after_s = 0.0
        if left_over := tree.ephemerals():
            self._apply([CloseSession(session_id) for session_id in left_over])

    async def close(self) -> None:
        if not self._expired:
            closing = self._respond(lambda: self._apply([CloseSession(self.session_id)]))
            self._expired = True
            with suppress(ConnectionLost):  # reported where it happened
                await closing
        if self._flusher is not None:
            await self._flusher
        self._storage.close()

    def abandon(self) -> None:
        self._expired = True
        self._storage.close()

    def _write_ops(self, ops: Sequence[Op]) -> list[OpResult]:
        if self._collecting.transactions_bytes > PENDING_BYTES_MAX:
            raise Overloaded
        return self._apply(ops)

    def _apply(self, ops: Sequence[TreeOp]) -> list[OpResult]:
        """Apply a transaction in memory, and schedule its write to disk."""
        transaction = MultiTransaction(
            self._tree.zxid + 1, self._clock.now_ms(), self.session_id, tuple(ops)
        )
        results, events = self._tree.execute(transaction)
        encoded = storage_format.encode_transaction(transaction)
        batch = self._collecting
        batch.transactions.append(encoded)
        batch.transactions_bytes += len(encoded)
        batch.last_zxid = transaction.zxid
        batch.waiting.extend(_WatchCall(*call) for call in self._watches.trigger(events))
        if self._flusher is None:
            self._flusher = self._tasks.spawn(self._flush(), name="coordination log")
        return results

    def _respond(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        """Run `work` now; deliver its result once all that it may have seen is on disk."""
        reply = _Reply(self._tasks.future(), None)
        try:
            if self._expired:
                raise SessionExpired
            reply.value = work()
        except CoordinationError as error:
            clear_tracebacks(error)  # a reference cycle otherwise: frame, future, error
            reply.error = error
        if self._collecting.transactions:
            self._collecting.waiting.append(reply)
        elif self._syncing is not None:
            self._syncing.waiting.append(reply)
        else:
            reply.release(self._tasks)
        return reply.future

    async def _flush(self) -> None:
        try:
            while self._collecting.transactions:
                batch = self._syncing = self._collecting
                self._collecting = _Batch()
                await self._append(batch.transactions)
                self._syncing = None
                self.last_zxid = batch.last_zxid
                for waiting in batch.waiting:
                    waiting.release(self._tasks)
                if self._storage.log_is_long:
                    await self._rewrite()
        except Exception as failure:  # these transactions exist only in memory
            logger.critical(
                "coordination log: write failed, ending the session: %s",
                failure,
                exc_info=None if isinstance(failure, OSError) else failure,
            )
            self._expire(f"{self._storage.directory}: {failure}")
        finally:
            self._flusher = None

    async def _append(self, transactions: list[bytes]) -> None:
        """Append transactions to the log and fsync it. Retried while file descriptors are
        exhausted. OSError."""
        while True:
            try:
                await self._jobs.run(Pool.WRITE, self._storage.append, transactions)
                return
            except OSError as failure:
                if not is_fd_exhaustion(failure) or self._expired:
                    raise
                logger.error("coordination log: can't write now: %s", failure)
            await self._tasks.sleep(SHORTAGE_RETRY_S)

    async def _rewrite(self) -> None:
        """Replace the log by a snapshot; retried later if file descriptors are exhausted."""
        now_s = self._clock.monotonic_s()
        if now_s < self._rewrite_after_s:
            return
        try:
            await self._write_snapshot()
        except OSError as failure:
            if not is_fd_exhaustion(failure):
                raise
            self._rewrite_after_s = now_s + SHORTAGE_RETRY_S
            logger.error("coordination log: no snapshot can be written now: %s", failure)

    async def _write_snapshot(self) -> None:
        zxid, nodes = self._tree.zxid, self._tree.copy_nodes()
        parts = [storage_format.encode_snapshot_start(zxid, len(nodes))]
        for path, node in nodes.items():
            parts.append(storage_format.encode_node(path, node))
            if len(parts) % SLICE_NODES == 0:
                await self._tasks.sleep(0)
        await self._jobs.run(Pool.WRITE, self._storage.replace_log, parts)
        logger.info("coordination log: snapshot of %d nodes at zxid %d", len(nodes), zxid)

    def _expire(self, reason: str) -> None:
        """Expire the session after a failed write, whose outcome is unknown."""
        self._expired = True
        lost = [*(self._syncing.waiting if self._syncing else ()), *self._collecting.waiting]
        self._syncing = None
        self._collecting = _Batch()
        for waiting in lost:
            waiting.fail(reason)
        for listener in self._listeners:
            self._tasks.call_soon(listener, SessionEvent.EXPIRED)


async def open_embedded(
    fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
) -> EmbeddedCoordination:
    """Load the tree in `directory`, or start with an empty one.

    A torn end of the log is truncated; nothing in it was acknowledged. Corrupt for other damage;
    OSError.
    """
    storage = Storage(fs, directory)
    loading = TreeLoading(directory, *await jobs.run(Pool.READ, storage.read))
    await run_rest(tasks, loading.steps())
    if loading.torn_bytes:
        logger.warning("coordination log: truncated a torn write of %d bytes", loading.torn_bytes)
    await jobs.run(Pool.WRITE, storage.begin_at, loading.end, loading.log, loading.last_frame)
    return EmbeddedCoordination(loading.tree, storage, clock=clock, tasks=tasks, jobs=jobs)
