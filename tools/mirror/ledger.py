"""What a mirror remembers, as records of a compacted topic in the target: its ledger.

The records of a transaction and what the ledger says of them are written in that one transaction,
so that the ledger always says what the target has. Why not as committed offsets of a group: a
broker forgets those of a group without members after `offsets.retention.minutes`, and a mirror that
rests longer would copy everything again; their metadata is too short for a map of offsets; and
librdkafka can hang in `send_offsets_to_transaction` when a broker dies (docs/transactions.md).

Keys and values are JSON:

- `["offsets", topic, partition, first offset]`: `{"runs": [[source, target, count], ..]}`, from the
  second run on as gaps behind the run before; in the last of a partition `"epoch": ..`, the leader
  epoch of the last copied record in the source, which shows whether that has lost it since;
- `["position", topic, partition]`: `{"offset": ..}`, up to where the source was read, if that is
  past the last copied record: there are markers of transactions, or records were deleted;
- `["topic", topic]`: the ids that it has in both clusters;
- `["group", group, topic, partition]`: the offset that the mirror has committed for it in the
  target, and the one before, until that was acknowledged;
- `["owner"]`: the process that mirrors.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.leaders import TopicPartition
from kavka.tools.mirror.offset_map import Chunk, OffsetMap, Run

PREFIX: Final = "kavka-mirror-"
"""Of ledgers, and of the transactional ids of those who write them."""

CONFIGS: Final = {"cleanup.policy": "compact"}

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None: forget it."""

GroupPartition = tuple[str, str, int]
"""Group, topic and partition."""


class TopicIds(NamedTuple):
    """Those of a topic of one name, as text; "" where a broker has none."""

    source: str
    target: str


class Written(NamedTuple):
    """An offset that the mirror has committed, or was about to, after `before` (-1: none). They are
    the same once it is known that it was committed."""

    offset: int
    before: int


class Ledger:
    """What it says."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        """`entries`: all, in their order."""
        self.topics: dict[str, TopicIds] = {}
        self.groups: dict[GroupPartition, Written] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int | None] = {}
        """Of the last copied records; None where none is known."""

        self.owner = ""
        chunks: defaultdict[TopicPartition, dict[int, Chunk]] = defaultdict(dict)
        epochs: defaultdict[TopicPartition, dict[int, int | None]] = defaultdict(dict)
        for key, value in entries:
            kind, *names = json.loads(key)
            found = None if value is None else json.loads(value)
            if kind == "offsets":
                topic, partition, first = names
                _put(chunks[topic, partition], first, found, _chunk)
                _put(epochs[topic, partition], first, found, lambda document: document.get("epoch"))
            elif kind == "position":
                _put(self.positions, tuple(names), found, lambda document: int(document["offset"]))
            elif kind == "topic":
                _put(self.topics, names[0], found, lambda document: TopicIds(**document))
            elif kind == "group":
                _put(self.groups, tuple(names), found, lambda document: Written(**document))
            elif kind == "owner":
                self.owner = found["session"] if found else ""
        self.maps = {
            topic_partition: OffsetMap(some[first] for first in sorted(some))
            for topic_partition, some in chunks.items()
        }
        self.epochs |= {
            topic_partition: some[max(some)] for topic_partition, some in epochs.items() if some
        }

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Up to where the source was read; None if it was never read."""
        known = self.map_of(topic_partition).next_source, self.positions.get(topic_partition)
        return max((offset for offset in known if offset is not None), default=None)

    def forget(self, topic: str) -> list[Entry]:
        """Where its records are copied to, as if nothing of it had been: what is to be written for
        that. Not which offsets of groups are the mirror's own, as the target may still have them;
        nor its ids, which are replaced."""
        self.topics.pop(topic, None)
        maps = [topic_partition for topic_partition in self.maps if topic_partition[0] == topic]
        positions = [
            topic_partition for topic_partition in self.positions if topic_partition[0] == topic
        ]
        entries = [
            forgotten_offsets(topic_partition, first)
            for topic_partition in maps
            for first in self.maps.pop(topic_partition).firsts
        ]
        for topic_partition in positions:
            del self.positions[topic_partition]
        for topic_partition in maps:
            self.epochs.pop(topic_partition, None)
        return [*entries, *map(forgotten_position, positions)]

    def map_of(self, topic_partition: TopicPartition) -> OffsetMap:
        """Its map, an empty one if nothing was copied."""
        return self.maps.setdefault(topic_partition, OffsetMap())


def _put(table: dict[Any, Any], key: Any, found: Any, read: Any) -> None:
    if found is None:
        table.pop(key, None)
    else:
        table[key] = read(found)


def offsets_entry(topic_partition: TopicPartition, chunk: Chunk, epoch: int | None = None) -> Entry:
    """Of some runs of a partition; `epoch`: that of the last record."""
    value: dict[str, Any] = {"runs": list(_gaps(chunk.runs))}
    if epoch is not None:
        value["epoch"] = epoch
    return _key("offsets", *topic_partition, chunk.first), _value(value)


def forgotten_offsets(topic_partition: TopicPartition, first: int) -> Entry:
    """A chunk is not needed any more."""
    return _key("offsets", *topic_partition, first), None


def position_entry(topic_partition: TopicPartition, offset: int) -> Entry:
    return _key("position", *topic_partition), _value({"offset": offset})


def forgotten_position(topic_partition: TopicPartition) -> Entry:
    """Its topic is no more."""
    return _key("position", *topic_partition), None


def topic_entry(topic: str, ids: TopicIds) -> Entry:
    return _key("topic", topic), _value(ids._asdict())


def group_entry(group_partition: GroupPartition, written: Written) -> Entry:
    return _key("group", *group_partition), _value(written._asdict())


def owner_entry(session: str) -> Entry:
    return _key("owner"), _value({"session": session})


def _key(*parts: str | int) -> bytes:
    return _value(parts)


def _value(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _gaps(runs: Sequence[Run]) -> Iterator[Run]:
    """Each run relative to the end of the one before."""
    source = target = 0
    for run in runs:
        yield Run(run.source - source, run.target - target, run.records)
        source, target = run.source + run.records, run.target + run.records


def _chunk(found: Any) -> Chunk:
    runs: list[Run] = []
    source = target = 0
    for source_gap, target_gap, count in found["runs"]:
        runs.append(Run(source + source_gap, target + target_gap, count))
        source, target = runs[-1].source + count, runs[-1].target + count
    return Chunk(runs[0].source, runs)
