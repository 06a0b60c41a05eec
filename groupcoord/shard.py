"""The machine of one partition of `__consumer_offsets`: its groups and their offsets. Pure.

It hands each record to the part that it belongs to, and each deadline to whoever set it. What a
request leads to is asked of the parts: `shard.classic`, `shard.consumer`, `shard.offsets`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Final, Protocol
from uuid import UUID

from kavka.groupcoord.classic.protocol import ClassicProtocol
from kavka.groupcoord.classic.requests import ClassicRequests
from kavka.groupcoord.consumer.protocol import ConsumerProtocol
from kavka.groupcoord.expiry import Expiry
from kavka.groupcoord.offsets import Offsets
from kavka.groupcoord.state import GroupsState
from kavka.log.journal import Decision, Made, Producer, Record, Ticket
from kavka.log.timers import Timers
from kavka.wire.steps import Slices

logger = logging.getLogger(__name__)

CLASSIC_KEYS: Final = frozenset({2})
CONSUMER_KEYS: Final = frozenset({3, 4, 5, 6, 7, 8, 16})
"""Versions of the keys of records, by protocol; below them are offsets'."""

BATCH_REPLAY_MIN: Final = 10
"""Records of one decision; fewer are applied one by one."""


class Part(Protocol):
    """The groups of one protocol."""

    def apply(self, version: int, record: Record) -> None:
        """Take in a record whose key has this version, one of the part's."""
        ...

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        """All records have been taken in, and the partition is led from now on: set deadlines.
        Decisions are to be carried out one by one, and nothing else between them."""
        ...

    def expire(self, key: Hashable, now_ms: int) -> Made:
        """A deadline has passed; `key` is a tuple."""
        ...

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> Iterator[Decision]:
        """Topics have come, gone, or changed. Decisions are to be carried out one by one."""
        ...

    def tickets(self) -> Iterable[Ticket]:
        """The requests that are still without an answer."""
        ...


class GroupShard:
    """A `kavka.log.journal.Machine`."""

    def __init__(self, state: GroupsState) -> None:
        self.state: Final = state
        self.timers: Timers = state.timers
        self.classic: Final = ClassicProtocol(state)
        self.consumer: Final = ConsumerProtocol(state, self.classic)
        self.offsets: Final = Offsets(state, self.classic.simple_group)
        self.expiry: Final = Expiry(state, self.offsets)
        self._parts: Final[dict[object, Part]] = {
            "classic": self.classic,
            "consumer": self.consumer,
        }
        self._unknown: Final[dict[int, None]] = {}

    def classic_requests_for(self, group_id: str, now_ms: int) -> ClassicRequests:
        """Who answers requests of the classic protocol that are about a group."""
        group = self.state.groups.get(group_id)
        if group is None or group.kind == "classic" or group.state(now_ms) == "Empty":
            return self.classic
        return self.consumer.classic

    def apply(self, record: Record, producer: Producer | None) -> None:
        """Change the state as a record says; it never fails, whatever there is in the log."""
        version = int.from_bytes(record.key[:2], "big")
        if version <= 1:
            self.offsets.apply(record, producer)
        else:
            self._apply_group(version, record)

    def apply_all(self, records: Sequence[Record], producer: Producer | None) -> None:
        """`apply` of each, but quicker for many offsets."""
        if producer is None and len(records) >= BATCH_REPLAY_MIN:
            keys, values = zip(*records, strict=True)
            records = records[self.offsets.replay(keys, values, 0) :]
        for record in records:
            self.apply(record, producer)

    def replay(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Records without a transaction in the order of the log: as `apply`, but quicker."""
        last = 0
        offsets, count = self.offsets, len(keys)
        while last < count:
            last = offsets.replay(keys, values, last)
            if last < count:
                self.apply(Record(keys[last], values[last]), None)
                last += 1

    def _apply_group(self, version: int, record: Record) -> None:
        if version in CLASSIC_KEYS:
            self.classic.apply(version, record)
        elif version in CONSUMER_KEYS:
            self.consumer.apply(version, record)
        elif version not in self._unknown:
            self._unknown[version] = None
            logger.warning("Skipping records with key version %d.", version)

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> Slices[None]:
        """A transaction has ended."""
        return self.offsets.apply_marker(producer_id, committed)

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        """To be called once, when all records have been taken in and this broker leads the
        partition; the decisions are to be carried out one by one, as they come."""
        yield from self.classic.loaded(now_ms)
        yield from self.consumer.loaded(now_ms)
        self.expiry.loaded(now_ms)

    def expire(self, key: Hashable, now_ms: int) -> Made:
        """What the passing of a deadline leads to."""
        assert isinstance(key, tuple)
        part = self._parts.get(key[0])
        return self.expiry.expire(key, now_ms) if part is None else part.expire(key, now_ms)

    def metadata_changed(self, topics: Collection[str], now_ms: int) -> Iterator[Decision]:
        """Topics have come, gone, or changed; the decisions are to be carried out one by one."""
        yield from self.consumer.metadata_changed(topics, now_ms)

    def topics_deleted(self, topics: Sequence[tuple[str, UUID]], now_ms: int) -> None:
        """Topics have been deleted, by name and id: their offsets go, with deadlines that are due
        at once."""
        self.expiry.topics_deleted(topics, now_ms)

    def resign(self) -> Sequence[Ticket]:
        """The requests that are still without an answer."""
        return [*self.classic.tickets(), *self.consumer.tickets()]
