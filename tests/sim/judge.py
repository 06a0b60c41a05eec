"""The invariants, judged from the recorded history alone, apart from the actors.

The numbers are those of the table in docs/simulation.md.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

from sim.history import (
    ABORTED,
    COMMITTED,
    UNKNOWN,
    UNKNOWN_OFFSET,
    Commit,
    History,
    Place,
    Reading,
)


def judge(
    history: History,
    final: dict[Place, Reading],
    committed: dict[Place, Reading],
    compacted: dict[Place, Reading],
    offsets: Iterable[Reading],
) -> list[str]:
    """What is violated; `final` is all that is read after all was healed, `committed` what is read
    of it with read_committed, `compacted` the same of the compacted topic, and `offsets` what
    is in the topic of committed offsets. Where acknowledged records may be lost, only what is left
    is judged."""
    found = list(history.violations)
    for place, reading in final.items():
        found += _no_duplicates(history, place, reading)
    if history.may_lose:
        return found
    for place, reading in final.items():
        found += _acknowledged_is_there(history, place, reading)
        found += _order(history, place, reading)
    found += _one_value_an_offset(history)
    found += _transactions(history, committed)
    found += _nothing_aborted(history)
    found += _last_values_stay(history, compacted)
    if not history.compacts_apart:
        found += _nothing_withheld(history, compacted)
    if history.keeps_markers:
        found += _markers_stay(history, compacted)
    found += _commits_stay(history)
    found += _replaced_members_commit_nothing(history, offsets)
    for reading in history.readings:
        found += _monotonic(reading)
    return found


def _acknowledged_is_there(history: History, place: Place, reading: Reading) -> list[str]:
    """I1: every acknowledged write is read, at the offset that was acknowledged."""
    offsets = defaultdict[bytes | None, set[int]](set)
    for record in reading.records:
        offsets[record.value].add(record.offset)
    return [
        f"I1 lost: {value!r} was acknowledged at {place} {offset}, but is at "
        f"{sorted(offsets[value]) or 'no offset'}"
        for value, offset in history.acknowledged.items()
        if history.writes[value].place == place
        and offset not in offsets[value]
        and not (offset == UNKNOWN_OFFSET and offsets[value])
    ]


def _no_duplicates(history: History, place: Place, reading: Reading) -> list[str]:
    """I3: a record of an idempotent producer is there once; and all records there were written."""
    seen: dict[bytes | None, int] = {}
    found = []
    for offset, value, _ in reading.records:
        write = history.writes.get(value or b"")
        if write is None or write.place != place:
            found.append(f"I2 foreign: {value!r} at {place} {offset} was never written there")
        elif value in seen and write.is_idempotent:
            found.append(f"I3 duplicate: {value!r} at {place} {seen[value]} and {offset}")
        seen[value] = offset
    return found


def _order(history: History, place: Place, reading: Reading) -> list[str]:
    """I5: the records of an idempotent producer are in the order in which it wrote them; none is
    missing between two but those that it has given up."""
    given_up = {(history.writes[value].producer, number_of(value)) for value in history.given_up}
    last: dict[str, tuple[int, int]] = {}
    found = []
    for offset, value, _ in reading.records:
        write = history.writes.get(value or b"")
        if write is None or not write.is_dense:
            continue
        number = number_of(value or b"")
        before = last.get(write.producer, (number - 1, -1))
        between = range(before[0] + 1, number)
        is_inverted = number <= before[0]
        if is_inverted or any((write.producer, skipped) not in given_up for skipped in between):
            kind = "inversion" if is_inverted else "gap"
            found.append(
                f"I5 {kind}: at {place} {write.producer}'s {before[0]} at {before[1]} is followed "
                f"by {number} at {offset}"
            )
        last[write.producer] = (number, offset)
    return found


def number_of(value: bytes) -> int:
    """Of a record of a dense producer: its values are `NAME:NUMBER:...`."""
    return int(value.split(b":")[1])


def _one_value_an_offset(history: History) -> list[str]:
    """I2: all reads of an offset give the same value."""
    values: dict[tuple[Place, int], tuple[bytes | None, str]] = {}
    found = []
    for reading in history.readings:
        for offset, value, _ in reading.records:
            first = values.setdefault((reading.place, offset), (value, reading.reader))
            if first[0] != value:
                found.append(
                    f"I2 changed: at {reading.place} {offset} {first[1]} read {first[0]!r}, "
                    f"{reading.reader} {value!r}"
                )
    return found


def _monotonic(reading: Reading) -> list[str]:
    """I6: the high watermark does not go back, in one leader epoch. (A new leader may not know yet
    how far the others have got: KIP-207.)"""
    return [
        f"I6: the high watermark of {reading.place} went from {before.high_watermark} to "
        f"{end.high_watermark} at {end.at_s:.3f} s, in leader epoch {end.leader_epoch}"
        for before, end in pairwise(reading.ends)
        if end.high_watermark < before.high_watermark and end.leader_epoch == before.leader_epoch
    ]


def _transactions(history: History, final: dict[Place, Reading]) -> list[str]:
    """I4: a reader of what is committed sees a transaction whole or not at all. (Where a power cut
    takes an abort marker with it, the producer's next commit covers its records, in Apache Kafka
    too.)"""
    there = {value for reading in final.values() for _, value, _ in reading.records}
    found = []
    for transaction in history.transactions:
        if any(place not in final for place in transaction.values.values()):
            continue  # of a topic that is compacted
        missing = [value for value in transaction.values if value not in there]
        name = f"{transaction.producer}'s transaction {transaction.number}, {transaction.outcome}"
        if transaction.outcome == COMMITTED and missing:
            found.append(f"I1 lost: of {name}, {missing[:3]} is not read")
        if transaction.outcome == ABORTED and len(missing) < len(transaction.values):
            found.append(f"I4 aborted: of {name}, {set(transaction.values) - set(missing)} is read")
        if transaction.outcome == UNKNOWN and 0 < len(missing) < len(transaction.values):
            found.append(f"I4 part: of {name}, only {missing[:3]} is not read")
    return found


def _nothing_aborted(history: History) -> list[str]:
    """I4: no read_committed consumer ever gets a record of an aborted transaction."""
    aborted = {
        value: transaction
        for transaction in history.transactions
        if transaction.outcome == ABORTED
        for value in transaction.values
    }
    return [
        f"I4 aborted: {reading.reader} read {value!r} at {reading.place} {offset}"
        for reading in history.readings
        if reading.committed
        for offset, value, _ in reading.records
        if value in aborted
    ]


def _last_values_stay(history: History, compacted: dict[Place, Reading]) -> list[str]:
    """I10: the last committed record of a key stays in a topic that is compacted."""
    possible: dict[tuple[Place, bytes], list[bytes]] = {}
    for transaction in history.transactions:
        last: dict[tuple[Place, bytes], bytes] = {}
        for value, place in transaction.values.items():
            if place in compacted and (key := transaction.keys[value]) is not None:
                last[place, key] = value
        if transaction.outcome == COMMITTED:
            possible |= {where: [value] for where, value in last.items()}
        elif transaction.outcome == UNKNOWN:
            for where, value in last.items():
                possible.setdefault(where, [b""]).append(value)
    found = []
    for (place, key), values in possible.items():
        read = [value for _, value, read_key in compacted[place].records if read_key == key]
        if (read[-1] if read else b"") not in values:
            found.append(
                f"I10: the last value of {key!r} at {place} is {read[-1:]}, not of {values}"
            )
    return found


def _nothing_withheld(history: History, compacted: dict[Place, Reading]) -> list[str]:
    """I10: who has read a compacted topic up to some offset was given all that is still there."""
    found = []
    for reading in history.readings:
        final = compacted.get(reading.place)
        if final is None or not reading.committed:
            continue
        given = {offset for offset, _, _ in reading.records}
        up_to = reading.position if reading.judged_up_to is None else reading.judged_up_to
        found += [
            f"I10: {reading.reader} was not given {value!r} at {reading.place} {offset}"
            for offset, value, _ in final.records
            if offset < up_to and offset not in given
        ]
    return found


def _markers_stay(history: History, compacted: dict[Place, Reading]) -> list[str]:
    """I10: compaction keeps the marker of each transaction for delete.retention.ms."""
    ended = Counter(
        (transaction.producer, transaction.producer_id, place)
        for transaction in history.transactions
        if transaction.is_ended
        for place in set(transaction.values.values())
        if place in compacted
    )
    there = {place: Counter(reading.markers) for place, reading in compacted.items()}
    return [
        f"I10: at {place} only {there[place][producer_id]} markers of {producer} are left, which "
        f"has ended {count} transactions"
        for (producer, producer_id, place), count in ended.items()
        if there[place][producer_id] < count
    ]


def _commits_stay(history: History) -> list[str]:
    """I7: who asks for a committed offset gets one at least as high as any that was acknowledged
    before, and none that was never committed."""
    commits: dict[tuple[str, Place], list[Commit]] = defaultdict(list)
    for commit in history.commits:
        commits[commit.group, commit.place].append(commit)
    found = []
    for fetched in history.fetched:
        before = [
            commit
            for commit in commits[fetched.group, fetched.place]
            if commit.at_s <= fetched.at_s and not commit.is_refused
        ]
        acknowledged = [
            commit
            for commit in before
            if commit.acknowledged_s is not None and commit.acknowledged_s < fetched.at_s
        ]
        highest = max(acknowledged, key=lambda commit: commit.offset, default=None)
        if highest is not None and fetched.offset < highest.offset:
            if any(
                _may_be_later(commit, highest)
                for commit in before
                if commit.offset == fetched.offset
            ):
                continue
            found.append(
                f"I7 lost: {fetched.member} was given {fetched.offset} of {fetched.group} "
                f"{fetched.place} at {fetched.at_s:.3f} s, {highest.member} had committed "
                f"{highest.offset} at {highest.acknowledged_s:.3f} s"
            )
    return found


def _may_be_later(commit: Commit, other: Commit) -> bool:
    """Whether a commit, sent without waiting for others, may have taken effect after another of
    its generation, or of a later one of the same member (KIP-1251)."""
    is_before = commit.acknowledged_s is not None and commit.acknowledged_s < other.at_s
    is_own = commit.member_id != "" and commit.member_id == other.member_id
    return not is_before and (is_own or commit.generation >= other.generation)


def _replaced_members_commit_nothing(history: History, stored: Iterable[Reading]) -> list[str]:
    """I7: among the commits of a partition as they are stored, none of an earlier generation is
    behind one of a later generation. `stored` are the partitions of the offsets' topic."""
    generations: dict[tuple[str, Place, int], set[int]] = defaultdict(set)
    members: dict[tuple[str, Place, int], set[str]] = defaultdict(set)
    for commit in history.commits:
        generations[commit.group, commit.place, commit.offset].add(commit.generation)
        members[commit.group, commit.place, commit.offset].add(commit.member_id)
    latest: dict[tuple[str, Place], tuple[int, int]] = {}
    found = []
    for reading in stored:
        for at, value, key in reading.records:
            committed = _committed_offset(key, value)
            if committed is None:
                continue
            group, place, offset = committed
            possible = generations[group, place, offset]
            generation, before = latest.get((group, place), (-1, -1))
            if not possible:
                found.append(f"I7 foreign: {offset} of {group} {place} was never committed")
            elif max(possible) < generation:
                if members[committed] & members[group, place, before] - {""}:
                    continue  # KIP-1251
                found.append(
                    f"I7 stale: {offset} of {group} {place}, of generation {possible}, is stored "
                    f"at {at} behind {before} of generation {generation}"
                )
            else:
                oldest = min(each for each in possible if each >= generation)
                latest[group, place] = (oldest, offset)
    return found


def _committed_offset(key: bytes | None, value: bytes | None) -> tuple[str, Place, int] | None:
    """(group, partition, offset) of a record of the offsets' topic, in the form of Apache Kafka's
    OffsetCommitKey and OffsetCommitValue; None for other records, and what removes an offset."""
    if key is None or value is None or int.from_bytes(key[:2]) > 1:
        return None
    names, at = [], 2
    for _ in range(2):
        length = int.from_bytes(key[at : at + 2])
        names.append(key[at + 2 : at + 2 + length].decode())
        at += 2 + length
    group, topic = names
    return group, (topic, int.from_bytes(key[at : at + 4])), int.from_bytes(value[2:10])
