"""The coordination service as the rest of the server sees it: ZooKeeper's semantics.

A call submits its request at once, and requests take effect in the order of the calls; awaiting
what a call returns waits for the answer. So many requests can be under way with nothing awaited
between them. An answer means durable: a write is on disk (or on a quorum), and a read shows
nothing that a crash could take back. Watch events reach their callbacks before the answer of any
request that was submitted after the change.

Owns the interface, its errors and its events; not paths or JSON (`paths.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

ANY_VERSION: Final = -1
"""Expected version of a write that does not care; ZooKeeper's number for it."""

NO_SESSION: Final = 0
"""Ephemeral owner of a persistent node."""


class CoordinationError(Exception):
    """A request had no effect, but for `ConnectionLost`, where nobody knows."""

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
    """The path is not one that ZooKeeper takes."""


class ConnectionLost(CoordinationError):
    """The session ended before the answer came: the request may have taken effect or not."""


class SessionExpired(CoordinationError):
    """This session is over: its ephemeral nodes are gone or going, and no request works again."""


class Overloaded(CoordinationError):
    """More is under way than the service holds; the request had no effect."""


class MultiFailed(CoordinationError):
    """A multi had no effect, because of the operation at `index`, which failed with `cause`."""

    def __init__(self, index: int, cause: CoordinationError) -> None:
        super().__init__(cause.path)
        self.index = index
        self.cause = cause

    def __str__(self) -> str:
        return f"operation {self.index}: {type(self.cause).__name__} {self.path}"


class Stat(NamedTuple):
    """What a node knows about itself; names and meanings are ZooKeeper's."""

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
    """Session that the node dies with; `NO_SESSION` for a persistent one."""
    data_length: int
    """Bytes."""
    num_children: int


class Created(NamedTuple):
    """The answer to a create: the path (with the number of a sequential one) and the Stat."""

    path: str
    stat: Stat


class Znode(NamedTuple):
    """The answer to a get. `data` is None for a node made without any."""

    data: bytes | None
    stat: Stat


class Create(NamedTuple):
    """Make a node. A sequential one gets a ten-digit number, rising under its parent."""

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
    """Only see that the node exists in this version; gives a multi its condition."""

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
    """Tells a watch's callback what happened; the watch is used up by it."""

    kind: WatchKind
    path: str


Watch: TypeAlias = Callable[[WatchEvent], object]
"""Called on the loop, once. The same callable set twice on one thing is called once."""


class SessionEvent(Enum):
    """What happened to the session."""

    SUSPENDED = "suspended"
    """Nobody answers; the session may still live."""
    CONNECTED = "connected"
    """Answers come again, in the same session."""
    EXPIRED = "expired"
    """The session is over for good: every request fails with `SessionExpired`."""


class Coordination(Protocol):
    """One session with the coordination service."""

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes made here."""
        ...

    @property
    def last_zxid(self) -> int:
        """Number of the newest transaction that this session knows to be durable."""
        ...

    def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
    ) -> Awaitable[Created]:
        """Make a node. NodeExists, NoNode (the parent), NoChildrenForEphemerals."""
        ...

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[Znode]:
        """Data and Stat; the watch sees the next set or the deletion. NoNode sets no watch."""
        ...

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[Stat | None]:
        """Stat or None; the watch sees the next set, deletion or creation."""
        ...

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[list[str]]:
        """Names, sorted; the watch sees the next child come or go, or the node's deletion."""
        ...

    def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Awaitable[Stat]:
        """Replace the data. NoNode, BadVersion."""
        ...

    def delete(self, path: str, version: int = ANY_VERSION) -> Awaitable[None]:
        """Remove a node. NoNode, BadVersion, NotEmpty."""
        ...

    def multi(self, ops: Sequence[Op]) -> Awaitable[list[OpResult]]:
        """Do all or nothing, in order, as one transaction. MultiFailed."""
        ...

    def on_session(self, callback: Callable[[SessionEvent], object]) -> None:
        """Call `callback` on the loop whenever something happens to the session."""
        ...

    async def close(self) -> None:
        """End the session: waits for what is under way, then removes its ephemeral nodes."""
        ...

    def abandon(self) -> None:
        """Let go of files and sockets without a word, as if the process had been killed: the
        session is not ended. No task or job may be at work on it."""
        ...
