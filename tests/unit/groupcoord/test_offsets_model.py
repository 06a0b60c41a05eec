"""Offsets against a model: commits in and out of transactions, deletions, time, and replays.

The model keeps with every offset the number of the record that it came with, and compares those
when a transaction ends, as Apache Kafka does; the machine has no such numbers.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pytest import MonkeyPatch

from kavka.groupcoord import expiry, listing
from kavka.groupcoord.offsets import OffsetToCommit
from kavka.wire.errors import ApiError, ErrorCode
from support.journal_kit import START_MS
from support.offset_groups import OffsetKit

GROUPS = ("g", "h")
TOPICS = ("a", "b")
PARTITIONS = range(2)
PRODUCERS = (7, 8)
RETENTION_MINUTES = 3
CHECK_MS = 45_000
MINUTE_MS = 60_000

partitions = strategies.tuples(strategies.sampled_from(TOPICS), strategies.sampled_from(PARTITIONS))
group_ids = strategies.sampled_from(GROUPS)


class StoredOffset(NamedTuple):
    number: int
    offset: int
    committed_ms: int
    expires_ms: int | None


class OffsetsAgainstModel(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.patch = MonkeyPatch()
        self.patch.setattr(expiry, "SCANNED_PER_STEP", 2)
        self.patch.setattr(listing, "OFFSETS_MAX", 2)
        self.kit = OffsetKit(
            offsets_retention_minutes=RETENTION_MINUTES,
            offsets_retention_check_interval_ms=CHECK_MS,
        )
        list(self.kit.shard.loaded(START_MS))
        self.number = 0
        self.kept: dict[str, dict[tuple[str, int], StoredOffset]] = {}
        self.pending: dict[int, dict[str, dict[tuple[str, int], StoredOffset]]] = {}
        self.groups: set[str] = set()
        self.sweep_ms = START_MS + CHECK_MS

    def teardown(self) -> None:
        self.patch.undo()

    # -- requests, time and the cluster

    @rule(
        group_id=group_ids,
        offsets=strategies.dictionaries(partitions, strategies.integers(0, 2**63 - 1), min_size=1),
        retention_ms=strategies.sampled_from((-1, 0, 30_000, 5 * MINUTE_MS)),
    )
    def commit(self, group_id: str, offsets: dict[tuple[str, int], int], retention_ms: int) -> None:
        codes = self.kit.commit_offsets(offsets, group_id, version=4, retention_ms=retention_ms)
        assert codes == [0] * len(offsets)
        expires_ms = None if retention_ms == -1 else self.kit.now_ms + retention_ms
        self._keep(self.kept.setdefault(group_id, {}), offsets, expires_ms)
        self.groups.add(group_id)

    @rule(
        group_id=group_ids,
        producer_id=strategies.sampled_from(PRODUCERS),
        offsets=strategies.dictionaries(partitions, strategies.integers(0, 100), min_size=1),
    )
    def commit_in_transaction(
        self, group_id: str, producer_id: int, offsets: dict[tuple[str, int], int]
    ) -> None:
        self.kit.commit_offsets(offsets, group_id, producer_id=producer_id)
        groups = self.pending.setdefault(producer_id, {})
        self._keep(groups.setdefault(group_id, {}), offsets, None)
        self.groups.add(group_id)

    def _keep(
        self,
        kept: dict[tuple[str, int], StoredOffset],
        offsets: dict[tuple[str, int], int],
        expires_ms: int | None,
    ) -> None:
        for partition, offset in offsets.items():
            self.number += 1
            kept[partition] = StoredOffset(self.number, offset, self.kit.now_ms, expires_ms)

    @rule(producer_id=strategies.sampled_from(PRODUCERS), committed=strategies.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.kit.end(producer_id, committed=committed)
        for group_id, offsets in self.pending.pop(producer_id, {}).items():
            for partition, kept in offsets.items() if committed else ():
                before = self.kept.setdefault(group_id, {}).get(partition)
                if before is None or before.number < kept.number:
                    self.kept[group_id][partition] = kept

    @rule(group_id=group_ids, deleted=strategies.lists(partitions, min_size=1, unique=True))
    def delete_offsets(self, group_id: str, deleted: list[tuple[str, int]]) -> None:
        if group_id not in self.groups:
            self._refused(ErrorCode.GROUP_ID_NOT_FOUND, self.kit.delete_offsets, deleted, group_id)
            return
        assert self.kit.delete_offsets(deleted, group_id) == [0] * len(deleted)
        for partition in deleted:
            self._delete(group_id, partition)

    def _delete(self, group_id: str, partition: tuple[str, int]) -> None:
        self.kept.get(group_id, {}).pop(partition, None)
        for groups in self.pending.values():
            groups.get(group_id, {}).pop(partition, None)

    @rule(group_id=group_ids)
    def delete_group(self, group_id: str) -> None:
        if group_id not in self.groups:
            self._refused(ErrorCode.GROUP_ID_NOT_FOUND, self.kit.delete_group, group_id)
            return
        while not self.kit.delete_group(group_id):
            assert group_id in self.kit.shard.state.groups
        self.groups.discard(group_id)
        for topic in TOPICS:
            for partition in PARTITIONS:
                self._delete(group_id, (topic, partition))

    def _refused(self, code: ErrorCode, call: object, *args: object) -> None:
        try:
            call(*args)  # type: ignore[operator]
        except ApiError as error:
            assert error.code == code
        else:
            raise AssertionError("it was not refused")

    @rule(by_ms=strategies.sampled_from((1, 10_000, CHECK_MS, 4 * MINUTE_MS)))
    def pass_time(self, by_ms: int) -> None:
        end_ms = self.kit.now_ms + by_ms
        while self.sweep_ms <= end_ms:
            self._sweep(self.sweep_ms)
            self.sweep_ms += CHECK_MS
        self.kit.advance(by_ms)

    def _sweep(self, now_ms: int) -> None:
        for group_id in list(self.groups):
            kept = self.kept.get(group_id, {})
            for partition, committed in list(kept.items()):
                if committed.expires_ms is None:
                    over = now_ms - committed.committed_ms >= RETENTION_MINUTES * MINUTE_MS
                else:
                    over = now_ms >= committed.expires_ms
                if over and not self._is_pending(group_id, partition):
                    del kept[partition]
            if not kept and not any(groups.get(group_id) for groups in self.pending.values()):
                self.groups.discard(group_id)

    def _is_pending(self, group_id: str, partition: tuple[str, int]) -> bool:
        return any(partition in groups.get(group_id, {}) for groups in self.pending.values())

    @rule(topic=strategies.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        self.kit.shard.topics_deleted([(topic, NO_ID)], self.kit.now_ms)
        self.kit.advance(0)
        for group_id in GROUPS:
            for partition in PARTITIONS:
                self._delete(group_id, (topic, partition))

    @rule()
    def move(self) -> None:
        """Another broker becomes the coordinator; its first scan is an interval later."""
        self.kit.move()
        self.sweep_ms = self.kit.now_ms + CHECK_MS

    # -- invariants

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        rules = self.kit.shard.offsets
        assert set(self.kit.shard.state.groups) == self.groups
        expected = {
            group_id: {partition: committed.offset for partition, committed in kept.items()}
            for group_id, kept in self.kept.items()
        }
        for group_id in GROUPS:
            assert self.kit.offsets(group_id) == expected.get(group_id, {})
            for partition in itertools.product(TOPICS, PARTITIONS):
                stable = self.kit.fetch(*partition, group_id, require_stable=True)
                is_unstable = stable.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                assert is_unstable == self._is_pending(group_id, partition)
        assert rules.store.count == sum(map(len, expected.values()))
        open_groups = {
            group_id
            for groups in self.pending.values()
            for group_id, offsets in groups.items()
            if offsets
        }
        assert {group_id for group_id in GROUPS if rules.pending.has_any(group_id)} == open_groups
        assert bool(rules.pending) == bool(open_groups)

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        self.kit.assert_replayed_alike()


NO_ID = OffsetToCommit("", 0, 0).topic_id

OffsetsAgainstModel.TestCase.settings = settings(max_examples=80, stateful_step_count=30)
TestOffsetsAgainstModel = OffsetsAgainstModel.TestCase
