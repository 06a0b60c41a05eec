"""What producers of before 0.11 send (Produce 0 to 2): message sets, good ones and odd ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kavka.compat_tests.raw.case import Function, Topic
from kavka.compat_tests.raw.codec.batches import build
from kavka.compat_tests.raw.codec.message_sets import (
    LOG_APPEND_TIME,
    framed,
    message,
    nullable,
    several,
    wrapped,
)

LAST: Final = 2
"""The last version that holds message sets."""

CODECS: Final = ("gzip", "snappy", "lz4")

T = Topic("old", kept=True)
COMPACTED = Topic("old-compacted", kept=True, configs={"cleanup.policy": "compact"})
BOUNDED = Topic(
    "old-bounded",
    kept=True,
    configs={
        "message.timestamp.before.max.ms": "3600000",
        "message.timestamp.after.max.ms": "3600000",
    },
)
SMALL = Topic("old-small", kept=True, configs={"max.message.bytes": "400"})
BY_LOG = Topic("old-by-log", kept=True, configs={"message.timestamp.type": "LogAppendTime"})
OTHERS = {
    compression: Topic(f"old-{compression}", kept=True, configs={"compression.type": compression})
    for compression in ("uncompressed", "gzip", "snappy", "lz4", "zstd")
}


def _good(magic: int) -> Mapping[str, bytes]:
    """Sets as clients send them."""
    inside = several(20, magic=magic)
    return {
        "one message": message(magic=magic),
        "many messages": b"".join(several(20, magic=magic)),
        **{f"many in {codec}": wrapped(inside, codec, magic=magic) for codec in CODECS},
        "one in gzip": wrapped([message(magic=magic)], magic=magic),
        "all at offset 0": b"".join(message(b"%d" % n, magic=magic) for n in range(3)),
        "all at offset 0 in gzip": wrapped([message(magic=magic)] * 3, magic=magic, offset=0),
        "real offsets in gzip": wrapped(
            [message(magic=magic, offset=100 + n) for n in range(3)], magic=magic, offset=102
        ),
        "a message and half of one": message(magic=magic) + message(magic=magic)[:-3],
        "half a message in gzip": wrapped(
            [message(magic=magic), message(magic=magic)[:-3]], magic=magic
        ),
    }


def _odd(magic: int) -> Mapping[str, bytes]:
    """Sets that no client sends on purpose."""
    good = message(magic=magic)
    other = message(magic=1 - magic, offset=1)
    head = 18 if not magic else 26
    return {
        "a wrong CRC": message(magic=magic, crc=1),
        "a wrong CRC behind a good message": good + message(magic=magic, crc=1),
        "a wrong CRC inside": wrapped([good, message(magic=magic, crc=1)], magic=magic),
        "half a message": good[:-3],
        "less than a size": good[:11],
        "a size and no more": good[:12],
        "all but the magic": good[:16],
        "up to the magic": good[:17],
        "a size that is too small": message(magic=magic, size=13),
        "a size that is too small behind a good message": good + message(magic=magic, size=13),
        "a size that is too small inside": wrapped(
            [good, message(magic=magic, size=13)], magic=magic
        ),
        "a negative size": message(magic=magic, size=-1),
        "a message shorter than its fields": framed(bytes([magic]) + bytes(9)),
        "magic 3 behind it": good + message(magic=3),
        "the other magic behind it": good + other,
        "the other magic inside": wrapped([good, other], magic=magic),
        "a batch behind it": good + bytes(build()),
        "two wrappers": wrapped([good], magic=magic) * 2,
        "a wrapper and a message": wrapped([good], magic=magic) + good,
        "a message and a wrapper": good + wrapped([good], magic=magic),
        "a wrapper within a wrapper": wrapped([wrapped([good], magic=magic)], magic=magic),
        "a wrapper of nothing": wrapped([], magic=magic, offset=0),
        "a wrapper of null": message(value=None, magic=magic, attributes=1),
        "a wrapper of what is not gzip": message(magic=magic, attributes=1),
        "a wrapper of what is not snappy": message(magic=magic, attributes=2),
        "a wrapper of what is not lz4": message(magic=magic, attributes=3),
        "a wrapper with a key": wrapped([good], magic=magic)[: head - 4]
        + wrapped([good], magic=magic)[head - 4 :],
        "zstd": message(magic=magic, attributes=4),
        **{f"codec {n}": message(magic=magic, attributes=n) for n in (5, 6, 7)},
        "an offset below those inside": wrapped(
            [message(magic=magic, offset=5), message(magic=magic, offset=6)], magic=magic, offset=3
        ),
        "falling offsets inside": wrapped(
            [message(magic=magic, offset=1), message(magic=magic, offset=0)], magic=magic
        ),
        "a key past the end": framed(good[16:head] + nullable(b"k" * 9)[:-3]),
        "a value past the end": framed(good[16:head] + nullable(None) + nullable(b"v" * 9)[:-3]),
        "bytes behind the value": message(magic=magic, rest=b"more"),
        "unknown attributes": message(magic=magic, attributes=0xF0),
        "LogAppendTime": message(magic=magic, attributes=LOG_APPEND_TIME) + message(magic=magic),
        "LogAppendTime of a wrapper": wrapped(
            several(3, magic=magic), magic=magic, attributes=LOG_APPEND_TIME, time_ms=99
        ),
        "LogAppendTime inside": wrapped(
            several(3, magic=magic, attributes=LOG_APPEND_TIME), magic=magic
        ),
    }


TIMES: Final = {
    "no timestamp": message(timestamp=-1),
    "no timestamp in gzip": wrapped([message(timestamp=-1)] * 2, timestamp=-1),
    "some timestamps": message(timestamp=-1) + message() + message(timestamp=-1),
    "a negative timestamp": message(timestamp=-7),
    "a negative timestamp in gzip": wrapped([message(timestamp=-7)]),
    "falling timestamps": message(time_ms=50) + message(time_ms=20),
    "a wrapper with another timestamp": wrapped([message()], time_ms=1000),
}


def add_cases(add: Callable[..., None], kept: Callable[..., Function]) -> None:
    """Add them; `kept` makes a case of what is sent, which shows how it then stands in the log."""

    def of_old(name: str, *sent: Any, topic: Topic = T) -> None:
        add(f"old: {name}", kept(*sent), topics=[topic], since=0, until=LAST)

    for magic in (0, 1):
        for label, good in _good(magic).items():
            of_old(f"magic {magic}, {label}", good, good)
        for label, odd in _odd(magic).items():
            of_old(f"magic {magic}, {label}", odd)
        _add_for_topics(of_old, magic)
    for label, timed in TIMES.items():
        of_old(label, timed)
        of_old(f"{label}, bounded", timed, topic=BOUNDED)
        of_old(f"{label}, LogAppendTime", timed, topic=BY_LOG)
    of_old("a batch of magic 2", bytes(build()))
    of_old("a batch in zstd", bytes(build(codec="zstd")))
    of_old("two batches", bytes(build() * 2))
    of_old("half a batch", bytes(build()[:-5]))
    of_old("nothing", b"")


def _add_for_topics(of_old: Callable[..., None], magic: int) -> None:
    many = several(20, magic=magic)
    sets = {"plain": b"".join(many), "gzip": wrapped(many, magic=magic)}
    for form, sent in sets.items():
        for compression, topic in OTHERS.items():
            of_old(f"magic {magic}, {form} on a topic of {compression}", sent, topic=topic)
        of_old(f"magic {magic}, {form}, keys and nulls, compacted", sent, topic=COMPACTED)
        of_old(f"magic {magic}, {form}, LogAppendTime", sent, topic=BY_LOG)
        of_old(f"magic {magic}, {form}, too big as a batch", sent, topic=SMALL)
    keyed = message(b"k", magic=magic)
    of_old(f"magic {magic}, with keys, compacted", keyed + keyed, topic=COMPACTED)
    flagged = message(magic=magic, attributes=LOG_APPEND_TIME)
    of_old(f"magic {magic}, the time of its append, LogAppendTime", flagged, topic=BY_LOG)
    big = message(value=b"x" * 500, magic=magic)
    of_old(f"magic {magic}, a message that is too big", big, topic=SMALL)
    of_old(f"magic {magic}, a good message and one too big", keyed + big, topic=SMALL)
    zeros = [message(value=bytes(500), magic=magic)]
    of_old(f"magic {magic}, small in gzip", wrapped(zeros, magic=magic), topic=SMALL)
    of_old(f"magic {magic}, bounded timestamps", keyed, topic=BOUNDED)
