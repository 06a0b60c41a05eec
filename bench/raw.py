"""Plain sockets and closed loops over them: clients cheap enough to share two cores with a broker.

Frames are sent as they are and answers land in reused buffers. Every loop ends by time, and those
that move much data by bytes too.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bench import frames

HOST: Final = "127.0.0.1"
CONNECT_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 30.0
READY_TIMEOUT_S: Final = 120.0
RETRY_EVERY_S: Final = 0.003

_FIRST_BUFFER_BYTES: Final = 1 << 12
_ANSWER_TIMEOUT: Final = struct.pack("ll", int(ANSWER_TIMEOUT_S), 0)
_unpack_size = struct.Struct(">i").unpack_from
_unpack_code = struct.Struct(">h").unpack_from


class Connection:
    """One blocking connection; answers are read into one buffer that grows to the largest.

    An answer that takes longer than ANSWER_TIMEOUT_S is a TimeoutError.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), CONNECT_TIMEOUT_S)
        self.socket.settimeout(None)  # a Python timeout costs a poll() before each call
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, _ANSWER_TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_FIRST_BUFFER_BYTES)
        self._size = bytearray(4)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, request: bytes | bytearray) -> memoryview:
        """Send one request and read its answer; see `read`."""
        self.socket.sendall(request)
        return self.read()

    def read(self) -> memoryview:
        """The next answer without its size field; valid until the next call."""
        self._fill(memoryview(self._size))
        (size,) = _unpack_size(self._size)
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        answer = memoryview(self._buffer)[:size]
        self._fill(answer)
        return answer

    def _fill(self, view: memoryview) -> None:
        while view:
            try:
                got = self.socket.recv_into(view, len(view), socket.MSG_WAITALL)
            except BlockingIOError:
                raise TimeoutError(f"no answer within {ANSWER_TIMEOUT_S:.0f} s") from None
            if not got:
                raise ConnectionError("the broker closed the connection")
            view = view[got:]


def when_up(port: int, act: Callable[[Connection], int], within_s: float = READY_TIMEOUT_S) -> None:
    """Connect and `act` until that returns 0 for done; another number is the broker's error code.

    A refused connection is tried again too. RuntimeError after `within_s`.
    """
    end_s = time.monotonic() + within_s
    problem: object = None
    while time.monotonic() < end_s:
        try:
            with Connection(port) as connection:
                while time.monotonic() < end_s:
                    problem = act(connection)
                    if not problem:
                        return
                    time.sleep(RETRY_EVERY_S)
        except OSError as error:
            problem = error
        time.sleep(RETRY_EVERY_S)
    raise RuntimeError(f"the broker on port {port} does not get ready: {problem}")


def create_topic(port: int, name: str, partitions: int = 1) -> None:
    """Create a topic and write one record to each partition; waits for a broker that starts."""
    request = frames.create_topic(name, partitions)

    def create(connection: Connection) -> int:
        error = frames.create_topic_error(connection.ask(request))
        return 0 if error == frames.TOPIC_ALREADY_EXISTS else error

    when_up(port, create)
    for partition in range(partitions):
        write_one(port, name, partition)


def write_one(port: int, topic: str, partition: int = 0, within_s: float = READY_TIMEOUT_S) -> None:
    """Have one record acknowledged; waits for the broker and for the partition's leader."""
    request = frames.produce(topic, partition, frames.Batch(100, 1).encode())
    error_at = frames.produce_error_at(topic) - 4
    when_up(port, lambda connection: _unpack_code(connection.ask(request), error_at)[0], within_s)


def create_topics(port: int, names: Sequence[str], partitions: int) -> None:
    """Create topics in one request; RuntimeError with an error code."""
    with Connection(port) as connection:
        answer = connection.ask(frames.create_topics(names, partitions))
        errors = frames.create_topics_errors(answer)
    if len(errors) != len(names) or any(errors):
        raise RuntimeError(f"topics could not be created: errors {errors}")


def alter_configs(port: int, kind: int, name: str, configs: Mapping[str, str]) -> None:
    """Set configs; RuntimeError with the broker's error code."""
    with Connection(port) as connection:
        answer = connection.ask(frames.alter_configs(kind, name, configs))
        error = frames.alter_configs_error(answer)
    if error:
        raise RuntimeError(f"the configs of {name or 'all brokers'} were not set: error {error}")


def end_offset(port: int, topic: str) -> int:
    """Where the next record of partition 0 goes."""
    with Connection(port) as connection:
        return frames.listed_offset(connection.ask(frames.list_end_offset(topic)))


def write_each(port: int, topic: str, partitions: int, batch: bytes, within_s: float) -> None:
    """Have one batch acknowledged in each partition; waits for their leaders."""
    request = frames.produce_each(topic, partitions, batch)

    def write(connection: Connection) -> int:
        errors = frames.produce_each_errors(connection.ask(request), topic)
        return max(errors, key=abs) if len(errors) == partitions else -1

    when_up(port, write, within_s)


def delete_topic(port: int, name: str) -> None:
    """Delete a topic; RuntimeError with the broker's error code."""
    with Connection(port) as connection:
        error = frames.delete_topic_error(connection.ask(frames.delete_topic(name)))
    if error:
        raise RuntimeError(f"topic {name} could not be deleted: error {error}")


class Closed(NamedTuple):
    """A closed loop's outcome: requests answered, latencies in ns (empty where not taken)."""

    requests: int
    latencies_ns: list[int]


def one_at_a_time(connection: Connection, request: bytes, topic: str, seconds: float) -> Closed:
    """Send a Produce to `topic`, wait for its answer, again, for `seconds`.

    The answer must fit one read, as that for one partition does. RuntimeError on an error code.
    """
    send, receive = connection.socket.sendall, connection.socket.recv_into
    answer, error_at = bytearray(4096), frames.produce_error_at(topic)
    latencies: list[int] = []
    note, now_ns = latencies.append, time.perf_counter_ns
    end_ns = now_ns() + int(seconds * 1e9)
    sent = now_ns()
    while sent < end_ns:
        send(request)
        if not receive(answer):
            raise ConnectionError("the broker closed the connection")
        answered = now_ns()
        if answer[error_at] or answer[error_at + 1]:
            raise _refused(answer, error_at)
        note(answered - sent)
        sent = answered
    return Closed(len(latencies), latencies)


def one_each(
    connections: Sequence[Connection], requests: Sequence[bytes], topic: str, seconds: float
) -> Closed:
    """As `one_at_a_time`, on all connections at once."""
    answer, error_at = bytearray(4096), frames.produce_error_at(topic)
    latencies: list[int] = []
    note, now_ns = latencies.append, time.perf_counter_ns
    lines = {
        connection.socket.fileno(): (connection.socket.send, connection.socket.recv_into, request)
        for connection, request in zip(connections, requests, strict=True)
    }
    sent: dict[int, int] = {}
    with select.epoll() as poller:
        for connection in connections:
            connection.socket.setblocking(False)
            poller.register(connection.socket.fileno(), select.EPOLLIN)
        end_ns = now_ns() + int(seconds * 1e9)
        for descriptor, (send, _, request) in lines.items():
            sent[descriptor] = now_ns()
            send(request)
        while now_ns() < end_ns:
            for descriptor, _ in poller.poll(ANSWER_TIMEOUT_S):
                send, receive, request = lines[descriptor]
                if not receive(answer):
                    raise ConnectionError("the broker closed the connection")
                answered = now_ns()
                if answer[error_at] or answer[error_at + 1]:
                    raise _refused(answer, error_at)
                note(answered - sent[descriptor])
                sent[descriptor] = answered
                send(request)
    return Closed(len(latencies), latencies)


def keep_in_flight(
    connection: Connection,
    request: bytes,
    topic: str,
    *,
    in_flight: int,
    seconds: float,
    max_bytes: int,
) -> int:
    """Keep `in_flight` Produce requests unanswered on one socket; the number answered.

    Ends after `seconds` or `max_bytes` of requests, and with every request answered. RuntimeError
    on an error code.
    """
    send, receive = connection.socket.sendall, connection.socket.recv_into
    size, error_at = frames.produce_answer_bytes(topic), frames.produce_error_at(topic)
    buffer = bytearray(size * in_flight)
    view = memoryview(buffer)
    have = done = flying = 0
    may_send = max_bytes // len(request)
    now_s = time.monotonic
    end_s = now_s() + seconds
    while True:
        while flying < in_flight and may_send > 0:
            send(request)
            flying += 1
            may_send -= 1
        if not flying:
            return done
        got = receive(view[have:])
        if not got:
            raise ConnectionError("the broker closed the connection")
        have += got
        whole = have // size
        for at in range(error_at, whole * size, size):
            if buffer[at] or buffer[at + 1]:
                raise _refused(buffer, at)
        rest = have - whole * size
        if rest:
            buffer[:rest] = buffer[whole * size : have]
        have = rest
        done += whole
        flying -= whole
        if now_s() > end_s:
            may_send = 0


class Fetched(NamedTuple):
    """Record bytes and requests of a fetch loop."""

    record_bytes: int
    requests: int


def fetch_all(
    connection: Connection, topic: str, *, batch: frames.Batch, offsets: range, seconds: float
) -> Fetched:
    """Read `offsets` of partition 0 again and again, one Fetch at a time, for `seconds`.

    Every batch in there must be like `batch`: then the next offset follows from the number of
    bytes, which is checked at the last whole batch of each answer.
    """
    request = frames.FetchRequest(topic, 0, max_wait_ms=500, partition_max_bytes=1 << 20)
    batch_bytes = len(batch.encode())
    end_s = time.monotonic() + seconds
    record_bytes, requests, offset = 0, 0, offsets.start
    while time.monotonic() < end_s:
        records = frames.fetched_records(connection.ask(request.at(offset)))
        whole = len(records) // batch_bytes
        if not whole:
            raise RuntimeError(f"no whole batch in {len(records)} bytes from offset {offset}")
        last = frames.base_offset(records[(whole - 1) * batch_bytes :])
        if last != offset + (whole - 1) * batch.records:
            raise RuntimeError(f"batch at offset {last} where another was due, from {offset}")
        record_bytes += len(records)
        requests += 1
        offset += whole * batch.records
        if offset >= offsets.stop:
            offset = offsets.start
    return Fetched(record_bytes, requests)


def _refused(answer: bytearray, error_at: int) -> RuntimeError:
    return RuntimeError(f"Produce answered error {_unpack_code(answer, error_at)[0]}")
