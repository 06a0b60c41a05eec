"""The coordination service of a broker without ZooKeeper: the tree, a log and a snapshot.

Two plain files in the first log directory: `coordination.log` has the transactions since the
snapshot, `coordination.snapshot` the nodes at one. A transaction takes effect in memory at once;
its answer, its watch events and the answers to reads that may have seen it wait until it is on
disk. All writers that wait share one fsync, which runs off the loop. The log is replaced by a
snapshot when it has grown past `storage.LOG_BYTES_MAX`.

There is one session, and it lives as long as the process: what was ephemeral dies at the next
start. The caller holds the lock of the directory.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from kavka.log.fs import is_fd_exhaustion
from kavka.seams import Clock, Jobs, Pool, Tasks
from kavka.wire.errors import clear_tracebacks
from kavka.zktree import storage_format
from kavka.zktree.api import (
    ANY_VERSION,
    ConnectionLost,
    CoordinationError,
    Create,
    Created,
    Delete,
    MultiFailed,
    Op,
    OpResult,
    Overloaded,
    SessionEvent,
    SessionExpired,
    SetData,
    Stat,
    Watch,
    WatchEvent,
    Znode,
)
from kavka.zktree.storage import SLICE_NODES, Storage, load
from kavka.zktree.tree import CloseSession, Transaction, Tree, TreeOp, Watches

if TYPE_CHECKING:
    import asyncio

    from kavka.log.fs import FileSystem

logger = logging.getLogger(__name__)

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""Transactions that wait for the disk; a request beyond it is refused."""


SHORTAGE_RETRY_S: Final = 1.0
"""When something is tried again that too many open files have kept from being done."""


class _Pending(Protocol):
    """Something that waits until the transactions before it are on disk."""

    def release(self, tasks: Tasks) -> None:
        """They are."""
        ...

    def lose(self, reason: str) -> None:
        """Nobody knows, and nobody will."""
        ...


@dataclass(slots=True)
class _Reply:
    future: asyncio.Future[Any]
    value: object
    error: CoordinationError | None = None

    def release(self, tasks: Tasks) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)

    def lose(self, reason: str) -> None:
        if not self.future.done():
            self.future.set_exception(ConnectionLost(reason))


@dataclass(slots=True)
class _WatchCall:
    watch: Watch
    event: WatchEvent

    def release(self, tasks: Tasks) -> None:
        tasks.call_soon(self.watch, self.event)

    def lose(self, reason: str) -> None:
        """The session is over; it has its own event."""


@dataclass(slots=True)
class _Batch:
    """Transactions that one fsync will cover, and what it sets free, in order."""

    transactions: list[bytes] = field(default_factory=list)
    transactions_bytes: int = 0
    last_zxid: int = 0
    waiting: list[_Pending] = field(default_factory=list)


class Embedded:
    """`Coordination` on this broker's own disk. Made by `open_embedded`."""

    def __init__(
        self, tree: Tree, storage: Storage, *, clock: Clock, tasks: Tasks, jobs: Jobs
    ) -> None:
        self._tree = tree
        self._storage = storage
        self._clock = clock
        self._tasks = tasks
        self._jobs = jobs
        # No node can have it as owner yet: its own transactions all come later.
        self.session_id = tree.zxid + 1
        self.last_zxid = tree.zxid
        self._watches = Watches()
        self._listeners: list[Callable[[SessionEvent], object]] = []
        self._expired = False
        self._gathering = _Batch()
        self._syncing: _Batch | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._rewrite_after_s = 0.0
        if left_over := tree.ephemerals():
            self._apply([CloseSession(session_id) for session_id in left_over])

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Awaitable[Created]:
        return self._write(Create(path, data, ephemeral, sequential))

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Awaitable[Stat]:
        return self._write(SetData(path, data, version))

    def delete(self, path: str, version: int = ANY_VERSION) -> Awaitable[None]:
        return self._write(Delete(path, version))

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        return self._answer(lambda: self._request(ops))

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[Znode]:
        def read() -> Znode:
            found = self._tree.get(path)
            if watch is not None:
                self._watches.add_data(path, watch)
            return found

        return self._answer(read)

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[Stat | None]:
        def read() -> Stat | None:
            if watch is not None:
                self._watches.add_data(path, watch)
            return self._tree.exists(path)

        return self._answer(read)

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        def read() -> list[str]:
            found = self._tree.children(path)
            if watch is not None:
                self._watches.add_children(path, watch)
            return found

        return self._answer(read)

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        self._listeners.append(callback)

    async def close(self) -> None:
        if not self._expired:
            closing = self._answer(lambda: self._apply([CloseSession(self.session_id)]))
            self._expired = True
            with suppress(ConnectionLost):  # reported where it happened
                await closing
        if self._flusher is not None:
            await self._flusher
        self._storage.close()

    def abandon(self) -> None:
        self._expired = True
        self._storage.close()

    def _write(self, op: Op) -> Awaitable[Any]:
        def write() -> OpResult:
            try:
                return self._request([op])[0]
            except MultiFailed as failed:
                cause = failed.cause
            raise cause

        return self._answer(write)

    def _request(self, ops: Sequence[Op]) -> list[OpResult]:
        if self._gathering.transactions_bytes > PENDING_BYTES_MAX:
            raise Overloaded
        return self._apply(ops)

    def _apply(self, ops: Sequence[TreeOp]) -> list[OpResult]:
        """Let a transaction take effect in memory, and see to it that it gets to the disk."""
        transaction = Transaction(
            self._tree.zxid + 1, self._clock.now_ms(), self.session_id, tuple(ops)
        )
        results, events = self._tree.execute(transaction)
        encoded = storage_format.encode_transaction(transaction)
        batch = self._gathering
        batch.transactions.append(encoded)
        batch.transactions_bytes += len(encoded)
        batch.last_zxid = transaction.zxid
        batch.waiting.extend(_WatchCall(*call) for call in self._watches.trigger(events))
        if self._flusher is None:
            self._flusher = self._tasks.spawn(self._flush(), name="coordination log")
        return results

    def _answer(self, work: Callable[[], object]) -> asyncio.Future[Any]:
        """Do `work` now and hand out its result when all it may have seen is on disk."""
        reply = _Reply(self._tasks.future(), None)
        try:
            if self._expired:
                raise SessionExpired
            reply.value = work()
        except CoordinationError as error:
            clear_tracebacks(error)  # this one has the future, and the future the error
            reply.error = error
        if self._gathering.transactions:
            self._gathering.waiting.append(reply)
        elif self._syncing is not None:
            self._syncing.waiting.append(reply)
        else:
            reply.release(self._tasks)
        return reply.future

    async def _flush(self) -> None:
        try:
            while self._gathering.transactions:
                batch = self._syncing = self._gathering
                self._gathering = _Batch()
                await self._append(batch.transactions)
                self._syncing = None
                self.last_zxid = batch.last_zxid
                for waiting in batch.waiting:
                    waiting.release(self._tasks)
                if self._storage.log_is_long:
                    await self._rewrite()
        except Exception as failure:  # what was asked has been done in memory and nowhere else
            logger.critical(
                "coordination log: write failed, ending the session: %s",
                failure,
                exc_info=None if isinstance(failure, OSError) else failure,
            )
            self._expire(f"{self._storage.directory}: {failure}")
        finally:
            self._flusher = None

    async def _append(self, transactions: list[bytes]) -> None:
        """Have transactions on the disk. Lack of descriptors says nothing of it: whoever waits,
        waits longer. OSError."""
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
        """Put a snapshot in the place of the log; if there is no descriptor for it now, later."""
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
        """End the session after a write whose outcome nobody knows."""
        self._expired = True
        lost = [*(self._syncing.waiting if self._syncing else ()), *self._gathering.waiting]
        self._syncing = None
        self._gathering = _Batch()
        for waiting in lost:
            waiting.lose(reason)
        for listener in self._listeners:
            self._tasks.call_soon(listener, SessionEvent.EXPIRED)


async def open_embedded(
    fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
) -> Embedded:
    """Load what `directory` has, or begin with an empty tree.

    A torn end of the log is cut off; nothing in it was ever acknowledged. Corrupt for other
    damage; OSError passes through.
    """
    storage = Storage(fs, directory)
    tree = await load(storage, tasks=tasks, jobs=jobs)
    return Embedded(tree, storage, clock=clock, tasks=tasks, jobs=jobs)
