"""The coordination service as the rest of the server sees it: ZooKeeper's semantics.

A call submits its request immediately, and requests take effect in the order of the calls;
awaiting the returned object waits for the response. So many requests can be in flight without an
await in between. A response means durable: a write is on disk (or on a quorum), and a read shows
nothing that a crash could undo. Watch events reach their callbacks before the response to any
request that was submitted after the change.

Owns the interface, its errors and its events; not paths or JSON (`paths.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from kavka.log.fs import FileSystem
    from kavka.seams import Clock, Jobs, Tasks

ANY_VERSION: Final = -1
"""Expected version of an unconditional write, as in ZooKeeper."""

NO_SESSION: Final = 0
"""Ephemeral owner of a persistent node."""


class CoordinationError(Exception):
    """A request failed without effect; only after `ConnectionLost` the effect is unknown."""

    def __init__(self, path: str = "") -> None:
        super().__init__(path)
        self.path = path


class NoNode(CoordinationError):
    """The node, or the parent of the one to create, does not exist."""


class NodeExists(CoordinationError):
    """The node to create exists."""


class BadVersion(CoordinationError):
    """The node's data version is not the expected one."""


class NotEmpty(CoordinationError):
    """The node to delete has children."""


class NoChildrenForEphemerals(CoordinationError):
    """The parent of the node to create is ephemeral."""


class BadArguments(CoordinationError):
    """ZooKeeper does not accept the path."""


class ConnectionLost(CoordinationError):
    """The session ended before the response came: the request may have taken effect or not."""


class SessionExpired(CoordinationError):
    """This session has expired: its ephemeral nodes are or will be deleted, every request fails."""


SESSION_ENDED: Final = (ConnectionLost, SessionExpired)
"""Errors after which no request of this session succeeds."""


class Overloaded(CoordinationError):
    """Too many requests are in flight; the request had no effect."""


class MultiFailed(CoordinationError):
    """A multi had no effect, because of the operation at `index`, which failed with `cause`."""

    def __init__(self, index: int, cause: CoordinationError) -> None:
        super().__init__(cause.path)
        self.index = index
        self.cause = cause

    def __str__(self) -> str:
        return f"operation {self.index}: {type(self.cause).__name__} {self.path}"


class Stat(NamedTuple):
    """A node's metadata; names and meanings are ZooKeeper's."""

    czxid: int
    """Transaction that created the node. A broker's is its broker epoch (KIP-380)."""
    mzxid: int
    """Transaction that last set the data."""
    pzxid: int
    """Transaction that last created or deleted a child."""
    ctime: int
    """Wall-clock ms of the creation."""
    mtime: int
    """Wall-clock ms of the last set."""
    version: int
    """How often the data was set; 0 after the creation."""
    cversion: int
    """How many children were created and deleted."""
    ephemeral_owner: int
    """Session that owns the node; `NO_SESSION` for a persistent one."""
    data_length: int
    """Bytes."""
    num_children: int


class Created(NamedTuple):
    """Result of a create: the path (with the number of a sequential node) and the Stat."""

    path: str
    stat: Stat


class Znode(NamedTuple):
    """Result of a get. `data` is None for a node created without data."""

    data: bytes | None
    stat: Stat


class Create(NamedTuple):
    """Create a node. A sequential one gets a ten-digit number that increases per parent."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Replace the data of a node of this version."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a childless node of this version."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Check that the node exists with this version: a condition in a multi."""

    path: str
    version: int = ANY_VERSION


Op: TypeAlias = Create | SetData | Delete | Check
OpResult: TypeAlias = Created | Stat | None
"""`Created` for a Create, `Stat` for a SetData, None for a Delete or Check."""


class WatchKind(Enum):
    """What happened to a watched node."""

    CREATED = "created"
    DELETED = "deleted"
    DATA_CHANGED = "data changed"
    CHILDREN_CHANGED = "children changed"


class WatchEvent(NamedTuple):
    """The argument of a watch's callback; it fires once."""

    kind: WatchKind
    path: str


Watch: TypeAlias = Callable[[WatchEvent], object]
"""Called on the loop, once. The same callable set twice on one thing is called once."""


class SessionEvent(Enum):
    """What happened to the session."""

    SUSPENDED = "suspended"
    """Disconnected; the session may still be alive."""
    CONNECTED = "connected"
    """Connected again, in the same session."""
    EXPIRED = "expired"
    """The session has expired: every request fails with `SessionExpired`, until another session
    begins, if ever."""
    RENEWED = "renewed"
    """Another session has begun, without the watches and the ephemeral nodes of the last one."""


class Coordination(Protocol):
    """One session with the coordination service."""

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes that are created here."""
        ...

    @property
    def last_zxid(self) -> int:
        """The newest transaction that this session knows to be durable."""
        ...

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Awaitable[Created]:
        """Create a node. NodeExists, NoNode (the parent), NoChildrenForEphemerals."""
        ...

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[Znode]:
        """Data and Stat; the watch fires on the next set or the deletion. NoNode sets no watch."""
        ...

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[Stat | None]:
        """Stat or None; the watch fires on the next set, deletion or creation."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        """Names, sorted; the watch fires when children come or go or the node is deleted."""
        ...

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Awaitable[Stat]:
        """Replace the data. NoNode, BadVersion."""
        ...

    def delete(self, path: str, version: int = ANY_VERSION) -> Awaitable[None]:
        """Remove a node. NoNode, BadVersion, NotEmpty."""
        ...

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        """Perform all operations or none, in order, as one transaction. MultiFailed."""
        ...

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        """Call `callback` on the loop whenever something happens to the session."""
        ...

    async def close(self) -> None:
        """Close the session: waits for requests in flight, then deletes its ephemeral nodes."""
        ...

    def abandon(self) -> None:
        """Close files and sockets without closing the session, as if the process had been killed.
        No task or job may be using it."""
        ...


class SingleWrites(ABC):
    """Those requests of a `Coordination` that are a single operation, over one method."""

    @abstractmethod
    def _write(self, op: Create | SetData | Delete) -> Awaitable[Any]:
        """Perform one operation; its result."""

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


class OpenCoordination(Protocol):
    """Opens the session that a broker has during its life."""

    def __call__(
        self, fs: FileSystem, directory: str, *, clock: Clock, tasks: Tasks, jobs: Jobs
    ) -> Awaitable[Coordination]:
        """Open it; a service on this broker's own disk keeps its files in `directory`.
        CoordinationError, OSError; `storage_format.Corrupt` for damaged files."""
        ...
