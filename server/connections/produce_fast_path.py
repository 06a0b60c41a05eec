"""Fast path for the Produce request that a producer sends over and over (for Heartbeat see
`heartbeat_fast_path`).

A producer's requests for one partition differ only in correlation id and records. Once such a
request has taken the general path (`dispatch`, `handlers.produce`), its bytes around the records
are remembered, with their decoded fields and an encoded response to fill in. The next one with
the same bytes is validated and appended without decoding the request or encoding the response,
which halves the time. The checks are the same: an unusual request, or one that fails before the
append, takes the general path.

`tests/unit/server/connections/test_produce_fast_path.py` checks that both paths give the same
responses and the same logs.
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
"""Layouts remembered per connection, a few hundred bytes each; a further one evicts one that was
not used lately, or else is not remembered."""

_FLEXIBLE_TRAILER: Final = b"\0\0\0"
"""Empty tagged sections of partition, topic and request, behind the records (KIP-482)."""

_LOG_START_SINCE: Final = 5
_WRITE: Final = Operation.WRITE
_TOPIC: Final = ResourceType.TOPIC
_TRANSACTIONS: Final = ResourceType.TRANSACTIONAL_ID
_unpack_length: Final = struct.Struct(">i").unpack_from


class FastProduce:
    """The layout of one remembered request: its bytes without correlation id and records, and its
    encoded response."""

    __slots__ = (
        "acks",
        "answer",
        "codec_max",
        "verify",
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
        """Whether it was used since the last search for a layout to evict."""
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
            # lazy import: not before there are transactions
            from kavka.server.handlers.common.transaction_verification import guard_without_waiting

            self.verify = guard_without_waiting

    def _prepare_answer(self, name: str, topic_id: UUID | None, index: int) -> None:
        """Encode a response once, and find the position of its offsets."""
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
    """Position of the records' length field in the frame of a request for one partition."""
    if not flexible:
        return len(frame) - size - 4
    length_bytes = max(1, ((size + 1).bit_length() + 6) // 7)
    return len(frame) - len(_FLEXIBLE_TRAILER) - size - length_bytes


class FastPath:
    """The remembered requests of one connection."""

    __slots__ = ("_heartbeat", "_broker", "_layouts")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._layouts: list[FastProduce] = []
        self._heartbeat: FastHeartbeat | None = None

    def remember_produce(
        self, context: RequestContext, request: Any, answer: ProduceResponse, frame: memoryview
    ) -> None:
        """Remember a request that has just taken the general path, if the fast path can serve it.

        It must have succeeded, so its acks, topic and leader were valid; those of the checks whose
        outcome may change are repeated for each request.
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
        tally = self._broker.requests.of(API).fast_path_tallies[context.version]
        layout = FastProduce(context, request, frame, replica, tally)
        if self._records_of(layout, frame) is not None:
            self._layouts.append(layout)

    def _has_room(self) -> bool:
        """Whether one more may be remembered. Evicts the layouts of partitions that this broker no
        longer leads (or that were deleted) first, then one not used since the last call that
        found the list full."""
        if len(self._layouts) < LAYOUTS_MAX:
            return True
        self._layouts = [one for one in self._layouts if one.replica.partition.is_leader]
        for layout in self._layouts:
            if not layout.used:
                self._layouts.remove(layout)
                break
            layout.used = False
        return len(self._layouts) < LAYOUTS_MAX

    def remember_heartbeat(
        self,
        context: RequestContext,
        request: Any,
        answer: HeartbeatResponse,
        frame: memoryview,
    ) -> None:
        """Remember a Heartbeat that has just taken the general path; only the latest, as a client
        is in one group at a time. After an error forget it: the member is leaving or rejoining."""
        if answer.error_code:
            self._heartbeat = None
            return
        # lazy import, not before there are groups: see `kavka.server.runtime.lazy_imports`
        from kavka.server.connections.heartbeat_fast_path import remember

        self._heartbeat = remember(self._broker, context, request, frame)

    def answer(self, frame: memoryview) -> bytes | bytearray | None:
        """Carry out a remembered request and return its response; None: nothing was appended, and
        the request must take the general path."""
        for layout in self._layouts:
            records = self._records_of(layout, frame)
            if records is not None:
                return self._append(layout, frame, records)
        return None if self._heartbeat is None else self._heartbeat.answer(frame)

    def _records_of(self, layout: FastProduce, frame: memoryview) -> memoryview | None:
        """The request's records, if all bytes around them are the remembered ones."""
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
            return None  # the response may have to wait
        if not broker.quotas.unlimited:
            return None  # the response may need a throttle time
        try:
            header = check(replica, records, layout.acks, layout.codec_max)
            if header.batch_length + LENGTH_PREFIX_BYTES != len(records):
                return None  # more bytes follow the batch
            if (
                header.max_timestamp > replica.inspect_newer_than_ms
                or header.attributes & layout.unusual
            ):
                if replica.rules.for_every_batch:
                    self._layouts.remove(layout)
                return None  # needs the general path's further validation
            guard = None
            if name is not None and not _is_verified(replica, header):
                guard = self._verify(layout, name, header)
                if guard is None:
                    return None
            appended = replica.append(records, header, guard)
        except ApiError:
            return None  # nothing was appended; the general path responds with the same error
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
            broker.requests.count_fast_path(tally, context, started_s, frame, answer)
        return answer

    def _verify(self, layout: FastProduce, name: str, header: BatchHeader) -> Guard | None:
        """The guard to append a transaction's first batch here with, if its coordinator can verify
        the partition without waiting (KIP-890)."""
        return layout.verify(self._broker, layout.replica, name, layout.context.version, header)


def _is_verified(replica: Replica, header: BatchHeader) -> bool:
    """Whether a batch needs no verification by the transaction coordinator: it is not the first
    of its transaction here."""
    if not header.attributes & TRANSACTIONAL:
        return True
    entry = replica.log.producers.get(header.producer_id)
    return entry is not None and entry.is_in_transaction(header.producer_epoch)


def _flexible_records(frame: memoryview, position: int) -> memoryview | None:
    """The compact records at `position`, if only empty tagged sections follow them."""
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
