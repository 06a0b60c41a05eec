"""Produce: what is appended and how it is acknowledged, and everything that is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from kavka.compat_tests.raw import old_producers, topic_rules
from kavka.compat_tests.raw.case import (
    NEVER_ANSWERED_S,
    Cases,
    Function,
    Ground,
    Script,
    Topic,
    Values,
)
from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    CODECS,
    LOG_APPEND_TIME,
    REFUSED,
    Written,
    around,
    build,
    build_legacy,
    patch,
    varint,
)
from kavka.compat_tests.raw.frames import add_frames, add_odd_names

CASES = Cases("Produce")

BATCHES_SINCE = 3
"""Before, there are message sets: see `old_producers`."""

T = Topic(kept=True)
TWO = Topic(partitions=2, kept=True)

UNKNOWN_ID = UUID(int=0x77777777)
READ_BACK = ("Fetch", 11)
TIMEOUT_MS = 5_000
TRANSACTIONAL = 0x10
CONTROL = 0x20
PRODUCER = 4_000_000


def of(name: str, topic_id: UUID | None, *partitions: tuple[int, Any]) -> Values:
    """One topic of a request; the version decides by what it is named."""
    data = [{"index": index, "records": _bytes(records)} for index, records in partitions]
    return {"name": name, "topic_id": topic_id, "partition_data": data}


def _bytes(records: Any) -> Any:
    return bytes(records) if isinstance(records, bytearray) else records


def producing(on: Ground, *records: Any, acks: int = -1, **more: Any) -> Values:
    """The first topic's partitions from 0 on get these records."""
    topics = [of(on.topic, on.topic_id, *enumerate(records))]
    return {"acks": acks, "timeout_ms": TIMEOUT_MS, "topic_data": topics, **more}


def sending(*records: Any, **more: Any) -> Function:
    return lambda on: producing(on, *records, **more)


def then_read(on: Ground, *requests: Values) -> Script:
    """The requests, and then what partition 0 holds, byte by byte."""
    for request in requests:
        yield on.ask(**request)
    yield reading(on)


def reading(on: Ground) -> Any:
    partition = {
        "partition": 0,
        "fetch_offset": 0,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": -1,
    }
    return on.other(
        *READ_BACK,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=0,
        session_epoch=-1,
        topics=[{"topic": on.topic, "partitions": [partition]}],
    )


def kept(*records: Any) -> Function:
    """What is sent, one request a batch, and how it then stands in the log."""
    return lambda on: then_read(on, *(producing(on, data) for data in records))


def add(
    name: str,
    function: Function,
    *,
    topics: Sequence[Topic] = (T,),
    since: int = BATCHES_SINCE,
    until: int | None = None,
) -> None:
    CASES.add(name, function, topics=topics, since=since, until=until)


add_frames(CASES, lambda on: producing(on, build()), topics=[T])
old_producers.add_cases(add, kept)
topic_rules.add_cases(add, kept, sending)

# -- what is appended -----------------------------------------------------------------------

MANY = [Written(key=b"%d" % n, value=b"v" * n, time_ms=n % 7) for n in range(40)]

for codec in CODECS:
    add(f"records in {codec}", kept(build(MANY, codec=codec), build(MANY, codec=codec)))

HEADERS = [Written(None, None, (("h", b"1"), ("", None), ("h", b""))), Written(b"", b"")]
add("headers, nulls and nothing", kept(build(HEADERS)))

for number in (-2, 1, 2, 7, 32767):
    add(f"acks {number}", sending(build(), acks=number))
    if number not in (1, -1):
        add(f"acks {number} to an unknown partition", sending(build(), build(), acks=number))

for timeout in (0, -1, -(2**31)):
    add(f"timeout {timeout}", sending(build(), timeout_ms=timeout))


@CASES.case(topics=[T])
def acks_0_is_answered_by_nothing(on: Ground) -> Script:
    yield on.ask(**producing(on, build(), acks=0), silent=True)
    yield reading(on)


@CASES.case(topics=[T])
def acks_0_to_an_unknown_partition(on: Ground) -> Script:
    yield on.ask(**producing(on, build(), build(), acks=0), silent=True)
    yield reading(on)


@CASES.case(topics=[T])
def acks_0_with_a_broken_batch(on: Ground) -> Script:
    yield on.ask(**producing(on, REFUSED["a wrong CRC"][0], acks=0), silent=True)


@CASES.case(topics=[T])
def acks_0_with_nothing_in_it(on: Ground) -> Script:
    yield on.ask(acks=0, timeout_ms=TIMEOUT_MS, topic_data=[], silent=True)


@CASES.case(topics=[T])
def no_topics(on: Ground) -> Values:
    return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": []}


@CASES.case(topics=[T])
def a_topic_without_partitions(on: Ground) -> Values:
    return producing(on)


@CASES.case(topics=[Topic(partitions=3, kept=True), Topic("other", kept=True)])
def several_topics_and_partitions(on: Ground) -> Values:
    topics = [
        of(on.topic, on.topic_id, (2, build()), (0, build())),
        of(on.name("other"), on.id("other"), (0, build())),
    ]
    return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": topics}


@CASES.case(topics=[TWO])
def one_bad_partition_among_good_ones(on: Ground) -> Script:
    yield from then_read(on, producing(on, build(), REFUSED["a flipped bit"][0], build()))


@CASES.case(topics=[T])
def a_partition_named_twice(on: Ground) -> Script:
    topics = [of(on.topic, on.topic_id, (0, build()), (0, build(MANY)))]
    yield from then_read(on, {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": topics})


@CASES.case(topics=[T])
def a_topic_named_twice(on: Ground) -> Script:
    topics = [of(on.topic, on.topic_id, (0, data)) for data in (build(), build(MANY))]
    yield from then_read(on, {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": topics})


@CASES.case(topics=[T])
def a_partition_named_twice_the_second_one_broken(on: Ground) -> Script:
    broken = REFUSED["a wrong CRC"][0]
    topics = [of(on.topic, on.topic_id, (0, build()), (0, broken))]
    yield from then_read(on, {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": topics})


# -- where there is nothing to append to ----------------------------------------------------


def elsewhere(name: str | None, index: int = 0, records: Any = None) -> Function:
    def case(on: Ground) -> Values:
        topic = of(
            on.unused("body") if name is None else name, UNKNOWN_ID, (index, records or build())
        )
        return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [topic]}

    return case


add("an unknown topic", elsewhere(None), topics=[])
add("an unknown topic with broken records", elsewhere(None, 0, b"x"), topics=[])
for label, name in {
    "empty": "",
    "a dot": ".",
    "two dots": "..",
    "a slash": "a/b",
    "too long": "x" * 250,
    "a space": "a b",
    "not ASCII": "тест",
    "internal": "__consumer_offsets",
    "internal, of transactions": "__transaction_state",
}.items():
    add(f"a topic's name: {label}", elsewhere(name), until=12, topics=[])


def at_partition(index: int) -> Function:
    def case(on: Ground) -> Values:
        topic = of(on.topic, on.topic_id, (index, build()))
        return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [topic]}

    return case


for index in (1, -1, 2**31 - 1):
    add(f"partition {index}", at_partition(index))


@CASES.case(since=13, topics=[T])
def no_topic_id(on: Ground) -> Values:
    topic = of("", None, (0, build()))
    return {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": [topic]}


# -- batches that are refused, or mended ----------------------------------------------------

add("null records", lambda on: asking_briefly(on), since=13)


def asking_briefly(on: Ground) -> Script:
    """Apache Kafka fails in a way that leaves the request without an answer."""
    yield on.ask(**producing(on, None), within_s=NEVER_ANSWERED_S)


for fault, (broken, _) in REFUSED.items():
    add(f"records: {fault}", kept(broken))

PLAIN = build()
ODD = {
    "codec 5": patch(PLAIN, attributes=5),
    "codec 6": patch(PLAIN, attributes=6),
    "codec 7": patch(PLAIN, attributes=7),
    "LogAppendTime from a client": patch(PLAIN, attributes=LOG_APPEND_TIME),
    "unknown attributes": patch(PLAIN, attributes=0x4000),
    "a delete horizon": patch(PLAIN, attributes=0x40),
    "a leader epoch": patch(PLAIN, leader_epoch=77),
    "half a batch behind a whole one": PLAIN + PLAIN[:30],
    "one byte behind a batch": PLAIN + b"\0",
    "twelve bytes behind a batch": PLAIN + PLAIN[:12],
    "a whole batch and a broken one": PLAIN + patch(PLAIN, crc=1),
    "a whole batch and one of magic 1": PLAIN + build_legacy(1),
    "a base offset and a wrong CRC": patch(PLAIN, base_offset=3, crc=2),
    "a negative base offset": patch(PLAIN, base_offset=-1),
    "a negative last offset": patch(PLAIN, last_offset_delta=-5, record_count=3),
    "a maximal timestamp that no record has": patch(PLAIN, max_timestamp=BASE_TIMESTAMP_MS + 99),
    "a maximal timestamp below the records": patch(PLAIN, max_timestamp=5),
    "no timestamps": patch(PLAIN, base_timestamp=-1, max_timestamp=-1),
    "negative timestamps": patch(PLAIN, base_timestamp=-77, max_timestamp=-77),
    "a producer epoch without an id": patch(PLAIN, producer_epoch=3),
    "a sequence without an id": patch(PLAIN, base_sequence=3),
    "a producer id without an epoch": patch(PLAIN, producer_id=PRODUCER, base_sequence=0),
    "zstd with a base offset": patch(build(MANY, codec="zstd"), base_offset=5),
    "zstd with a wrong CRC": patch(build(MANY, codec="zstd"), crc=5),
}
for label, odd in ODD.items():
    add(f"records: {label}", kept(odd))


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


GOOD = b"\0" + varint(0) + varint(0) + varint(-1) + varint(-1) + varint(0)
INSIDE = {
    "nothing": around(b"", count=1),
    "garbage": around(b"\xff" * 40, count=1),
    "zeros": around(bytes(40), count=1),
    "fewer records": around(record(GOOD), count=2),
    "more records": around(record(GOOD) * 3, count=1),
    "bytes behind the records": around(record(GOOD) + b"\1\2\3", count=1),
    "a record past the end": around(varint(90) + GOOD, count=1),
    "a key past the end": around(
        record(b"\0" + varint(0) * 2 + varint(99) + varint(-1) + varint(0)), count=1
    ),
    "a header without a name": around(
        record(b"\0" + varint(0) * 2 + varint(-1) * 2 + varint(1) + varint(-1) * 2), count=1
    ),
    "the wrong offset": around(
        record(b"\0" + varint(0) + varint(7) + varint(-1) * 2 + varint(0)), count=1
    ),
    "gzip that is none": around(b"\x1f\x8bnot gzip at all", count=1, attributes=1),
    "snappy that is none": around(b"not snappy at all", count=1, attributes=2),
    "lz4 that is none": around(b"not lz4 at all", count=1, attributes=3),
    "gzip of the wrong count": patch(
        build(MANY, codec="gzip"), record_count=2, last_offset_delta=1
    ),
}
for label, odd in INSIDE.items():
    add(f"inside: {label}", kept(odd))

ZSTD_THAT_IS_NONE = around(b"not zstd at all", count=1, attributes=4)
add("inside: zstd that is none", kept(ZSTD_THAT_IS_NONE))

# -- limits of a topic ----------------------------------------------------------------------

SMALL = Topic("small", kept=True, configs={"max.message.bytes": "200"})
LARGE_SEGMENTS = Topic(
    "tight", kept=True, configs={"segment.bytes": "1048576", "max.message.bytes": "4194304"}
)

BIG = build([Written(value=b"x" * 300)])
add("a batch above max.message.bytes", kept(BIG), topics=[SMALL])
add("two batches above max.message.bytes", kept(BIG + BIG), topics=[SMALL])
add("a batch above max.message.bytes with a wrong CRC", kept(patch(BIG, crc=1)), topics=[SMALL])
add(
    "a batch above max.message.bytes with a base offset",
    kept(patch(BIG, base_offset=3)),
    topics=[SMALL],
)
add(
    "a zstd batch above max.message.bytes",
    kept(build([Written(value=bytes(range(256)) * 2)], codec="zstd")),
    topics=[SMALL],
)
add(
    "a batch above max.message.bytes of a control batch",
    kept(patch(BIG, attributes=CONTROL)),
    topics=[SMALL],
)
add(
    "a batch above segment.bytes",
    kept(build([Written(value=b"x" * 1_100_000)])),
    topics=[LARGE_SEGMENTS],
)

# -- idempotent producers -------------------------------------------------------------------


def batch(sequence: int, *, epoch: int = 0, count: int = 3, producer: int = PRODUCER) -> bytearray:
    return build([Written()] * count, producer=(producer, epoch, sequence))


def row(*batches: bytearray) -> Function:
    """One request a batch; all answers count, and the log at the end."""
    return kept(*batches)


IDEMPOTENT: dict[str, Sequence[bytearray]] = {
    "in order": [batch(0), batch(3), batch(6, count=1)],
    "the first not 0": [batch(5), batch(8)],
    "one twice": [batch(0), batch(0)],
    "the last but four again": [batch(3 * n) for n in (0, 1, 2, 3, 4, 0)],
    "the last but five again": [batch(3 * n) for n in (0, 1, 2, 3, 4, 5, 0)],
    "a gap": [batch(0), batch(4)],
    "a part of what was": [batch(0), batch(1, count=2)],
    "the same with more records": [batch(0), batch(0, count=4)],
    "a new epoch from 0": [batch(0), batch(0, epoch=1)],
    "a new epoch not from 0": [batch(0), batch(3, epoch=1)],
    "an old epoch": [batch(0, epoch=2), batch(3, epoch=1)],
    "an old epoch again from 0": [batch(0, epoch=2), batch(0, epoch=1)],
    "around the end of the numbers": [batch(2**31 - 2), batch(1), batch(2**31 - 2)],
    "two producers": [batch(0), batch(0, producer=PRODUCER + 1), batch(3)],
    "a negative epoch": [batch(0, epoch=-1)],
    "a negative producer id": [batch(0, producer=-5)],
}
for label, rows in IDEMPOTENT.items():
    add(f"sequences: {label}", row(*rows), topics=[Topic()])


@CASES.case(topics=[Topic()])
def two_batches_of_a_producer_in_one_request(on: Ground) -> Script:
    topics = [of(on.topic, on.topic_id, (0, batch(0)), (0, batch(3)))]
    yield from then_read(on, {"acks": -1, "timeout_ms": TIMEOUT_MS, "topic_data": topics})


# -- transactions, as far as they are served ------------------------------------------------

IN_TRANSACTION = build(producer=(PRODUCER, 0, 0), transactional=True)
add("a plain batch with a transactional id", sending(build(), transactional_id="tx"))
add("a transactional batch without an id", kept(IN_TRANSACTION))
add(
    "a transactional batch beside a plain one",
    sending(build(), IN_TRANSACTION),
    topics=[TWO],
)
add("a transactional batch, acks 0", lambda on: unanswered(on, IN_TRANSACTION))
add("an unreadable batch, acks 0", lambda on: unanswered(on, REFUSED["magic 3"][0]))
add(
    "an unreadable batch beside good ones",
    sending(build(), REFUSED["magic 3"][0], build()),
    topics=[Topic(partitions=3, kept=True)],
)


def unanswered(on: Ground, records: bytearray) -> Script:
    yield on.ask(**producing(on, records, acks=0), silent=True)
    yield reading(on)


add_odd_names(
    CASES,
    lambda name: {
        "acks": -1,
        "timeout_ms": TIMEOUT_MS,
        "topic_data": [of(name, None, (0, build()))],
    },
    until=12,
)
