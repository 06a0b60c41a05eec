"""A short way for the request that producers send over and over; and, in
`heartbeat_fast_path`, for members'.

A producer's Produce requests for one partition differ in nothing but correlation id and records.
Once such a request has gone the general way (`dispatch`, `handlers.produce`), its bytes around
the records are remembered, with what they were decoded to and an answer to fill in; the next one
with the same bytes is checked and appended without being decoded, and answered without being
encoded. It takes half the time, and what is asked and checked is the same: whatever is unusual
about a request, or goes wrong before anything is appended, sends it the general way.

`tests/unit/server/connections/test_produce_fast_path.py` holds both ways to the same
answers and the same logs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kavka.server.auth.authorizer import Operation, ResourceType
from kavka.server.broker import Broker
from kavka.server.replica.batch_admission import ALL, UNUSUAL, check, codec_max
from kavka.server.replica.partition_state import NEVER
from kavka.server.replica.replica import Replica
from kavka.server.request.context import RequestContext
from kavka.server.request.stats import Tally
from kavka.wire.apis.produce import (
    API,
    BATCHES_SINCE,
    PartitionResponse,
    ProduceResponse,
    TopicResponse,
)
from kavka.wire.codec.frames import encode_response
from kavka.wire.errors import ApiError
from kavka.wire.records import LENGTH_PREFIX_BYTES, TRANSACTIONAL, BatchHeader

if TYPE_CHECKING:
    from kavka.log.txn_guards import Guard
    from kavka.server.connections.heartbeat_fast_path import FastHeartbeat
    from kavka.wire.apis.heartbeat import HeartbeatResponse

LAYOUTS_MAX: Final = 8
"""Layouts remembered per connection, a few hundred bytes each; a further one takes the place of one
that was not used lately, or goes the general way."""

_FLEXIBLE_TRAILER: Final = b"\0\0\0"
"""Empty tagged sections of partition, topic and request, behind the records (KIP-482)."""

_LOG_START_SINCE: Final = 5
_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC
_TRANSACTIONS: Final = ResourceType.TRANSACTIONAL_ID
_unpack_length: Final = struct.Struct(">i").unpack_from


class FastProduce:
    """One remembered request: its bytes without correlation id and records, and its answer."""

    __slots__ = (
        "acks",
        "answer",
        "codec_max",
        "confirm",
        "context",
        "end",
        "fill",
        "fill_at",
        "flexible",
        "head",
        "middle",
        "name",
        "replica",
        "tally",
        "transactional_id",
        "unusual",
        "used",
        "with_log_start",
    )

    def __init__(
        self,
        context: RequestContext,
        request: Any,
        frame: memoryview,
        replica: Replica,
        tally: Tally,
    ) -> None:
        topic = request.topic_data[0]
        partition = topic.partition_data[0]
        self.context = context
        self.used = True
        """Whether it has been since the last search for one to be forgotten."""
        self.acks: int = request.acks
        self.codec_max = codec_max(context.version)
        self.name: str = replica.log.topic
        self.replica = replica
        self.tally = tally
        self.transactional_id: str | None = request.transactional_id
        self.unusual = UNUSUAL if self.transactional_id is not None else UNUSUAL | TRANSACTIONAL
        self.flexible = API.is_flexible(context.version)
        self.end = _records_length_at(frame, len(partition.records), self.flexible)
        self.head = bytes(frame[:4])  # API key and version
        self.middle = bytes(frame[8 : self.end])
        self._prepare_answer(topic.name, topic.topic_id, partition.index)
        if self.transactional_id is not None:
            # not before there are any
            from kavka.server.handlers.common.transaction_verification import guard_at_once

            self.confirm = guard_at_once

    def _prepare_answer(self, name: str, topic_id: UUID | None, index: int) -> None:
        """Encode an answer once, and find where its offsets are."""
        offsets = (0x0101010101010101, 0x0202020202020202, 0x0303030303030303)
        partition = PartitionResponse(index, 0, *offsets)
        response = ProduceResponse([TopicResponse(name, topic_id, [partition])])
        answer: bytearray = encode_response(API, self.context.version, 0, response)[0]
        self.with_log_start = self.context.version >= _LOG_START_SINCE
        fields = struct.Struct(">qqq" if self.with_log_start else ">qq")
        self.fill_at = answer.index(fields.pack(*offsets[: fields.size // 8]))
        self.fill = fields.pack_into
        self.answer = answer


def _records_length_at(frame: memoryview, size: int, flexible: bool) -> int:
    """Where the records' own length begins in the frame of a request for one partition."""
    if not flexible:
        return len(frame) - size - 4
    length_bytes = max(1, ((size + 1).bit_length() + 6) // 7)
    return len(frame) - len(_FLEXIBLE_TRAILER) - size - length_bytes


class Shortcut:
    """The remembered layouts of one connection."""

    __slots__ = ("_beat", "_broker", "_layouts")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._layouts: list[FastProduce] = []
        self._beat: FastHeartbeat | None = None

    def learn(
        self, context: RequestContext, request: Any, answer: ProduceResponse, frame: memoryview
    ) -> None:
        """Remember a request that has just gone the general way, if it can go the short one.

        Only what was accepted is remembered: acks, topic and leader were found right then, and
        what of that can change is asked again each time.
        """
        if context.version < BATCHES_SINCE:
            return
        topics = request.topic_data
        if len(topics) != 1 or len(topics[0].partition_data) != 1:
            return
        if answer.responses[0].partition_responses[0].error_code:
            return
        partition = topics[0].partition_data[0]
        name = topics[0].name or self._broker.metadata.image.names_by_id.get(topics[0].topic_id)
        replica = None if name is None else self._broker.replicas.find(name, partition.index)
        if replica is None or replica.rules.for_every_batch or not self._has_room():
            return
        tally = self._broker.requests.of(API).remembered[context.version]
        layout = FastProduce(context, request, frame, replica, tally)
        if self._records_of(layout, frame) is not None:
            self._layouts.append(layout)

    def _has_room(self) -> bool:
        """Whether one more may be remembered. Partitions that are not led here any more (deleted
        ones, too) are forgotten first, then one that was not used since the last time that room
        was wanted."""
        if len(self._layouts) < LAYOUTS_MAX:
            return True
        self._layouts = [one for one in self._layouts if one.replica.partition.is_leader]
        for layout in self._layouts:
            if not layout.used:
                self._layouts.remove(layout)
                break
            layout.used = False
        return len(self._layouts) < LAYOUTS_MAX

    def learn_beat(
        self,
        context: RequestContext,
        request: Any,
        answer: HeartbeatResponse,
        frame: memoryview,
    ) -> None:
        """Remember a Heartbeat that has just gone the general way, the latest only: a client is in
        one group at a time. One that hears of an error is there no more, or not for long."""
        if answer.error_code:
            self._beat = None
            return
        # not before there are groups: see `kavka.server.runtime.lazy_imports`
        from kavka.server.connections.heartbeat_fast_path import remembered

        self._beat = remembered(self._broker, context, request, frame)

    def answer(self, frame: memoryview) -> bytes | bytearray | None:
        """Do what a request asks that is remembered, and answer it; None: it must go the general
        way, and nothing has been appended."""
        for layout in self._layouts:
            records = self._records_of(layout, frame)
            if records is not None:
                return self._append(layout, frame, records)
        return None if self._beat is None else self._beat.answer(frame)

    def _records_of(self, layout: FastProduce, frame: memoryview) -> memoryview | None:
        """The records, if all around them is as remembered."""
        end = layout.end
        if frame[8:end] != layout.middle or frame[:4] != layout.head:
            return None
        if not layout.flexible:
            if len(frame) < end + 4:
                return None
            start = end + 4
            size = _unpack_length(frame, end)[0]
            return frame[start:] if size == len(frame) - start else None
        return _flexible_records(frame, end)

    def _append(
        self, layout: FastProduce, frame: memoryview, records: memoryview
    ) -> bytearray | None:
        broker, replica, context = self._broker, layout.replica, layout.context
        tally = layout.tally
        layout.used = True
        started_s = 0.0 if tally.left else broker.requests.now_s()
        partition = replica.partition
        if not partition.is_leader or replica.offline:
            self._layouts.remove(layout)
            return None
        if not broker.authorizer.allows(context, _WRITE, _TOPIC, layout.name):
            return None
        name = layout.transactional_id
        if name is not None and not broker.authorizer.allows(context, _WRITE, _TRANSACTIONS, name):
            return None
        if partition.flush_after != NEVER or (layout.acks == ALL and len(partition.isr) > 1):
            return None  # the answer may have to wait
        if not broker.quotas.unlimited:
            return None  # the answer may have to say how long to be quiet
        try:
            header = check(replica, records, layout.acks, layout.codec_max)
            if header.batch_length + LENGTH_PREFIX_BYTES != len(records):
                return None  # part of a batch follows it
            if (
                header.max_timestamp > replica.inspect_newer_than_ms
                or header.attributes & layout.unusual
            ):
                if replica.rules.for_every_batch:
                    self._layouts.remove(layout)
                return None  # to be looked at more closely
            guard = None
            if name is not None and not _needs_no_word(replica, header):
                guard = self._confirmed(layout, name, header)
                if guard is None:
                    return None
            appended = replica.append(records, header, guard)
        except ApiError:
            return None  # nothing was appended; the general way finds the same and says so
        answer = layout.answer[:]
        answer[4:8] = frame[4:8]  # the correlation id
        base, _, append_time_ms, _ = appended
        if layout.with_log_start:
            layout.fill(answer, layout.fill_at, base, append_time_ms, replica.log.start_offset)
        else:
            layout.fill(answer, layout.fill_at, base, append_time_ms)
        if tally.left:
            tally.left -= 1
        else:
            broker.requests.timed_at_once(tally, context, started_s, frame, answer)
        return answer

    def _confirmed(self, layout: FastProduce, name: str, header: BatchHeader) -> Guard | None:
        """What is to be shown with the first batch of a transaction here, if its coordinator can
        say at once that it belongs there."""
        return layout.confirm(self._broker, layout.replica, name, layout.context.version, header)


def _needs_no_word(replica: Replica, header: BatchHeader) -> bool:
    """Whether a transaction's coordinator has nothing to say on a batch: it is not the first of a
    transaction here."""
    if not header.attributes & TRANSACTIONAL:
        return True
    entry = replica.log.producers.get(header.producer_id)
    return entry is not None and entry.is_in_transaction(header.producer_epoch)


def _flexible_records(frame: memoryview, position: int) -> memoryview | None:
    """Compact records from `position` on, with nothing behind them but empty tagged sections."""
    size = shift = 0
    while True:
        if position >= len(frame) or shift > 28:
            return None
        byte = frame[position]
        position += 1
        size |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    end = position + size - 1
    if size == 0 or bytes(frame[end:]) != _FLEXIBLE_TRAILER:
        return None
    return frame[position:end]
