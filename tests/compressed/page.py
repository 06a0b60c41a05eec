"""The page docs/codecs.md, out of what both brokers made of the corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from compressed.compare import Difference, reason_of
from compressed.corpus import Case, cases
from compressed.run import COMPACTED, KEYED, OLD_TOPICS, SENT, TYPES, Found
from kavka.compat_tests.raw.codec.batches import CODECS, field
from support.paths import ROOT

PAGE: Final = ROOT / "docs" / "codecs.md"

COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "stored as it came": (SENT, "timed by the broker"),
    "recompressed": tuple(f"to {kind}" for kind in TYPES),
    "keys, times": (KEYED, COMPACTED, "with a bound on times"),
    "by time": ("by time",),
    "compaction": ("compaction",),
    "old consumers": ("for consumers of magic 0", "for consumers of magic 1"),
    "old producers": tuple(
        f"magic {magic} {topic}" for magic in (0, 1) for topic in list(OLD_TOPICS)[1:]
    ),
}

_HEAD: Final = """\
# Codecs

A codec's stream may take many forms: gzip several members, zstd several frames, snappy two
framings. Kavka reads those that Apache Kafka's readers read, in every byte, and refuses what they
refuse. A test sends batches in every form to Kavka and to Apache Kafka {new} (to {old} what 4
dropped), to topics where they are opened for one reason or another, and reads back what is stored:

- **stored as it came**: on a topic that keeps the producer's codec, with the producer's times or
  the broker's
- **recompressed**: on topics with another `compression.type`, each of them
- **keys, times**: on compacted topics, and with `message.timestamp.before.max.ms`
- **by time**: ListOffsets, by a timestamp and by the newest of all
- **compaction**: the records that are left of 30 with 20 keys (the clients' have no key twice)
- **old consumers**: Fetch 1 and 3, as messages of magic 0 and 1
- **old producers**: Produce 1 and 2, messages of magic 0 and 1 in this form, kept or recompressed

**read** stands for the same records, byte for byte; **as sent** for the same bytes; 87 for
INVALID_RECORD, -1 for UNKNOWN_SERVER_ERROR, 76 for UNSUPPORTED_COMPRESSION_TYPE, 2 for
CORRUPT_MESSAGE. Where the brokers differ, Kavka's outcome stands first, and the number is that of
the reason below. What Apache Kafka has not taken can't be looked for: the cell is empty.

Unlike Apache Kafka, Kavka has a limit to what it opens: 64 MiB of records, or eight times their
size as they came if that is more; and in it 64 gzip members or snappy blocks, and one more for
each KiB of the limit.

This page is made by the test itself: run `PYTHONPATH=src:tests python -m compressed >
docs/codecs.md` when it changes (it needs Java, and takes half a minute).
"""

_SHORT: Final = {
    "INVALID_RECORD": "87",
    "UNKNOWN_SERVER_ERROR": "-1",
    "UNSUPPORTED_COMPRESSION_TYPE": "76",
    "CORRUPT_MESSAGE": "2",
    "-": "none",
}


def page(kafka: Sequence[Found], found: Sequence[Difference], versions: tuple[str, str]) -> str:
    """The whole page."""
    return "".join(f"{line}\n" for line in _lines(kafka, found, versions))


def _lines(
    kafka: Sequence[Found], found: Sequence[Difference], versions: tuple[str, str]
) -> Iterator[str]:
    new, old = versions
    yield from _HEAD.format(new=new, old=old).splitlines()
    differing = {(difference.label, difference.place): difference for difference in found}
    reasons: dict[str, int] = {}
    group = ""
    total = same = 0
    for case in cases():
        if case.group != group:
            group = case.group
            yield from ("", f"## {group[0].upper()}{group[1:]}", "")
            yield f"| | {' | '.join(COLUMNS)} |"
            yield f"|---|{'---|' * len(COLUMNS)}"
        words = {
            place: word
            for of_broker in kafka
            for place, word in of_broker.words[case.label].items()
        }
        total += len(words)
        same += sum((case.label, place) not in differing for place in words)
        cells = [_cell(case, places, words, differing, reasons) for places in COLUMNS.values()]
        yield f"| {case.name} | {' | '.join(cells)} |"
    yield from ("", "## Why they differ", "")
    for why, number in reasons.items():
        yield f"{number}. {why[0].upper()}{why[1:]}."
    yield from ("", f"{same} of {total} outcomes are the same in everything.")


def _cell(
    case: Case,
    places: Sequence[str],
    words: Mapping[str, str],
    differing: Mapping[tuple[str, str], Difference],
    reasons: dict[str, int],
) -> str:
    own = {number: name for name, number in CODECS.items()}[field(case.make(1), "attributes") & 7]
    kept = "to uncompressed" if own == "none" else f"to {own}"
    shown: dict[str, None] = {}
    for place in places:
        if place in words and (place != kept):
            shown[_shown(words[place], differing.get((case.label, place)), reasons)] = None
    return ", ".join(shown)


def _shown(word: str, difference: Difference | None, reasons: dict[str, int]) -> str:
    if difference is None:
        return _SHORT.get(word, word)
    reason = reason_of(difference)
    number = reasons.setdefault(reason.why, len(reasons) + 1) if reason else "?"
    kavka, kafka = (
        _SHORT.get(difference.kavka, difference.kavka),
        _SHORT.get(difference.kafka, difference.kafka),
    )
    return f"{kavka} / {kafka} [{number}]"
