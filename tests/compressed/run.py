"""What a broker makes of the corpus, wherever it opens batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from compressed.corpus import APART_MS, PROMISES, Case, cases
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS, CODECS, field, patch, read
from kavka.compat_tests.raw.codec.message_sets import message
from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.compat_tests.raw.opened_message_sets import messages
from kavka.wire.compression import Codec
from kavka.wire.errors import ErrorCode
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

SETTINGS: Final[Mapping[str, str]] = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "10000000",
    "log.initial.task.delay.ms": "200",
    "offsets.topic.num.partitions": "1",
}
TYPES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
KEPT: Final = {"retention.ms": "-1"}
YEARS_MS: Final = 100 * 365 * 86_400_000
SENT: Final = "sent"
KEYED: Final = "with keys"
COMPACTED: Final = "compacted"
TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    SENT: {},
    **{f"to {kind}": {"compression.type": kind} for kind in TYPES},
    KEYED: {"cleanup.policy": "compact"},
    COMPACTED: {
        "cleanup.policy": "compact",
        "segment.ms": str(APART_MS // 2),
        "min.cleanable.dirty.ratio": "0",
    },
    "timed by the broker": {"message.timestamp.type": "LogAppendTime"},
    "with a bound on times": {"message.timestamp.before.max.ms": str(YEARS_MS)},
}
"""Where a batch is opened for what is in it, and one where it is stored as it came."""

STORED: Final = "read"
AS_SENT: Final = "as sent"
MAX_TIMESTAMP: Final = -3
NOT_READY: Final = (3, 5, 6)
MADE: Final = (0, 36)
WITHIN_S: Final = 180.0

Outcomes = dict[str, str]
"""By place: what became of a case, in a few words."""


class Found(NamedTuple):
    """What a broker made of all cases: `words` in short, and all records that were read."""

    words: dict[str, Outcomes]
    records: dict[str, dict[str, Any]]


def play(broker: BrokerProcess, chosen: Sequence[Case] | None = None) -> Found:
    """Send every case to every topic, read it back, and look for it by time."""
    chosen = cases() if chosen is None else chosen
    found = Found({}, {})
    with RawConnection("127.0.0.1", broker.port) as connection:
        create(connection, TOPICS)
        for number, case in enumerate(chosen, 1):
            words = found.words.setdefault(case.label, {})
            records = found.records.setdefault(case.label, {})
            batch = case.make(number)
            for topic in TOPICS:
                if topic != COMPACTED or case.group != PROMISES:  # it could not be compacted
                    words[topic], records[topic] = written(connection, topic, batch)
            if words[SENT] in (STORED, AS_SENT):
                base = connection.list_offset(place(SENT))["offset"] - field(batch, "record_count")
                words["by time"], records["by time"] = by_time(connection, number, base)
    return found


def create(connection: RawConnection, topics: Mapping[str, Mapping[str, str]]) -> None:
    """Make topics, and wait until they can be written to."""
    new_topics = [new_topic(place(name), configs={**KEPT, **more}) for name, more in topics.items()]

    def are_made() -> bool:
        answer = connection.request("CreateTopics", 5, timeout_ms=30_000, topics=new_topics)
        return all(topic["error_code"] in MADE for topic in answer["topics"])

    eventually(are_made, within_s=WITHIN_S, what="the broker has registered, and made topics")
    for name in topics:
        eventually(
            lambda: connection.list_offset(place(name))["error_code"] not in NOT_READY,  # noqa: B023 - called here
            within_s=WITHIN_S,
            what=f"{name} has its leader",
        )


def place(name: str) -> str:
    return name.replace(" ", "-")


# -- writing and reading back ---------------------------------------------------------------


def written(connection: RawConnection, topic: str, batch: bytearray) -> tuple[str, Any]:
    """The outcome of writing a batch, and of reading it back."""
    answer = connection.write(place(topic), 0, batch)
    if answer["error_code"]:
        refused = [error["batch_index"] for error in answer["record_errors"]]
        return code_of(answer["error_code"]), refused
    base = answer["base_offset"]
    stored = bytearray(first_batch(connection.fetch(place(topic), 0, base)["records"]))
    assert field(stored, "base_offset") == base
    stamped = {"base_offset": 0, "leader_epoch": 0, "attributes": 0, "max_timestamp": 0}
    if patch(stored, **stamped)[12:] == patch(batch, **stamped)[12:]:
        same = field(stored, "max_timestamp") == field(batch, "max_timestamp")
        return AS_SENT, [topic == "timed by the broker" or same]
    if not patch(stored)[17:21] == stored[17:21]:
        return "a wrong CRC", None
    try:
        found = plain(read(stored), base, timed=topic == "timed by the broker")
    except Exception as failure:  # any error of the client's library
        return f"unreadable: {type(failure).__name__}", None
    codec = {number: name for name, number in CODECS.items()}[field(stored, "attributes") & 7]
    times = [] if topic == "timed by the broker" else [field(stored, "max_timestamp")]
    return STORED, [codec, *times, found]


def first_batch(records: bytes) -> bytes:
    return records[: field(records, "batch_length") + 12]


def plain(records: Sequence[Any], base: int, *, timed: bool = False) -> list[Any]:
    return [
        (
            record.offset - base,
            None if timed else record.timestamp,
            record.key,
            record.value,
            record.headers,
        )
        for record in records
    ]


def code_of(number: int) -> str:
    return ErrorCode(number).name


# -- by time --------------------------------------------------------------------------------


def by_time(connection: RawConnection, number: int, base: int) -> tuple[str, Any]:
    """Where the case's begin and middle are found, and the newest record of all, its last."""
    start = BASE_TIMESTAMP_MS + number * APART_MS
    found: list[tuple[int, int] | None] = []
    for timestamp in (start, start + 15, MAX_TIMESTAMP):
        answer = connection.list_offset(place(SENT), 0, timestamp)
        if answer["error_code"]:
            return code_of(answer["error_code"]), None
        nothing = answer["offset"] < 0
        found.append(None if nothing else (answer["timestamp"] - start, answer["offset"] - base))
    return "found" if found[0] and found[2] else "not found", found


# -- compaction -----------------------------------------------------------------------------


def compacted(broker: BrokerProcess, found: Found) -> None:
    """Wait until all of the compacted topic is compacted, and add what is left of each case."""
    with RawConnection("127.0.0.1", broker.port) as connection:
        last = next(case for case in cases() if case.form is not None)
        for number in (len(cases()) + 1, len(cases()) + 2):
            answer = connection.write(place(COMPACTED), 0, last.make(number))
            assert answer["error_code"] == 0, answer
        eventually(
            lambda: cleaned_upto(broker, COMPACTED) >= answer["base_offset"],
            within_s=WITHIN_S,
            what="the topic is compacted",
            detail=broker.tail,
        )
        left = list(left_in(connection, COMPACTED))
    for number, case in enumerate(cases(), 1):
        if found.words[case.label].get(COMPACTED) not in (STORED, AS_SENT):
            continue
        start = BASE_TIMESTAMP_MS + number * APART_MS
        of_case = [record for record in left if start <= record[0] < start + APART_MS]
        kept = len(of_case)
        found.words[case.label]["compaction"] = f"{kept} kept"
        found.records[case.label]["compaction"] = [record[1:] for record in of_case]


def left_in(connection: RawConnection, topic: str) -> Iterator[tuple[Any, ...]]:
    offset = 0
    while records := connection.fetch(place(topic), 0, offset)["records"]:
        position = 0
        while position + 61 <= len(records):
            batch = first_batch(records[position:])
            if position + field(batch, "batch_length") + 12 > len(records):
                break
            position += len(batch)
            offset = field(batch, "base_offset") + field(batch, "last_offset_delta") + 1
            start = field(batch, "base_timestamp")
            try:
                for record in read(batch):
                    yield record.timestamp, record.key, record.value, tuple(record.headers)
            except Exception:
                # what kafka-python does not read is compared byte for byte
                yield start, batch[61:], field(batch, "record_count")


# -- old formats ----------------------------------------------------------------------------

OLD_TOPICS: Final[Mapping[str, Mapping[str, str]]] = {
    "for old consumers": {},
    "of old producers": {},
    "of old producers to gzip": {"compression.type": "gzip"},
    "of old producers to none": {"compression.type": "uncompressed"},
}
OLD_MAGICS: Final = MappingProxyType({0: (1, 1), 1: (2, 3)})
"""Versions of Produce and Fetch, by magic."""


def play_old(broker: BrokerProcess, chosen: Sequence[Case] | None = None) -> Found:
    """What old consumers are given of the cases that are taken, and what becomes of messages of
    old producers in these forms."""
    chosen = cases() if chosen is None else chosen
    found = Found({}, {})
    with RawConnection("127.0.0.1", broker.port) as connection:
        create(connection, OLD_TOPICS)
        for number, case in enumerate(chosen, 1):
            words = found.words.setdefault(case.label, {})
            records = found.records.setdefault(case.label, {})
            answer = connection.write(place("for old consumers"), 0, case.make(number))
            if not answer["error_code"]:
                for magic, (_, version) in OLD_MAGICS.items():
                    name = f"for consumers of magic {magic}"
                    words[name], records[name] = read_old(
                        connection, answer["base_offset"], version
                    )
            if case.form is not None and case.form.codec != Codec.ZSTD:
                for topic in list(OLD_TOPICS)[1:]:
                    for magic, (version, _) in OLD_MAGICS.items():
                        name = f"magic {magic} {topic}"
                        words[name], records[name] = write_old(
                            connection, topic, case, magic, version
                        )
    return found


def read_old(connection: RawConnection, base: int, version: int) -> tuple[str, Any]:
    answer = connection.fetch(place("for old consumers"), 0, base, version=version)
    if answer["error_code"]:
        return code_of(answer["error_code"]), None
    first = messages(answer["records"])[:1]
    inner = [inner_message for outer in first for inner_message in outer.get("inside", [outer])]
    return STORED, [
        (inner_message["timestamp"], inner_message["key"], inner_message["value"])
        for inner_message in inner
    ]


def write_old(
    connection: RawConnection, topic: str, case: Case, magic: int, version: int
) -> tuple[str, Any]:
    """A wrapper around messages, in the case's form."""
    assert case.form is not None
    inner = b"".join(
        message(b"key %d" % n, b"value %d" % n * 9, magic=magic, offset=n, time_ms=n)
        for n in range(20)
    )
    packed = case.form.encode(inner)
    wrapper = message(None, packed, magic=magic, offset=19, attributes=case.form.codec)
    answer = connection.write(place(topic), 0, wrapper, version=version)
    if answer["error_code"]:
        return code_of(answer["error_code"]), None
    base = answer["base_offset"]
    stored = first_batch(connection.fetch(place(topic), 0, base)["records"])
    return STORED, [field(stored, "attributes"), plain(read(stored), base)]


def cleaned_upto(broker: BrokerProcess, topic: str) -> int:
    """What the broker's checkpoint says."""
    path = broker.data_dir / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {line.split()[0]: int(line.split()[2]) for line in lines}.get(topic, 0)
