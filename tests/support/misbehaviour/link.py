"""One client's connection through the proxy, and what happens to the requests on it."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from support.misbehaviour import produced
from support.misbehaviour.produced import Batch
from support.misbehaviour.weather import Fate, Weather

HELD_S_MAX = 0.03
"""How long a request waits for one that overtakes it."""
SILENT_S_MAX = 0.4
"""How long a client gets no answers before its connection breaks."""
LATE_S_MAX = 0.3
"""How late a straggler or a copy arrives."""
LATENCY_S = 0.003
"""Of each answer, so that several requests are in flight."""

_length = struct.Struct(">i")


@dataclass(slots=True, eq=False)
class Slot:
    """The place of an answer: a client gets answers in the order of its requests."""

    answer: bytes | None = None


@dataclass(slots=True, eq=False)
class Sent:
    """A request on its way to the broker; a copy that the client doesn't know of has no slot."""

    frame: bytes
    slot: Slot | None
    batches: tuple[Batch, ...] = ()
    comes_again: bool = False


class Link:
    """Ends by itself, when either side closes or its fate says so.

    Of what was sent every answer is awaited, for as long as the broker lives, even when the
    client is gone: only so it is known whether a request can still be appended.

    An answer with an error is never passed on while a copy of its batch is under way: the
    connection breaks instead. A producer that gets an error may send the same records again
    as another batch (Java's raises its epoch), and no log can recognise those as duplicates.
    """

    def __init__(
        self,
        weather: Weather,
        client: asyncio.StreamWriter,
        broker: asyncio.StreamWriter,
        send_later: Callable[[Sent], None],
    ) -> None:
        self._weather = weather
        self._client = client
        self._broker = broker
        self._send_later = send_later
        self._slots: deque[Slot] = deque()
        self._unanswered: deque[Sent] = deque()
        self._held: list[Sent] = []
        self._is_hung_up = False
        self._loop = asyncio.get_running_loop()

    async def run(self, client: asyncio.StreamReader, broker: asyncio.StreamReader) -> None:
        """Carry what comes in either direction."""
        requests = asyncio.create_task(self._take_all(client))
        while not self._is_idle() and (frame := await next_frame(broker)) is not None:
            self._answered(frame)
        self.hang_up()
        for sent in (*self._unanswered, *self._held):  # the broker is gone, and they with it
            self._weather.ends(sent.batches)
        self._held.clear()
        self._broker.close()
        await requests  # it has ended with the connection

    async def _take_all(self, client: asyncio.StreamReader) -> None:
        while (frame := await next_frame(client)) is not None and not self._is_hung_up:
            self._take(frame)
        self.hang_up()

    def _take(self, frame: bytes) -> None:
        slot = Slot()
        self._slots.append(slot)
        key, _ = produced.api_of(frame)
        if key != produced.PRODUCE:
            self._send(Sent(frame, slot))
            return
        sent = Sent(frame, slot, produced.batches_of(frame))
        self._weather.departs(sent.batches)
        self._weather.in_flight_max = max(self._weather.in_flight_max, len(self._slots))
        self._suffer(sent, self._weather.fate(sent.batches))

    def _suffer(self, sent: Sent, fate: Fate) -> None:
        weather, chance = self._weather, self._weather.chance
        if fate is Fate.OVERTAKEN:
            self._held.append(sent)
            self._loop.call_later(HELD_S_MAX, self._release)
            return
        if fate is Fate.LOST:
            weather.ends(sent.batches)
            self._loop.call_later(chance.uniform(0, SILENT_S_MAX), self.hang_up)
        elif fate is Fate.CUT:
            self._release()
            weather.ends(sent.batches)
            self._broker.write(framed(sent.frame)[: len(sent.frame) // 2])
            self._broker.write_eof()
            self.hang_up()
        elif fate is Fate.STRAGGLES:
            self._held.append(sent)
            self.hang_up()
            return
        else:
            sent.comes_again = fate is Fate.COMES_AGAIN
            if fate is Fate.ANSWER_LOST:
                sent.slot = None
                self._loop.call_later(chance.uniform(0, SILENT_S_MAX), self.hang_up)
            self._send(sent)
            if fate is Fate.DOUBLED:
                weather.departs(sent.batches)
                self._send(Sent(sent.frame, None, sent.batches))
        self._release()

    def _release(self) -> None:
        """Send what was held back."""
        held, self._held = self._held, []
        for sent in held:
            self._send(sent)

    def _send(self, sent: Sent) -> None:
        self._unanswered.append(sent)
        self._broker.write(framed(sent.frame))

    def _answered(self, frame: bytes) -> None:
        sent = self._unanswered.popleft()
        self._weather.ends(sent.batches)
        if sent.batches:
            errors = produced.errors_of(sent.frame, frame)
            self._weather.refusals.update(errors)
            if errors and not self._weather.tells_errors(sent.batches):
                self.hang_up()
            if sent.comes_again and not errors:
                self._weather.departs(sent.batches)
                self._send_later(Sent(sent.frame, None, sent.batches))
        if sent.slot is not None:
            sent.slot.answer = frame
            self._loop.call_later(LATENCY_S, self._deliver)

    def _deliver(self) -> None:
        """Give the client what answers there are, up to the first that is missing."""
        while not self._is_hung_up and self._slots and self._slots[0].answer is not None:
            self._client.write(framed(self._slots.popleft().answer or b""))

    def _is_idle(self) -> bool:
        return self._is_hung_up and not self._unanswered and not self._held

    def hang_up(self) -> None:
        """The client loses its connection. What it has sent may arrive late."""
        if self._is_hung_up:
            return
        self._is_hung_up = True
        self._client.close()
        late_s = self._weather.chance.uniform(0, LATE_S_MAX) if self._held else 0.0
        self._loop.call_later(late_s, self._end)

    def _end(self) -> None:
        self._release()
        if self._is_idle():
            self._broker.close()


async def next_frame(reader: asyncio.StreamReader) -> bytes | None:
    """What comes next; None where the other side has closed, also in the middle of a frame."""
    try:
        (size,) = _length.unpack(await reader.readexactly(_length.size))
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def framed(frame: bytes) -> bytes:
    """With its length in front."""
    return _length.pack(len(frame)) + frame
