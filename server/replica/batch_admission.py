"""Batches before they are appended: checked, and rewritten where their topic asks for that.

Nearly every batch is appended as it came: its header and its CRC are checked, and one number of
its replica (`Replica.inspect_newer_than_ms`) shows that its topic asks for no more. Otherwise the
records may have to be opened: for keys on compacted topics, for timestamps out of bounds, for
another codec. Small batches are opened on the loop, within a budget for each request
(`InlineBudget`). The others are awaited: they are inflated and compressed in threads, and their
records are read in slices. The connection that sent the batch handles nothing else until it is
appended (`RequestContext.applied`): nothing overtakes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.server.replica.batch_opening import RECORDS_PER_STEP, BatchOpener
from kavka.server.replica.record_rules import RecordCheck, RecordRules
from kavka.server.replica.replica import Replica
from kavka.wire import compression
from kavka.wire.apis.produce import BATCHES_SINCE
from kavka.wire.compressing import compress
from kavka.wire.compression import Bytes, Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.inflating import INFLATED_RATIO, JOB_BYTES_MIN, decompress_in_thread
from kavka.wire.message_set import is_batch
from kavka.wire.record_batches import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    LZ4,
    ZSTD,
    BatchHeader,
    check_batch,
    read_header,
)
from kavka.wire.rewriting import rebuild, renumbered, set_times
from kavka.wire.steps import Steps, Wait

ALL: Final = -1
"""`acks=all`: all replicas in sync."""

COMPRESSED_AT_ONCE_BYTES: Final = 16 * 1024
"""Bytes of one request that are compressed on the loop: at 20 ns a byte in gzip, a third of a
millisecond. In zstd at its highest level it is ten times that."""

UNUSUAL: Final = LOG_APPEND_TIME
"""Attributes of batches that are always inspected."""

_ZSTD_SINCE: Final = 7
_OF_NOTHING: Final = read_header(bytes(HEADER_BYTES))


class Prepared(NamedTuple):
    """A batch as it is to be appended."""

    batch: memoryview
    header: BatchHeader
    converted: bool = False
    """Whether it came in another codec, or as a message set."""


class InlineBudget:
    """How much of the batches of one request may still be opened on the loop. The rest is awaited,
    and is read from bytes that stay valid: those that `own` returns."""

    __slots__ = ("compressed_bytes", "inflated_bytes", "message_sets", "own", "records")

    def __init__(self, own: Callable[[memoryview], memoryview]) -> None:
        self.own = own
        """Keeps bytes of the request valid until it is applied: returns them, or a copy."""
        self.compressed_bytes = COMPRESSED_AT_ONCE_BYTES
        """Uncompressed size of what may still be compressed."""
        self.inflated_bytes = JOB_BYTES_MIN * INFLATED_RATIO
        self.message_sets = 1
        self.records = RECORDS_PER_STEP


class PendingBatch:
    """A batch that has still to be opened, in threads and slices; `finish` does it, once."""

    __slots__ = ("_steps", "_wait")

    def __init__(self, steps: Steps[Prepared], wait: Wait) -> None:
        self._steps = steps
        self._wait = wait

    async def finish(self, opener: BatchOpener) -> Prepared:
        """The batch as it is to be appended. ApiError, or RecordsRefused: see `prepare`."""
        return await opener.finish(self._steps, self._wait)


def codec_max(version: int) -> int:
    """The highest compression codec that a request of this version may use (KIP-110)."""
    # versions before magic 2 were never checked for it: a batch in one of them may use any codec
    return LZ4 if BATCHES_SINCE <= version < _ZSTD_SINCE else ZSTD


def check(replica: Replica, records: memoryview, acks: int, codec: int) -> BatchHeader:
    """The header of a batch that may be appended as it is, unless it has to be inspected: with
    UNUSUAL attributes, or newer than `replica.inspect_newer_than_ms`. ApiError."""
    settings = replica.log.settings
    header = check_batch(records, codec, settings.max_message_bytes)
    if acks == ALL and len(replica.partition.isr) < settings.min_insync_replicas:
        check_in_sync(replica)
    return header


def check_in_sync(replica: Replica) -> None:
    """ApiError NOT_ENOUGH_REPLICAS if fewer replicas are in sync than `min.insync.replicas`."""
    partition = replica.partition
    if len(partition.isr) < partition.effective_min_isr:
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)


def prepare(
    replica: Replica, records: memoryview, version: int, acks: int, budget: InlineBudget
) -> Prepared | PendingBatch:
    """The batch to append for the records that a client sent in a request of this version.

    ApiError, or RecordsRefused, if nothing may be appended; `PendingBatch.finish` raises them too.
    An empty batch is not to be appended: an old request may have no record.
    """
    if version < BATCHES_SINCE and not is_batch(records):
        sent = budget.own(records)
        return begin(_from_message_set(replica, sent, acks, budget))
    header = check(replica, records, acks, codec_max(version))
    if header.batch_length + LENGTH_PREFIX_BYTES != len(records):
        records = records[: header.size]
    if header.max_timestamp <= replica.inspect_newer_than_ms and not header.attributes & UNUSUAL:
        return Prepared(records, header)
    now_ms = replica.clock.now_ms()
    rules = replica.rules
    if not rules.for_every_batch:
        replica.inspect_newer_than_ms = now_ms + rules.after_max_ms
        if header.max_timestamp <= replica.inspect_newer_than_ms and not _is_flagged(header):
            return Prepared(records, header)
    prepared = _rewrite_inline(replica, rules, records, header, now_ms, budget)
    if isinstance(prepared, Prepared):
        return prepared
    rest = _rewrite(replica, rules, budget.own(records), header, now_ms, prepared)
    return PendingBatch(rest, None)


def begin(steps: Steps[Prepared]) -> Prepared | PendingBatch:
    """Run `steps`; the result, if they don't yield."""
    try:
        wait = next(steps)
    except StopIteration as end:
        prepared: Prepared = end.value
        return prepared
    return PendingBatch(steps, wait)


def _is_flagged(header: BatchHeader) -> bool:
    return bool(header.attributes & LOG_APPEND_TIME)


def _from_message_set(
    replica: Replica, sent: memoryview, acks: int, budget: InlineBudget
) -> Steps[Prepared]:
    """Convert a message set of an old producer into a batch, and inspect that."""
    if acks == ALL:
        check_in_sync(replica)
    rules = replica.rules
    if not budget.message_sets:
        yield None
    budget.message_sets = 0
    from kavka.wire.up_conversion import (
        up_convert,  # imported late: today's clients send no message sets
    )

    converted = yield from up_convert(
        sent,
        bytes_max=replica.log.settings.max_message_bytes,
        codec=rules.codec,
        level=rules.level,
    )
    batch = memoryview(converted)
    if not batch:
        return Prepared(batch, _OF_NOTHING)
    header, now_ms = read_header(batch), replica.clock.now_ms()
    rewritten = _rewrite_inline(replica, rules, batch, header, now_ms, budget)
    if not isinstance(rewritten, Prepared):
        rewritten = yield from _rewrite(replica, rules, batch, header, now_ms, rewritten)
    return rewritten._replace(converted=True)


def _rewrite_inline(
    replica: Replica,
    rules: RecordRules,
    records: memoryview,
    header: BatchHeader,
    now_ms: int,
    budget: InlineBudget,
) -> Prepared | Bytes | None:
    """Check and rewrite one batch of magic 2. If that takes too long for the loop, the batch is
    left as it is: the result is its inflated records, or None, for `_rewrite` to go on with.

    A plain function, not a generator, so that it can't keep a view of the request for later.
    """
    codec = header.compression
    target = codec if rules.codec is None else rules.codec
    newest, batch = header.max_timestamp, records
    if _is_checked(rules, header, now_ms):
        payload = _inflate_at_once(header, records, budget)
        if payload is None:
            return None
        if target not in (codec, Codec.NONE) and len(payload) > budget.compressed_bytes:
            return None if codec == Codec.NONE else payload
        check = _checking(replica, rules, header, payload, now_ms)
        if not check.step(RECORDS_PER_STEP):
            return None
        newest = check.newest
        if target == codec:
            _check_offsets(check, codec)
        else:
            if not check.consecutive:
                return None if codec == Codec.NONE else payload
            budget.compressed_bytes -= len(payload) if target else 0
            packed = compress(target, payload, rules.level(target)) if target else payload
            batch, header = _rebuilt(replica, header, target, packed)
    return _timed(replica, rules, batch, header, newest, target != codec)


def _rewrite(
    replica: Replica,
    rules: RecordRules,
    batch: memoryview,
    header: BatchHeader,
    now_ms: int,
    payload: Bytes | None,
) -> Steps[Prepared]:
    """The same in slices and threads, for a batch whose records have to be checked. Its bytes must
    stay valid meanwhile: see `InlineBudget.own`."""
    codec = header.compression
    target = codec if rules.codec is None else rules.codec
    if payload is None:
        payload = yield from _inflate(codec, batch[HEADER_BYTES:])
    check = _checking(replica, rules, header, payload, now_ms)
    while not check.step(RECORDS_PER_STEP):
        yield None
    newest = check.newest
    if target == codec:
        _check_offsets(check, codec)
    elif not check.consecutive:
        payload = yield from renumbered(payload, header.record_count)
    if target != codec:
        packed = payload
        if target != Codec.NONE:
            packed = yield compress, target, payload, rules.level(target)
        batch, header = _rebuilt(replica, header, target, packed)
    return _timed(replica, rules, batch, header, newest, target != codec)


def _is_checked(rules: RecordRules, header: BatchHeader, now_ms: int) -> bool:
    """Whether each of the records has to be checked: this broker computes no CRC over records that
    it has not checked."""
    return (
        rules.codec not in (None, header.compression)
        or rules.keyed
        or rules.dated
        or _is_flagged(header)
        or not (rules.append_time or header.max_timestamp <= now_ms + rules.after_max_ms)
    )


def _check_offsets(check: RecordCheck, codec: int) -> None:
    """ApiError if the offsets in a compressed batch that keeps its codec do not count from 0 on, as
    in Apache Kafka, which does not check those in uncompressed ones."""
    if codec and not check.consecutive:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "offsets do not count from 0 on")


def _rebuilt(
    replica: Replica, header: BatchHeader, codec: int, packed: Bytes
) -> tuple[memoryview, BatchHeader]:
    """The batch with its records in another codec. ApiError if it has become too big."""
    _check_size(replica, HEADER_BYTES + len(packed))
    batch = rebuild(header, codec, packed)
    return batch, read_header(batch)


def _timed(
    replica: Replica,
    rules: RecordRules,
    batch: memoryview,
    header: BatchHeader,
    newest: int,
    converted: bool,
) -> Prepared:
    """The batch with its max timestamp set: that of its newest record, or now for LogAppendTime."""
    if rules.append_time:
        # not the time when it came: batches are appended in the order of these times
        newest = replica.clock.now_ms()
    header = set_times(batch, header, newest, append_time=rules.append_time)
    return Prepared(batch, header, converted)


def _check_size(replica: Replica, size: int) -> None:
    if size > replica.log.settings.max_message_bytes:
        bytes_max = replica.log.settings.max_message_bytes
        message = f"a recompressed batch of {size} bytes exceeds max.message.bytes={bytes_max}"
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, message)


def _inflate_at_once(header: BatchHeader, batch: memoryview, budget: InlineBudget) -> Bytes | None:
    """The inflated records; None if they are too many for the loop, or damaged, which `_rewrite`
    finds out."""
    codec, packed = header.compression, batch[HEADER_BYTES:]
    if header.record_count >= budget.records:  # a step of exactly so many does not reach the end
        return None
    most_bytes = JOB_BYTES_MIN if codec else COMPRESSED_AT_ONCE_BYTES
    if len(packed) > min(most_bytes, budget.inflated_bytes):
        return None
    try:
        payload = compression.decompress(codec, packed, budget.inflated_bytes)
    except ApiError:
        budget.inflated_bytes = 0  # bytes may have been inflated before it failed
        return None
    budget.inflated_bytes -= len(payload)
    budget.records -= header.record_count
    return payload


def _inflate(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The records, inflated in a thread. ApiError UNKNOWN_SERVER_ERROR if they can't be: Apache
    Kafka does not expect that, and its producers do not send such a batch again."""
    try:
        return (yield from decompress_in_thread(codec, packed))
    except ApiError as damage:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, damage.message) from damage


def _checking(
    replica: Replica, rules: RecordRules, header: BatchHeader, payload: Bytes, now_ms: int
) -> RecordCheck:
    """The check of a batch's records; its steps may raise RecordsRefused."""
    topic, index = replica.key
    return RecordCheck(rules, header, payload, now_ms=now_ms, where=f"{topic}-{index}")
