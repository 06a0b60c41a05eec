"""A network between the processes of a world: TCP connections with all their faults.

A connection carries bytes in order, in pieces, each with a latency. What does not fit into the
window between sender and reader stays with the sender, as a view of what it has lent. A path
between two hosts may be cut, in one direction or both: bytes wait until it is healed, or the
connection times out. A connection may be reset at any byte. A host that loses power says nothing:
its peers' connections are half open until they send something to it.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sim.loop import Process, SimLoop
from sim.trace import Trace

Factory = Callable[[str], asyncio.BaseProtocol | None]
FIRST_FREE_PORT = 40_000
CONNECT_TIMEOUT_S = 10.0
RETRANSMISSION_TIMEOUT_S = 15.0
"""A connection whose bytes are not delivered for so long ends with ETIMEDOUT."""


@dataclass(frozen=True)
class Quality:
    """What the paths of a world are like."""

    latency_s: float = 0.0002
    """The median; one in `slow_share` takes a hundred times as long."""
    slow_share: float = 0.01
    bytes_per_s: float = 1e9
    window_bytes: int = 256 * 1024
    """So much of a direction is on its way, or with a reader that does not read."""
    pieces_share: float = 0.1
    """Of all writes, those that arrive in several pieces."""


class SimNetwork:
    """All hosts and connections."""

    def __init__(
        self, loop: SimLoop, chance: random.Random, trace: Trace, quality: Quality
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.quality = quality
        self.cuts: set[tuple[str, str]] = set()
        """Pairs of hosts, from and to, between which nothing is delivered."""
        self.dark: set[str] = set()
        """Hosts without power."""
        self.listening: dict[tuple[str, int], SimListening] = {}
        self.transports: dict[SimTransport, None] = {}
        self.refusing: set[str] = set()
        """Hosts that refuse connections."""
        self.when_healed: list[Callable[[], object]] = []
        """Called once, when paths are whole again: what else waits for them."""
        self._number = 0

    def host(self, process: Process, name: str) -> HostNetwork:
        """The network as a process on a host sees it."""
        return HostNetwork(self, process, name)

    def latency_s(self) -> float:
        """Of the next piece."""
        quality, chance = self.quality, self.chance
        slow = 100.0 if chance.random() < quality.slow_share else 1.0
        return quality.latency_s * slow * (0.5 + chance.random())

    def number(self) -> int:
        """Of the next connection."""
        self._number += 1
        return self._number

    def is_cut(self, source: str, target: str) -> bool:
        """Whether nothing is delivered from one host to another."""
        return (source, target) in self.cuts or source in self.dark or target in self.dark

    def cut(self, source: str, target: str) -> None:
        """Deliver nothing in this direction until `heal`."""
        self.cuts.add((source, target))
        self.trace.add("network", f"cut {source} to {target}")

    def refuse(self, host: str) -> None:
        """A host's connections are reset, and new ones to it refused until `accept`, though its
        processes live."""
        self.refusing.add(host)
        self.trace.add("network", f"{host} refuses connections")
        for transport in list(self.transports):
            if transport.host == host:
                transport.reset()

    def accept(self, host: str) -> None:
        """A host accepts connections again."""
        self.refusing.discard(host)
        self.trace.add("network", f"{host} accepts connections")

    def heal(self) -> None:
        """All paths are whole again; what waited arrives."""
        self.cuts.clear()
        self.trace.add("network", "healed")
        self._retransmit()

    def mend(self, cuts: Iterable[tuple[str, str]]) -> None:
        """These paths are whole again, from and to, and others stay as they are."""
        self.cuts.difference_update(cuts)
        self.trace.add("network", "mended")
        self._retransmit()

    def light(self, host: str) -> None:
        """A host has power again; it knows nothing of its former connections."""
        self.dark.discard(host)
        self._retransmit()

    def _retransmit(self) -> None:
        for transport in list(self.transports):
            transport.retransmit()
        waiting, self.when_healed = self.when_healed, []
        for call in waiting:
            call()

    def end_process(self, process: Process, *, silently: bool) -> None:
        """The process has died, and the system closes its sockets; or, `silently`, the host has
        lost its power."""
        for key, listening in list(self.listening.items()):
            if listening.process is process:
                del self.listening[key]
        for transport in list(self.transports):
            if transport.process is process:
                transport.forget(silently=silently)

    def reset_one(self) -> None:
        """Reset a connection of chance, with what is on its way."""
        if self.transports:
            victim = self.chance.choice(list(self.transports))
            self.trace.add("network", f"reset {victim.name}")
            victim.reset()


class HostNetwork:
    """`kavka.seams.Network` for one process."""

    def __init__(self, network: SimNetwork, process: Process, host: str) -> None:
        self._network = network
        self._process = process
        self.host = host

    async def bind(self, host: str, port: int) -> SimListening:
        network = self._network
        if port and (self.host, port) in network.listening:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        while not port or (self.host, port) in network.listening:
            port = (port or FIRST_FREE_PORT) + 1
        listening = SimListening(network, self._process, self.host, port)
        network.listening[self.host, port] = listening
        return listening

    async def resolve(self, host: str) -> str:
        return host

    def host_name(self) -> str:
        return self.host

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> SimTransport:
        """A connection to a listener. OSError: refused, or no answer in time."""
        network = self._network
        await asyncio.sleep(network.latency_s())
        if network.is_cut(self.host, host) or network.is_cut(host, self.host):
            await asyncio.sleep(CONNECT_TIMEOUT_S)
            raise TimeoutError(errno.ETIMEDOUT, "no answer")
        listening = network.listening.get((host, port))
        if listening is None or host in network.refusing:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        number = network.number()
        ours = SimTransport(network, self._process, self.host, f"{number}>")
        theirs = SimTransport(network, listening.process, host, f"{number}<")
        ours.peer, theirs.peer = theirs, ours
        ours.address, theirs.address = (host, port), (self.host, 20_000 + number)
        ours.own_address, theirs.own_address = theirs.address, ours.address
        listening.connected(theirs)
        protocol = factory()
        ours.set_protocol(protocol)
        protocol.connection_made(ours)
        return ours


class SimListening:
    """`kavka.seams.Listening`."""

    def __init__(self, network: SimNetwork, process: Process, host: str, port: int) -> None:
        self._network = network
        self.process = process
        self._host = host
        self.port = port
        self.factory: Factory | None = None
        self._is_paused = False
        self._backlog: deque[SimTransport] = deque()

    async def accept(self, factory: Factory) -> None:
        self.factory = factory
        self.process.call_soon(self._accept)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self.process.call_soon(self._accept)

    def connected(self, transport: SimTransport) -> None:
        """A client has connected."""
        self._backlog.append(transport)
        self.process.call_soon(self._accept)

    def _accept(self) -> None:
        while self._backlog and not self._is_paused and self.factory is not None:
            transport = self._backlog.popleft()
            protocol = self.factory(transport.address[0])
            if protocol is None:
                transport.abort()
            else:
                transport.set_protocol(protocol)
                protocol.connection_made(transport)
                transport.deliver_soon()

    def close(self) -> None:
        self.factory = None
        self._network.listening.pop((self._host, self.port), None)
        while self._backlog:
            self._backlog.popleft().abort()


class SimTransport(asyncio.Transport):
    """One end of a connection."""

    peer: SimTransport
    address: tuple[str, int]
    own_address: tuple[str, int]

    def __init__(self, network: SimNetwork, process: Process, host: str, name: str) -> None:
        super().__init__()
        self.name = name
        self.process = process
        self.host = host
        self._network = network
        self._protocol: Any = None
        self._inbox = bytearray()
        self._outbox: deque[memoryview] = deque()
        self._on_its_way = 0
        """Bytes sent of which this end does not know that the other one's reader has taken them."""
        self._acknowledgements: deque[tuple[float, int]] = deque()
        """When it hears of how many of them. They are events only if something waits for them."""
        self._path: deque[bytes | None] = deque()
        """Pieces sent that have not arrived; None is the end of the stream."""
        self._path_free_s = 0.0
        self._is_waiting = False
        """The first piece of the path was lost, as the path is cut: until `retransmit`."""
        self._reading = True
        self._closing = False
        self._eof = False
        self._ended = False
        self._due = False
        network.transports[self] = None

    # -- the protocol's calls -------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.address, "sockname": self.own_address}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0, "Kavka wants to know when all is written"

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self.deliver_soon()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._outbox))

    def write(self, data: Any) -> None:
        if self._closing or self._ended or not data:
            return
        self._outbox.append(memoryview(data))
        if len(self._outbox) > 1:
            return  # sent when what waits is acknowledged
        self._push()
        if self._outbox:
            for due_s, _ in self._acknowledgements:
                self.process.call_at(due_s, self._acknowledged)
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._outbox:
                self._end_stream()

    def abort(self) -> None:
        self.reset(OSError(errno.ECONNABORTED, "aborted"), at_once=False)

    # -- sending --------------------------------------------------------------------------

    def _push(self) -> None:
        """Send what the window has room for."""
        self._count_acknowledged()
        window = self._network.quality.window_bytes
        while self._outbox and self._on_its_way < window:
            room = window - self._on_its_way
            first = self._outbox[0]
            piece = bytes(first[:room])
            if len(piece) == len(first):
                self._outbox.popleft()
            else:
                self._outbox[0] = first[room:]
            del first
            self._on_its_way += len(piece)
            self._send(piece)

    def _send(self, data: bytes) -> None:
        chance, quality = self._network.chance, self._network.quality
        while len(data) > 1 and chance.random() < quality.pieces_share:
            size = chance.randrange(1, len(data))
            self._travel(data[:size])
            data = data[size:]
        self._travel(data)

    def _travel(self, piece: bytes | None) -> None:
        network = self._network
        now_s = network.loop.now_s
        length = 0 if piece is None else len(piece)
        self._path_free_s = max(now_s, self._path_free_s) + length / network.quality.bytes_per_s
        self._path.append(piece)
        due_s = max(self._path_free_s, now_s + network.latency_s())
        self._path_free_s = due_s  # in order
        network.loop.world.call_at(due_s, self._arrived)

    def _arrived(self) -> None:
        """The time of the path's first piece has come."""
        if self._is_waiting or not self._path:
            return
        network = self._network
        if network.is_cut(self.host, self.peer.host) or network.is_cut(self.peer.host, self.host):
            self._is_waiting = True  # not even its acknowledgement would come through
            network.loop.world.call_later(RETRANSMISSION_TIMEOUT_S, self._time_out)
            return
        piece = self._path.popleft()
        if piece is None:
            self.peer.stream_ended()
        else:
            network.trace.note(self.name, piece)
            self.peer.arrive(piece)

    def retransmit(self) -> None:
        """The paths are whole again: what was lost arrives after all."""
        if self._is_waiting:
            self._is_waiting = False
            for _ in self._path:
                self._network.loop.world.call_later(self._network.latency_s(), self._arrived)

    def _time_out(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._path.clear()
            self._fail_soon(TimeoutError(errno.ETIMEDOUT, "no acknowledgement"))

    def _end_stream(self) -> None:
        if not self._ended:
            self._travel(None)
            self._end_soon(None)

    # -- receiving ------------------------------------------------------------------------

    def arrive(self, piece: bytes) -> None:
        """Bytes from the other end."""
        if self._ended or self._closing:
            self._network.loop.world.call_later(self._network.latency_s(), self.peer.was_reset)
            return
        self._inbox += piece
        self.deliver_soon()

    def stream_ended(self) -> None:
        """The other end has closed."""
        self._eof = True
        self.deliver_soon()

    def deliver_soon(self) -> None:
        """Let the protocol have what has arrived."""
        if not self._due and self._protocol is not None and (self._inbox or self._eof):
            self._due = True
            self.process.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        taken = 0
        while self._inbox and self._reading and not self._closing:
            taken += self._deliver_some()
        if taken and not self._ended:
            self.peer.acknowledge(taken)
        if self._eof and self._reading and not (self._inbox or self._closing or self._ended):
            self._eof = False
            if not self._protocol.eof_received():
                self.close()

    def _deliver_some(self) -> int:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            data = bytes(self._inbox)
            self._inbox.clear()
            protocol.data_received(data)
            return len(data)
        room = memoryview(protocol.get_buffer(-1))
        count = min(len(room), len(self._inbox))
        room[:count] = self._inbox[:count]
        del room
        del self._inbox[:count]
        protocol.buffer_updated(count)
        return count

    def acknowledge(self, count: int) -> None:
        """The other end's reader has taken so many bytes: it will be known here."""
        network, pending = self._network, self._acknowledgements
        due_s = network.loop.now_s + network.latency_s()
        if pending:
            due_s = max(due_s, pending[-1][0])
        pending.append((due_s, count))
        if self._outbox:
            self.process.call_at(due_s, self._acknowledged)

    def _count_acknowledged(self) -> None:
        pending, now_s = self._acknowledgements, self._network.loop.now_s
        while pending and pending[0][0] <= now_s:
            self._on_its_way -= pending.popleft()[1]

    def _acknowledged(self) -> None:
        """There may be room for what waits."""
        self._count_acknowledged()
        if self._ended or not self._outbox:
            return
        waiting, window = self.get_write_buffer_size(), self._network.quality.window_bytes
        if window - self._on_its_way < min(waiting, window // 2):
            return  # a TCP waits for more room than for a few bytes (RFC 1122, 4.2.3.4)
        self._push()
        if not self._outbox:
            if self._closing:
                self._end_stream()
            else:
                self._protocol.resume_writing()

    # -- the end --------------------------------------------------------------------------

    def reset(self, failure: OSError | None = None, *, at_once: bool = True) -> None:
        """End it: what is on its way is lost. The other end sees ECONNRESET."""
        if self._ended:
            return
        self._path.clear()
        self.peer._path.clear()
        self._network.loop.world.call_later(self._network.latency_s(), self.peer.was_reset)
        if at_once:
            self._fail_soon(failure or ConnectionResetError(errno.ECONNRESET, "reset"))
        else:
            self._closing = True
            self._outbox.clear()
            self._inbox.clear()
            self._end_soon(None)

    def was_reset(self) -> None:
        """The other end has reset it, or knows nothing of it."""
        if not self._network.is_cut(self.peer.host, self.host):
            self._fail_soon(ConnectionResetError(errno.ECONNRESET, "reset by peer"))

    def _fail_soon(self, failure: OSError) -> None:
        self._closing = True
        self._outbox.clear()
        self._inbox.clear()
        self._end_soon(failure)

    def _end_soon(self, failure: OSError | None) -> None:
        if not self._ended:
            self._ended = True
            self._network.transports.pop(self, None)
            self._network.trace.add(self.process.name, f"connection {self.name} ends: {failure}")
            if self._protocol is not None:
                self.process.call_soon(self._protocol.connection_lost, failure)

    def forget(self, *, silently: bool) -> None:
        """The process has died: the system closes the socket, after what it was given to send;
        or, `silently`, the host has lost its power."""
        if self._ended:
            return
        self._ended = self._closing = True
        self._network.transports.pop(self, None)
        self._outbox.clear()
        if silently:
            self._path.clear()
        elif self._inbox:  # unread: a reset instead of an orderly end
            self._network.loop.world.call_later(self._network.latency_s(), self.peer.was_reset)
        else:
            self._travel(None)
