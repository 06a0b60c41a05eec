"""What becomes of a batch before it is appended: checked, and rewritten where its topic says so.

Nearly every batch is appended as it came: its header and its CRC are checked, and one number of
its replica (`Replica.looks_after_ms`) tells that its topic asks for no more. Otherwise the records
may have to be opened: for keys on compacted topics, for times out of bounds, for another codec.
What is small is done at once, so much of a request (`AtOnce`). The rest is awaited: inflating and
compressing in threads, walking through records in slices. The connection that sent the batch
handles nothing else until it is appended (`RequestContext.applied`): nothing overtakes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kavka.server.replica.batch_opening import RECORDS_PER_TURN, BatchOpener
from kavka.server.replica.record_rules import RecordCheck, Rules
from kavka.server.replica.replica import Replica
from kavka.wire import compression
from kavka.wire.apis.produce import BATCHES_SINCE
from kavka.wire.compressing import compress
from kavka.wire.compression import Bytes, Codec
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.inflating import INFLATED_RATIO, JOB_BYTES_MIN, inflate_in_thread
from kavka.wire.message_set import is_batch
from kavka.wire.records import (
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
from kavka.wire.steps import Job, Steps

ALL: Final = -1
"""The number of acks that stands for all replicas in sync."""

COMPRESSED_AT_ONCE_BYTES: Final = 16 * 1024
"""What is compressed on the loop: at 20 ns a byte in gzip, a third of a millisecond. In zstd at
its highest level it is ten times that."""

UNUSUAL: Final = LOG_APPEND_TIME
"""Attributes of batches that are looked at more closely."""

_ZSTD_SINCE: Final = 7
_OF_NOTHING: Final = read_header(bytes(HEADER_BYTES))


class Prepared(NamedTuple):
    """A batch as it is to be appended."""

    batch: memoryview
    header: BatchHeader
    converted: bool = False
    """Whether it came in another codec, or as a message set."""


class AtOnce:
    """What of the batches of one request may still be opened on the loop; the rest is awaited, and
    is looked at in bytes that stay: what `own` says of them."""

    __slots__ = ("compressed_bytes", "inflated_bytes", "message_sets", "own", "records")

    def __init__(self, own: Callable[[memoryview], memoryview]) -> None:
        self.own = own
        """Bytes of the request for as long as it takes until it is applied."""
        self.compressed_bytes = COMPRESSED_AT_ONCE_BYTES
        """Of what is compressed, before."""
        self.inflated_bytes = JOB_BYTES_MIN * INFLATED_RATIO
        self.message_sets = 1
        self.records = RECORDS_PER_TURN


class Opening:
    """A batch that takes its time; to be finished, once."""

    __slots__ = ("_steps", "_wanted")

    def __init__(self, steps: Steps[Prepared], wanted: Job | None) -> None:
        self._steps = steps
        self._wanted = wanted

    async def finish(self, opener: BatchOpener) -> Prepared:
        """The batch as it is to be appended. ApiError, or RecordsRefused: see `prepare`."""
        return await opener.finish(self._steps, self._wanted)


def codec_max(version: int) -> int:
    """The highest compression codec that a request of this version may use (KIP-110)."""
    # before there were batches nobody looked: who sends one in so old a version may send any
    return LZ4 if BATCHES_SINCE <= version < _ZSTD_SINCE else ZSTD


def check(replica: Replica, records: memoryview, acks: int, codec: int) -> BatchHeader:
    """The header of a batch that may be appended as it is, unless it is one to look at more
    closely: with UNUSUAL attributes, or newer than `replica.looks_after_ms`. ApiError."""
    settings = replica.log.settings
    header = check_batch(records, codec, settings.max_message_bytes)
    if acks == ALL and len(replica.partition.isr) < settings.min_insync_replicas:
        check_in_sync(replica)
    return header


def check_in_sync(replica: Replica) -> None:
    """Refuse what all replicas in sync are to have while they are too few."""
    partition = replica.partition
    # a partition can't have more replicas in sync than it has (Apache Kafka's effectiveMinIsr)
    enough = min(replica.log.settings.min_insync_replicas, len(partition.replicas))
    if len(partition.isr) < enough:
        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)


def prepare(
    replica: Replica, records: memoryview, version: int, acks: int, at_once: AtOnce
) -> Prepared | Opening:
    """What is to be appended of the records that a client sent in a request of this version.

    ApiError, or RecordsRefused, says why nothing is; `Opening.finish` raises them too. An empty
    batch is not appended: an old request may hold none.
    """
    if version < BATCHES_SINCE and not is_batch(records):
        sent = at_once.own(records)
        return begin(_from_message_set(replica, sent, acks, at_once))
    header = check(replica, records, acks, codec_max(version))
    if header.batch_length + LENGTH_PREFIX_BYTES != len(records):
        records = records[: header.size]
    if header.max_timestamp <= replica.looks_after_ms and not header.attributes & UNUSUAL:
        return Prepared(records, header)
    now_ms = replica.clock.now_ms()
    rules = replica.rules
    if not rules.for_every_batch:
        replica.looks_after_ms = now_ms + rules.after_max_ms
        if header.max_timestamp <= replica.looks_after_ms and not _is_flagged(header):
            return Prepared(records, header)
    prepared = _look_at_once(replica, rules, records, header, now_ms, at_once)
    if isinstance(prepared, Prepared):
        return prepared
    rest = _look(replica, rules, at_once.own(records), header, now_ms, prepared)
    return Opening(rest, None)


def begin(steps: Steps[Prepared]) -> Prepared | Opening:
    """The outcome of `steps`, at once if they don't yield."""
    try:
        wanted = next(steps)
    except StopIteration as end:
        prepared: Prepared = end.value
        return prepared
    return Opening(steps, wanted)


def _is_flagged(header: BatchHeader) -> bool:
    return bool(header.attributes & LOG_APPEND_TIME)


def _from_message_set(
    replica: Replica, sent: memoryview, acks: int, at_once: AtOnce
) -> Steps[Prepared]:
    """Make a batch of what an old producer sent, and go on with that."""
    if acks == ALL:
        check_in_sync(replica)
    rules = replica.rules
    if not at_once.message_sets:
        yield None
    at_once.message_sets = 0
    from kavka.wire.up_conversion import up_convert  # clients of today send none

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
    looked_at = _look_at_once(replica, rules, batch, header, now_ms, at_once)
    if not isinstance(looked_at, Prepared):
        looked_at = yield from _look(replica, rules, batch, header, now_ms, looked_at)
    return looked_at._replace(converted=True)


def _look_at_once(
    replica: Replica,
    rules: Rules,
    records: memoryview,
    header: BatchHeader,
    now_ms: int,
    at_once: AtOnce,
) -> Prepared | Bytes | None:
    """Check and rewrite one batch of magic 2. If it takes too long for the loop nothing is done
    to it: the batch inflated is returned if that has been done, for `_look` to go on with.

    A plain function, so that no view of the request can be left to be looked at later.
    """
    codec = header.compression
    wanted = codec if rules.codec is None else rules.codec
    newest, batch = header.max_timestamp, records
    if _is_checked(rules, header, now_ms):
        payload = _inflate_at_once(header, records, at_once)
        if payload is None:
            return None
        if wanted not in (codec, Codec.NONE) and len(payload) > at_once.compressed_bytes:
            return None if codec == Codec.NONE else payload
        check = _checking(replica, rules, header, payload, now_ms)
        if not check.step(RECORDS_PER_TURN):
            return None
        newest = check.newest
        if wanted == codec:
            _check_offsets(check, codec)
        else:
            if not check.consecutive:
                return None if codec == Codec.NONE else payload
            at_once.compressed_bytes -= len(payload) if wanted else 0
            packed = compress(wanted, payload, rules.level(wanted)) if wanted else payload
            batch, header = _rebuilt(replica, header, wanted, packed)
    return _timed(replica, rules, batch, header, newest, wanted != codec)


def _look(
    replica: Replica,
    rules: Rules,
    batch: memoryview,
    header: BatchHeader,
    now_ms: int,
    payload: Bytes | None,
) -> Steps[Prepared]:
    """The same in slices and threads, for a batch whose records are to be checked. It stays as it
    is until then: see `AtOnce.own`."""
    codec = header.compression
    wanted = codec if rules.codec is None else rules.codec
    if payload is None:
        payload = yield from _inflate(codec, batch[HEADER_BYTES:])
    check = _checking(replica, rules, header, payload, now_ms)
    while not check.step(RECORDS_PER_TURN):
        yield None
    newest = check.newest
    if wanted == codec:
        _check_offsets(check, codec)
    elif not check.consecutive:
        payload = yield from renumbered(payload, header.record_count)
    if wanted != codec:
        packed = payload
        if wanted != Codec.NONE:
            packed = yield compress, wanted, payload, rules.level(wanted)
        batch, header = _rebuilt(replica, header, wanted, packed)
    return _timed(replica, rules, batch, header, newest, wanted != codec)


def _is_checked(rules: Rules, header: BatchHeader, now_ms: int) -> bool:
    """Whether each of the records is to be looked at: nothing gets a CRC of this broker's for what
    it has not seen."""
    return (
        rules.codec not in (None, header.compression)
        or rules.keyed
        or rules.dated
        or _is_flagged(header)
        or not (rules.append_time or header.max_timestamp <= now_ms + rules.after_max_ms)
    )


def _check_offsets(check: RecordCheck, codec: int) -> None:
    """ApiError if the offsets in a batch that stays as it is do not count from 0 on: Apache Kafka
    can't rebuild what it has only opened, and does not look at those in plain ones."""
    if codec and not check.consecutive:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "offsets do not count from 0 on")


def _rebuilt(
    replica: Replica, header: BatchHeader, codec: int, packed: Bytes
) -> tuple[memoryview, BatchHeader]:
    """The batch with other records. ApiError if it has become too big."""
    _check_size(replica, HEADER_BYTES + len(packed))
    batch = rebuild(header, codec, packed)
    return batch, read_header(batch)


def _timed(
    replica: Replica,
    rules: Rules,
    batch: memoryview,
    header: BatchHeader,
    newest: int,
    converted: bool,
) -> Prepared:
    """The batch with the newest time of its records, or of now where its topic asks for that."""
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


def _inflate_at_once(header: BatchHeader, batch: memoryview, at_once: AtOnce) -> Bytes | None:
    """The records; None if they are too much for the loop, or damaged, which is found out then."""
    codec, packed = header.compression, batch[HEADER_BYTES:]
    if header.record_count >= at_once.records:  # a turn of just so many is not the last one yet
        return None
    most_bytes = JOB_BYTES_MIN if codec else COMPRESSED_AT_ONCE_BYTES
    if len(packed) > min(most_bytes, at_once.inflated_bytes):
        return None
    try:
        payload = compression.decompress(codec, packed, at_once.inflated_bytes)
    except ApiError:
        at_once.inflated_bytes = 0  # it may have been inflated in vain
        return None
    at_once.inflated_bytes -= len(payload)
    at_once.records -= header.record_count
    return payload


def _inflate(codec: int, packed: memoryview) -> Steps[Bytes]:
    """The records, inflated in a thread. ApiError UNKNOWN_SERVER_ERROR if they can't be: Apache
    Kafka does not expect that, and its producers do not send such a batch again."""
    try:
        return (yield from inflate_in_thread(codec, packed))
    except ApiError as damage:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, damage.message) from damage


def _checking(
    replica: Replica, rules: Rules, header: BatchHeader, payload: Bytes, now_ms: int
) -> RecordCheck:
    """The check of records that may all be written, or RecordsRefused while it goes on."""
    topic, index = replica.key
    return RecordCheck(rules, header, payload, now_ms=now_ms, where=f"{topic}-{index}")
