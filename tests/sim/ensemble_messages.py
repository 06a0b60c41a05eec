"""What travels between a session and the simulated ZooKeeper, and how."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kavka.zktree.api import CoordinationError, Watch, WatchEvent
from sim.network import SimNetwork

if TYPE_CHECKING:
    from sim.ensemble import ServiceSession

NEW: Final = 0
"""Instead of an id: the client that says hello has no session yet."""

Work: TypeAlias = "Callable[[ServiceSession], object]"
"""What a request does at the service; CoordinationError."""


class Hello(NamedTuple):
    """The first message on a connection."""

    session_id: int
    timeout_s: float
    received: int
    """The number of the last `Numbered` that the session has."""


class Request(NamedTuple):
    """A request; requests of a session are numbered from 1."""

    number: int
    work: Work
    received: int


class Ping(NamedTuple):
    """A sign of life, answered with `Pong`."""

    received: int


class Welcome(NamedTuple):
    """The session goes on, or has begun."""

    session_id: int
    applied: int
    """The number of the last request that has taken effect: later ones have to be sent again."""


class Expired(NamedTuple):
    """There is no such session any more."""


class Pong(NamedTuple):
    """The answer to a `Ping`."""


class HungUp(NamedTuple):
    """The service has closed the connection."""


class Result(NamedTuple):
    """What came of a request."""

    request: int
    value: object
    error: CoordinationError | None
    zxid: int
    """The last transaction at that time."""


class Fired(NamedTuple):
    """A watch has fired."""

    watch: Watch
    event: WatchEvent


class Numbered(NamedTuple):
    """A numbered message to a session."""

    number: int
    payload: Result | Fired


Message: TypeAlias = Hello | Request | Ping | Welcome | Expired | Pong | HungUp | Numbered


class Way:
    """One direction of a connection. Messages arrive whole and in order, each after a latency;
    while the path is cut they wait, as TCP sends them again."""

    def __init__(
        self, network: SimNetwork, ends: tuple[str, str], deliver: Callable[[Any], object]
    ) -> None:
        self._network = network
        self._ends = ends
        self._deliver = deliver
        self._on_its_way: deque[Message] = deque()
        self._free_s = 0.0
        self._is_held = False

    def send(self, message: Message) -> None:
        """Let a message travel."""
        network = self._network
        self._free_s = max(self._free_s, network.loop.now_s + network.latency_s())
        self._on_its_way.append(message)
        network.loop.world.call_at(self._free_s, self._arrived)

    def drop(self) -> None:
        """Lose what is on its way."""
        self._on_its_way.clear()

    def _arrived(self) -> None:
        """The time of the first message has come."""
        if self._is_held or not self._on_its_way:
            return
        if self._network.is_cut(*self._ends):
            self._is_held = True
            self._network.when_healed.append(self._retransmit)
            return
        self._deliver(self._on_its_way.popleft())

    def _retransmit(self) -> None:
        self._is_held = False
        for _ in self._on_its_way:
            self._network.loop.world.call_later(self._network.latency_s(), self._arrived)
