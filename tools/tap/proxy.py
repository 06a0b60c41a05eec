"""Passes on what clients and brokers send each other, and records it.

Bytes go on first and are looked at afterwards. A response that tells of brokers is passed on when
it is whole, with the addresses of this proxy; for a broker without a port one is opened first.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from kavka.seams import Network, Tasks
from kavka.tools.tap import rewriting
from kavka.tools.tap.capture import Kind, Record, response_data
from kavka.tools.tap.listeners import Address, Listeners, Target
from kavka.tools.tap.rewriting import Addressed, BrokerAddress
from kavka.tools.tap.streams import Chunk, Foreign, Requests, Responses, Unanswered


class Recorder(Protocol):
    """Takes what is recorded."""

    def put(self, record: Record) -> None: ...


class Proxy:
    """Listens for clients, and connects each to a broker."""

    def __init__(
        self,
        network: Network,
        tasks: Tasks,
        recorder: Recorder,
        now_us: Callable[[], int],
        listen: Address,
        on_bound: Callable[[Target, int], object],
    ) -> None:
        self.network = network
        self.tasks = tasks
        self.now_us = now_us
        self.listeners = Listeners(network, listen, self._factory_for, on_bound)
        self._recorder = recorder
        self._tunnels: dict[int, Tunnel] = {}
        self._count = 0

    async def start(self, bootstrap: Sequence[Address], brokers: Sequence[BrokerAddress]) -> None:
        """Open a port for the bootstrap servers, and one for each broker. OSError."""
        await self.listeners.start(bootstrap)
        for broker in brokers:
            await self.listeners.add(broker)

    def record(self, kind: Kind, number: int, data: bytes) -> None:
        """Record something of a connection that happens now."""
        self._recorder.put(Record(kind, self.now_us(), number, data))

    def forget(self, number: int) -> None:
        """A connection has ended."""
        self._tunnels.pop(number, None)

    def close(self) -> None:
        """Close all ports and connections."""
        self.listeners.close()
        for tunnel in list(self._tunnels.values()):
            tunnel.close("")

    def _factory_for(self, target: Target) -> Callable[[str], asyncio.BaseProtocol]:
        def accepted(_: str) -> asyncio.BaseProtocol:
            self._count += 1
            tunnel = self._tunnels[self._count] = Tunnel(self, self._count, target)
            return tunnel.client

        return accepted


class End(asyncio.Protocol):
    """One end of a tunnel."""

    def __init__(self, tunnel: Tunnel, on_data: Callable[[bytes], None]) -> None:
        self.transport: Any = None
        self.other: End | None = None
        self.has_ended = False
        """Whether its peer sends nothing more."""
        self._tunnel = tunnel
        self._on_data = on_data
        self._pauses = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._tunnel.connected(self)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def eof_received(self) -> bool:
        self.has_ended = True
        other = self.other
        if other is None or other.has_ended or other.transport is None:
            self._tunnel.close("")
            return False
        other.transport.write_eof()
        return True  # the other direction stays open

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._tunnel.close(str(exc) if exc else "")

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.pause()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.resume()

    def pause(self) -> None:
        """Read no more, until `resume` was called as often."""
        self._pauses += 1
        if self._pauses == 1 and self.transport is not None:
            self.transport.pause_reading()

    def resume(self) -> None:
        self._pauses -= 1
        if self._pauses == 0 and self.transport is not None:
            self.transport.resume_reading()

    def close(self) -> None:
        """Close it when all is sent."""
        if self.transport is not None:
            self.transport.close()


class Tunnel:
    """A client's connection, and the one to the broker that belongs to it."""

    def __init__(self, proxy: Proxy, number: int, target: Target) -> None:
        self._proxy = proxy
        self._number = number
        self._target = target
        self._unanswered = Unanswered()
        self._requests = Requests()
        self._responses = Responses(self._unanswered, rewriting.may_hold_addresses)
        self._is_foreign = False
        self._is_closed = False
        self._advertised = ""
        self.client = End(self, self._from_client)
        self._broker = End(self, self._from_broker)
        self.client.other, self._broker.other = self._broker, self.client
        self._opening: asyncio.Task[None] | None = None
        self._waiting: list[bytes] | None = None
        """Bytes of the broker behind a response that waits for a port."""

    def connected(self, end: End) -> None:
        """An end is connected: the client's first."""
        if self._is_closed:
            end.close()
        elif end is self.client:
            end.pause()
            self._advertised = end.transport.get_extra_info("sockname")[0]
            self._opening = self._proxy.tasks.spawn(self._open(), name="tap connects to a broker")

    def close(self, why: str) -> None:
        """Close both ends."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        self.client.close()
        self._broker.close()
        self._proxy.record(Kind.CLOSED, self._number, why.encode())
        self._proxy.forget(self._number)

    # -- opening ---------------------------------------------------------------------------

    async def _open(self) -> None:
        reasons = []
        for host, port in self._target.addresses:
            try:
                await self._proxy.network.connect(host, port, lambda: self._broker)
            except OSError as failure:
                reasons.append(f"can't connect to {host}:{port}: {failure.strerror or failure}")
                continue
            self._opened(f"{host}:{port}")
            self.client.resume()
            return
        self._opened("; ".join(f"{host}:{port}" for host, port in self._target.addresses))
        self.close("; ".join(reasons))

    def _opened(self, broker: str) -> None:
        if self.client.transport is None:
            return
        host, port = self.client.transport.get_extra_info("peername")[:2]
        known = {"client": f"{host}:{port}", "broker": broker, "node": self._target.node}
        self._proxy.record(Kind.OPENED, self._number, json.dumps(known).encode())

    # -- requests --------------------------------------------------------------------------

    def _from_client(self, data: bytes) -> None:
        if self._broker.transport is None:
            return
        self._broker.transport.write(data)
        if self._is_foreign:
            return
        now_us = self._proxy.now_us()
        try:
            for frame in self._requests.feed(data):
                self._unanswered.add(frame, now_us)
                self._proxy.record(Kind.REQUEST, self._number, frame)
        except Foreign as foreign:
            self._pass_unread(str(foreign))
            self._write([self._responses.held()])

    def _pass_unread(self, why: str) -> None:
        self._is_foreign = True
        self._proxy.record(Kind.FOREIGN, self._number, why.encode())

    # -- responses -------------------------------------------------------------------------

    def _from_broker(self, data: bytes) -> None:
        if self._waiting is not None:
            self._waiting.append(data)
        elif self._is_foreign:
            self._write([data])
        else:
            self._pump(self._responses.feed(data))

    def _pump(self, chunks: Iterator[Chunk]) -> None:
        """Pass on what can be; at a response that needs a port first, go on later."""
        out: list[Any] = []
        finished: list[Chunk] = []
        try:
            for chunk in chunks:
                if chunk.frame is not None:
                    finished.append(chunk)
                if not chunk.is_held:
                    out.append(chunk.data)
                    continue
                addressed = _addressed(chunk)
                brokers = () if addressed is None else addressed.brokers()
                missing = [broker for broker in brokers if not self._proxy.listeners.knows(broker)]
                if missing:
                    assert addressed is not None
                    self._broker.pause()
                    self._waiting = []
                    self._proxy.tasks.spawn(
                        self._open_ports(missing, addressed, chunk, chunks),
                        name="tap opens ports",
                    )
                    break
                out += self._rewritten(addressed, chunk)
        except Foreign as foreign:
            out.append(foreign.rest)
            self._pass_unread(str(foreign))
        self._write(out)
        for chunk in finished:
            assert chunk.frame is not None
            data = response_data(chunk.request, chunk.frame)
            self._proxy.record(Kind.RESPONSE, self._number, data)

    def _rewritten(self, addressed: Addressed | None, chunk: Chunk) -> list[Any]:
        if addressed is None or not addressed.brokers():
            return [chunk.data]
        listeners, host = self._proxy.listeners, self._advertised
        return addressed.rewritten(lambda broker: listeners.translated(broker, host))

    async def _open_ports(
        self,
        missing: Sequence[BrokerAddress],
        addressed: Addressed,
        chunk: Chunk,
        rest: Iterator[Chunk],
    ) -> None:
        try:
            for broker in missing:
                await self._proxy.listeners.add(broker)
        except OSError as failure:
            note = f"no port for another broker, so clients get its own: {failure}"
            self._proxy.record(Kind.NOTE, self._number, note.encode())
            self._write([chunk.data])
        else:
            self._write(self._rewritten(addressed, chunk))
        later, self._waiting = self._waiting or [], None
        self._pump(rest)
        for data in later:
            self._from_broker(data)
        self._broker.resume()

    def _write(self, parts: list[Any]) -> None:
        if self.client.transport is not None and parts:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            if data:
                self.client.transport.write(data)


def _addressed(chunk: Chunk) -> Addressed | None:
    """A response that can be rewritten; None if it is malformed, and passed on as it is."""
    assert chunk.frame is not None
    try:
        return Addressed(chunk.request, chunk.frame)
    except rewriting.Unreadable:
        return None
