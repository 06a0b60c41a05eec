"""What Kavka makes of the corpus that Apache Kafka does not: the reviewed list of reasons.

A difference without a reason fails the test, and so does a reason that no longer occurs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from compressed.corpus import PROMISES
from compressed.run import AS_SENT, SENT, STORED, Found

NEEDS_TAKEN: Final = (
    "by time",
    "compaction",
    "for consumers of magic 0",
    "for consumers of magic 1",
)
"""Where only what was taken can be looked at: not compared where Apache Kafka refused it."""


class Difference(NamedTuple):
    """Of a case, somewhere. The words are the same where other records were read."""

    label: str
    place: str
    kavka: str
    kafka: str
    details: str = ""


@dataclass(frozen=True)
class Reason:
    """Patterns (of the shell) for the case and the place, and the two words."""

    why: str
    label: str
    place: str
    kavka: str
    kafka: str

    def allows(self, difference: Difference) -> bool:
        """Whether it is the reason of this difference."""
        return all(
            fnmatchcase(value, pattern)
            for value, pattern in (
                (difference.label, self.label),
                (difference.place, self.place),
                (difference.kavka, self.kavka),
                (difference.kafka, self.kafka),
            )
        )


_NOT_OPENED: Final = (
    "a batch that is stored in the codec that it came in is not opened, unless its topic is "
    "compacted, or times are bounded: Kavka checks its header, its CRC and its number of records"
)
_LATER_FRAME: Final = (
    "Apache Kafka takes a later zstd frame that is cut for the end of all; Kavka refuses it"
)
_LATER_MEMBER: Final = (
    "where another gzip member is cut right behind its header, Apache Kafka says that records are "
    "missing; Kavka says of all that is cut that it can't be inflated"
)
_NOISE: Final = "a length of more than five bytes, which Apache Kafka stumbles over"
_SKIPPED: Final = (
    "where Apache Kafka opens a batch only for keys and times it does not look at the sizes of "
    "records, which it then can't read; Kavka does"
)
_OFFSETS: Final = "Apache Kafka 3.9.2 can't make messages of plain records that all have one offset"
REFUSED: Final = "UNKNOWN_SERVER_ERROR"
INVALID: Final = "INVALID_RECORD"

REASONS: Final[Sequence[Reason]] = (
    Reason(_NOT_OPENED, "*", SENT, AS_SENT, "*_*"),
    Reason(_NOT_OPENED, "*", "to *", AS_SENT, "*_*"),
    Reason(_NOT_OPENED, "*", "timed by the broker", AS_SENT, "*_*"),
    Reason(_LATER_FRAME, "zstd: two frames, the second cut*", "*", REFUSED, "*"),
    Reason(
        _LATER_FRAME, "zstd: two frames, the second cut*", "by time", "CORRUPT_MESSAGE", "found"
    ),
    Reason(_LATER_FRAME, "zstd: two frames, the second cut*", "compaction", "-", "20 kept"),
    Reason(_LATER_MEMBER, "gzip: 19 bytes of a member behind", "*", REFUSED, INVALID),
    Reason(_NOISE, f"{PROMISES}: noise, not compressed", "*", INVALID, REFUSED),
    Reason(_SKIPPED, f"{PROMISES}: a record that is too *, zstd", "with *", INVALID, AS_SENT),
    Reason(_SKIPPED, f"{PROMISES}: a record that is too short, zstd", "by *", "not found", INVALID),
    Reason(_OFFSETS, f"{PROMISES}: all offsets 0, not *", "for consumers *", STORED, REFUSED),
)


def differences(kavka: Found, kafka: Found) -> Iterator[Difference]:
    """All that differs between what was asked of two brokers."""
    for label, words in kafka.words.items():
        refused = words.get(SENT, STORED) not in (STORED, AS_SENT)
        ours = kavka.words[label]
        for place in {**words, **ours}:
            if place in NEEDS_TAKEN and (refused or place not in words) and place != "compaction":
                continue
            if place == "compaction" and place not in words:
                continue
            pair = ours.get(place, "-"), words.get(place, "-")
            if pair[0] != pair[1]:
                yield Difference(label, place, *pair)
            elif kavka.records[label].get(place) != kafka.records[label].get(place):
                details = f"{kavka.records[label].get(place)} != {kafka.records[label].get(place)}"
                yield Difference(label, place, *pair, details[:500])


def reason_of(difference: Difference) -> Reason | None:
    """The first that allows it; other records are never allowed."""
    if difference.details:
        return None
    return next((reason for reason in REASONS if reason.allows(difference)), None)


def unexplained(found: Sequence[Difference]) -> list[Difference]:
    return [difference for difference in found if reason_of(difference) is None]


def outdated(found: Sequence[Difference]) -> list[str]:
    """Reasons of nothing."""
    used = [reason_of(difference) for difference in found]
    return [
        f"{reason.label}, {reason.place}: {reason.why}" for reason in REASONS if reason not in used
    ]
