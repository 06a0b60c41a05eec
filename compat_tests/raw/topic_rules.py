"""Produce to topics that ask for more than a sound batch: keys, times, another codec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kavka.compat_tests.raw.case import Function, Topic
from kavka.compat_tests.raw.codec.batches import (
    BASE_TIMESTAMP_MS,
    CODECS,
    LOG_APPEND_TIME,
    Written,
    around,
    build,
    patch,
    varint,
)

Add = Callable[..., None]
Sending = Callable[..., Function]

PRODUCER: Final = 4_000_000
FAR: Final = 200 * 365 * 24 * 3600 * 1000
"""So many milliseconds from now nothing is to be written."""

COMPACTED = Topic("compacted", kept=True, configs={"cleanup.policy": "compact"})
BOTH = Topic("both", kept=True, configs={"cleanup.policy": "compact,delete", "retention.ms": "-1"})
BOUNDED = Topic(
    "bounded",
    kept=True,
    configs={
        "message.timestamp.before.max.ms": "3600000",
        "message.timestamp.after.max.ms": "3600000",
    },
)
ANCIENT = Topic("ancient", kept=True, configs={"message.timestamp.before.max.ms": "0"})
KEYED_AND_BOUNDED = Topic(
    "both-rules",
    kept=True,
    configs={"cleanup.policy": "compact", "message.timestamp.before.max.ms": "3600000"},
)
BY_LOG = {"message.timestamp.type": "LogAppendTime"}
APPENDED = Topic("appended", kept=True, configs=BY_LOG)
APPENDED_KEYED = Topic("appended-keyed", kept=True, configs={**BY_LOG, "cleanup.policy": "compact"})
APPENDED_PACKED = Topic(
    "appended-packed", kept=True, configs={**BY_LOG, "compression.type": "gzip"}
)
GZIPPED = Topic("gzipped", kept=True, configs={"compression.type": "gzip"})
SNAPPED = Topic("snapped", kept=True, configs={"compression.type": "snappy"})
SMALL: Final = {"max.message.bytes": "300"}
GROWING = Topic("growing", kept=True, configs={**SMALL, "compression.type": "uncompressed"})
SHRINKING = Topic("shrinking", kept=True, configs={**SMALL, "compression.type": "gzip"})

PLAIN = build()
UNTIMED = patch(PLAIN, base_timestamp=-1, max_timestamp=-1)
FLAGGED = patch(PLAIN, attributes=LOG_APPEND_TIME)
MANY = [Written(key=b"%d" % n, value=b"v" * n, time_ms=n % 7) for n in range(40)]
KEYLESS = [Written(b"k"), Written(None), Written(b"k"), Written(None)]
OLD = [Written(time_ms=0), Written(time_ms=5)]
HEADERS = [Written(None, None, (("h", b"1"), ("", None), ("h", b""))), Written(b"", b"")]
BULKY = [Written(value=b"x" * 500)]

_NULLS = b"\0" + varint(0) * 2 + varint(-1) * 2 + varint(0)
_RECORD = varint(len(_NULLS)) + _NULLS
BROKEN: Mapping[str, bytearray] = {
    "garbage": around(b"\xff" * 40, count=1),
    "fewer records": around(_RECORD, count=2),
    "bytes behind the records": around(_RECORD + b"\1\2\3", count=1),
    "gzip that is none": around(b"\x1f\x8bnot gzip at all", count=1, attributes=1),
}


def add_cases(add: Add, kept: Sending, sending: Sending) -> None:
    """All of them: `kept` also reads what was stored, which `sending` does not."""
    _add_keys(add, kept, sending)
    _add_times(add, kept, sending)
    _add_append_times(add, kept, sending)
    _add_codecs(add, kept)


def _add_keys(add: Add, kept: Sending, sending: Sending) -> None:
    for codec in CODECS:
        batch = build(KEYLESS, codec=codec)
        add(f"no key on a compacted topic, {codec}", kept(batch), topics=[COMPACTED])
    add("no key on a compacted and deleted topic", kept(build(KEYLESS)), topics=[BOTH])
    add("keys on a compacted topic", kept(build([Written(b"k"), Written(b"")])), topics=[COMPACTED])
    mixed = [Written(b"k"), Written(None), Written(None, time_ms=FAR)]
    add("neither keys nor times", sending(build(mixed)), topics=[KEYED_AND_BOUNDED])
    add(
        "no keys, and no times, by which nothing is too old",
        sending(patch(build(KEYLESS), base_timestamp=-1, max_timestamp=-1)),
        topics=[KEYED_AND_BOUNDED],
    )
    for label, batch in BROKEN.items():
        add(f"opened for keys: {label}", kept(batch), topics=[COMPACTED])


def _add_times(add: Add, kept: Sending, sending: Sending) -> None:
    def far(batch: bytearray) -> Any:
        return kept(patch(batch, max_timestamp=BASE_TIMESTAMP_MS + FAR))

    for codec in CODECS:
        batch = build(OLD, codec=codec)
        add(f"timestamps too old, {codec}", sending(batch), topics=[BOUNDED])
    add("timestamps before now", sending(build(MANY)), topics=[ANCIENT])
    add("timestamps too new", sending(build([Written(time_ms=FAR)])), topics=[BOUNDED])
    add("timestamps too new by default", sending(build([Written(time_ms=FAR)])))
    some = [Written(), Written(time_ms=FAR), Written(), Written(time_ms=FAR + 1)]
    add("timestamps too new, some of them", sending(build(some)))
    add("a newest timestamp that is too new, but no record's", far(PLAIN))
    add(
        "a newest timestamp that is too new, but no record's, compressed",
        far(build(MANY, codec="gzip")),
    )
    add("a timestamp that overflows", sending(patch(PLAIN, max_timestamp=2**63 - 1)))
    add("no timestamps where they are bounded", kept(UNTIMED), topics=[BOUNDED])


def _add_append_times(add: Add, kept: Sending, sending: Sending) -> None:
    for codec in CODECS:
        add(f"append time, {codec}", kept(build(MANY, codec=codec)), topics=[APPENDED])
    add("append time of records too new", kept(build([Written(time_ms=FAR)])), topics=[APPENDED])
    add("append time of records without", kept(UNTIMED), topics=[APPENDED])
    unknown = patch(PLAIN, attributes=0x4000)
    add("append time, unknown attributes", kept(unknown), topics=[APPENDED])
    add("append time on a topic of gzip", kept(build(MANY)), topics=[APPENDED_PACKED])
    add("append time without keys", kept(build(KEYLESS)), topics=[APPENDED_KEYED])
    add("append time with keys", kept(build(MANY)), topics=[APPENDED_KEYED])
    for label, topic in {
        "": APPENDED,
        ", without keys": APPENDED_KEYED,
        ", on a topic of gzip": APPENDED_PACKED,
    }.items():
        add(f"append time that the client claims{label}", kept(FLAGGED), topics=[topic])
    packed = patch(
        build([*MANY, Written(None, None)], codec="lz4"), attributes=LOG_APPEND_TIME | CODECS["lz4"]
    )
    for label, topic in {"": APPENDED, ", on a topic of gzip": APPENDED_PACKED}.items():
        name = f"append time that the client claims, compressed{label}"
        add(name, kept(packed), topics=[topic])
    add("append time that is claimed, and none", kept(patch(FLAGGED, max_timestamp=-1)))
    add("append time that is claimed, too new", sending(patch(FLAGGED, max_timestamp=2**62)))
    add("append time that is claimed, too old", sending(FLAGGED), topics=[BOUNDED])
    add(
        "append time of a batch sent twice",
        kept(*[build(producer=(PRODUCER, 0, 0))] * 2),
        topics=[Topic("appended-twice", configs=BY_LOG)],
    )


def _add_codecs(add: Add, kept: Sending) -> None:
    for compression in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        configs = {"compression.type": compression}
        goal = Topic(compression, kept=True, configs=configs)
        for codec in CODECS:
            add(
                f"{codec} on a topic of {compression}",
                kept(build(MANY, codec=codec)),
                topics=[goal],
            )
        add(
            f"a producer's batches on a topic of {compression}",
            kept(*[build(MANY[:3], producer=(PRODUCER, 0, first)) for first in (0, 0, 3)]),
            topics=[Topic(compression, configs=configs)],
        )
    add("a batch that grows too big", kept(build(BULKY, codec="gzip")), topics=[GROWING])
    add("a batch that is too big until it shrinks", kept(build(BULKY)), topics=[SHRINKING])
    for label, batch in {
        "headers and nulls": build(HEADERS),
        "odd attributes": patch(PLAIN, attributes=0x4000),
        "a delete horizon": patch(PLAIN, attributes=0x40),
    }.items():
        add(f"{label} on a topic of gzip", kept(batch), topics=[GZIPPED])
    for label, batch in BROKEN.items():
        add(f"opened for another codec: {label}", kept(batch), topics=[SNAPPED])
