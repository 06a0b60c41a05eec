"""Members of consumer groups, of both protocols, that commit ever higher offsets.

A member that is given a partition asks for its committed offset and goes on from there: so within a
partition the commits of all owners rise, and a fetched offset that is lower than an acknowledged
one shows a lost commit; a commit that is accepted from a member that has been replaced shows too.
The rules are those of Apache Kafka's `AbstractCoordinator` and `ConsumerCoordinator` (clients 3.9),
and of `ConsumerHeartbeatRequestManager` (KIP-848).
"""

from __future__ import annotations

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.client import BACKOFF_S, Client, Lost
from sim.history import Commit, Fetched, History
from sim.producers import RETRIABLE

HEARTBEAT_S = 1.0
"""At most, between two heartbeats of a member of the classic protocol: a third of its session's
timeout, if that is less."""

AGAIN = RETRIABLE | {Code.UNSTABLE_OFFSET_COMMIT}

MAY_BE_WRITTEN = frozenset({Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR})
"""A commit with such an error may lie in the log, and take effect later: that is how the
coordinator says that the write timed out, or that it lost the lead meanwhile."""


class Replaced(Exception):
    """The group goes on without this member as it was: it has to join again."""


class Rebalance(Exception):
    """The member keeps its id, and has to take part in a rebalance."""


@dataclass(frozen=True)
class Membership:
    """What the members of a group have in common."""

    group: str
    topic: str
    topic_id: UUID
    partitions: int
    session_timeout_ms: int
    commit_s: float
    """Between two commits, on average."""
    stay_s: float
    """How long a member stays, on average."""


class Member(Actor, ABC):
    """One member, until it is stopped."""

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        membership: Membership,
        instance: str | None = None,
    ) -> None:
        super().__init__(client, history, chance)
        self.membership = membership
        self.instance = instance
        self.positions: dict[int, int] = {}
        """The offsets to be committed next, of the partitions that it owns."""
        self.is_stopping = False
        self.member_id = ""
        self.generation = -1

    async def run(self) -> None:
        """Join, work and leave, again and again."""
        await self._find_coordinator()
        while not self.is_stopping:
            try:
                await self.stay(self.membership.stay_s * 2 * self.chance.random())
                await self.leave()
            except Replaced:
                if self.chance.random() < 0.3:
                    self.commit_late()
            self.positions.clear()
            self.member_id, self.generation = self.new_id(), -1
            await asyncio.sleep(self.chance.random())

    async def _find_coordinator(self) -> None:
        """Ask until there is one: the first who asks has the topic of the offsets created."""
        while (
            await self._ask("FindCoordinator", 2, key=self.membership.group, key_type=0)
        ).error_code != Code.NONE:
            await asyncio.sleep(BACKOFF_S)

    @abstractmethod
    def new_id(self) -> str:
        """The id with which it joins."""

    @abstractmethod
    async def stay(self, for_s: float) -> None:
        """Be a member for so long. `Replaced`."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group, so that others need not wait for the end of the session."""

    # -- offsets --------------------------------------------------------------------------

    async def take(self, partitions: Iterable[int]) -> None:
        """Own these from now on. `Replaced`, `Rebalance`."""
        assigned = sorted(partitions)
        self.positions = {index: at for index, at in self.positions.items() if index in assigned}
        new = [index for index in assigned if index not in self.positions]
        if new:
            at_s = self.history.now_s()
            found = await self._fetch(new)
            for partition, offset in found.items():
                place = (self.membership.topic, partition)
                group = self.membership.group
                self.history.fetched.append(Fetched(self.name, group, place, offset, at_s))
                self.positions[partition] = max(offset, 0)

    async def _fetch(self, partitions: Sequence[int]) -> dict[int, int]:
        values = fetching(self.membership, partitions, self.member_id, self.member_epoch())
        while True:
            answer = await self._ask("OffsetFetch", 9, **values)
            (group,) = answer.groups
            found = [partition for topic in group.topics for partition in topic.partitions]
            codes = {Code(group.error_code), *(Code(partition.error_code) for partition in found)}
            if codes == {Code.NONE}:
                return {
                    partition.partition_index: partition.committed_offset for partition in found
                }
            for code in codes - {Code.NONE}:
                self._check(code)
            await asyncio.sleep(BACKOFF_S)

    def member_epoch(self) -> int:
        """For OffsetFetch, which knows only those of the consumer protocol."""
        return -1

    def next_commit_s(self) -> float:
        """When to commit next, by the loop's clock."""
        pause_s = self.membership.commit_s * 2 * self.chance.random()
        return asyncio.get_running_loop().time() + pause_s

    async def commit(self) -> None:
        """Commit something higher for some of the partitions, perhaps without waiting for the
        response, as `commitAsync` does. `Replaced`, `Rebalance`."""
        own = [partition for partition in self.positions if self.chance.random() < 0.7]
        if not own:
            return
        offsets = {
            partition: self.history.higher_offset(self.positions[partition]) for partition in own
        }
        self.positions |= offsets  # whether it is acknowledged or not: never the same twice
        work = self._commit(offsets, self.generation, self.committing(offsets), self.client)
        if self.chance.random() < 0.7:
            for code in await work:
                self._check(code)
        else:
            self.client.process.spawn(work, name="commit")

    def commit_late(self) -> None:
        """A commit is delayed on its way, on a connection of its own, while the member rejoins."""
        higher = self.history.higher_offset
        offsets = {partition: higher(offset) for partition, offset in self.positions.items()}
        values, generation = self.committing(offsets), self.generation
        client = self.client.another()

        async def commit() -> None:
            await client.connection()
            await asyncio.sleep(self.membership.session_timeout_ms / 1000 * self.chance.random())
            await self._commit(offsets, generation, values, client)
            client.hang_up()

        if offsets:
            self.client.process.spawn(commit(), name="late commit")

    async def _commit(
        self,
        offsets: Mapping[int, int],
        generation: int,
        values: Mapping[str, Any],
        client: Client,
    ) -> set[Code]:
        """The errors that it is answered with."""
        membership, history = self.membership, self.history
        commits = [
            Commit(
                self.name,
                membership.group,
                (membership.topic, index),
                generation,
                offset,
                history.now_s(),
                member_id="" if isinstance(self, ClassicMember) else values["member_id"],
            )
            for index, offset in offsets.items()
        ]
        history.commits += commits
        try:
            answer = await client.ask("OffsetCommit", 9, **values)
        except Lost:  # and not again: it could undo a later one
            client.hang_up()
            return set()
        codes = {
            partition.partition_index: Code(partition.error_code)
            for partition in answer.topics[0].partitions
        }
        for commit in commits:
            code = codes[commit.place[1]]
            if code is Code.NONE:
                commit.acknowledged_s = history.now_s()
            else:
                commit.is_refused = code not in MAY_BE_WRITTEN
        return set(codes.values()) - {Code.NONE}

    def committing(self, offsets: Mapping[int, int]) -> dict[str, Any]:
        """The values of an OffsetCommit."""
        membership = self.membership
        partitions = [
            {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
            for index, offset in offsets.items()
        ]
        return {
            "group_id": membership.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "topics": [{"name": membership.topic, "partitions": partitions}],
        }

    # -- asking ---------------------------------------------------------------------------

    def _check(self, code: Code) -> None:
        """Raise what follows from an error; nothing if the request may be sent again."""
        if code in (
            Code.UNKNOWN_MEMBER_ID,
            Code.ILLEGAL_GENERATION,
            Code.FENCED_INSTANCE_ID,
            Code.FENCED_MEMBER_EPOCH,
            Code.UNRELEASED_INSTANCE_ID,
        ):
            raise Replaced(code)
        if code in (Code.REBALANCE_IN_PROGRESS, Code.STALE_MEMBER_EPOCH):
            raise Rebalance(code)
        if code is Code.GROUP_ID_NOT_FOUND and self._may_be_gone():
            raise Replaced(code)
        if code not in AGAIN:
            self.history.violation(f"{self.name} in {self.membership.group}: {code.name}")

    def _may_be_gone(self) -> bool:
        """Whether the group may have been removed: it was empty for a moment, as when the member
        was paused, and had no offsets (offsets.retention.check.interval.ms)."""
        group = self.membership.group
        return self.history.may_lose or not any(
            commit.group == group and commit.acknowledged_s is not None
            for commit in self.history.commits
        )

    async def _ask(self, name: str, version: int, /, **values: Any) -> Any:
        return (await self.client.ask_until_answered(name, version, **values)).message


def fetching(
    membership: Membership, partitions: Sequence[int], member_id: str = "", epoch: int = -1
) -> dict[str, Any]:
    """The values of an OffsetFetch."""
    return {
        "require_stable": True,
        "groups": [
            {
                "group_id": membership.group,
                "member_id": member_id if epoch >= 0 else None,
                "member_epoch": epoch,
                "topics": [{"name": membership.topic, "partition_indexes": list(partitions)}],
            }
        ],
    }


async def committed_offsets(client: Client, membership: Membership) -> dict[int, int]:
    """All committed offsets of a group, by partition."""
    values = fetching(membership, range(membership.partitions))
    while True:
        await client.ask_until_answered("FindCoordinator", 2, key=membership.group, key_type=0)
        answer, _ = await client.ask_until_answered("OffsetFetch", 9, **values)
        (group,) = answer.groups
        found = [partition for topic in group.topics for partition in topic.partitions]
        if not group.error_code and not any(partition.error_code for partition in found):
            return {partition.partition_index: partition.committed_offset for partition in found}
        await asyncio.sleep(BACKOFF_S)


class ClassicMember(Member):
    """A member of the classic protocol."""

    def new_id(self) -> str:
        return ""

    async def stay(self, for_s: float) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + for_s
        while not self.is_stopping and loop.time() < ends_s:
            try:
                await self._join()
                await self._work(ends_s)
            except Rebalance:
                if self.chance.random() < 0.3:
                    self.commit_late()
                self.positions.clear()  # as with the eager assignors

    async def _work(self, ends_s: float) -> None:
        loop = asyncio.get_running_loop()
        interval_s = min(HEARTBEAT_S, self.membership.session_timeout_ms / 3000)
        heartbeat_s, next_s = loop.time(), self.next_commit_s()
        while not self.is_stopping and loop.time() < ends_s:
            if next_s < heartbeat_s:
                await asyncio.sleep(next_s - loop.time())
                await self.commit()
                next_s = self.next_commit_s()
                continue
            await asyncio.sleep(heartbeat_s - loop.time())
            heartbeat_s = loop.time() + interval_s
            answer = await self._ask("Heartbeat", 4, **self._identity())
            if answer.error_code != Code.NONE:
                self._check(Code(answer.error_code))

    def _identity(self) -> dict[str, Any]:
        return {
            "group_id": self.membership.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }

    async def _join(self) -> None:
        timeout_ms = self.membership.session_timeout_ms
        while True:
            joined = await self._ask(
                "JoinGroup",
                7,
                group_id=self.membership.group,
                session_timeout_ms=timeout_ms,
                rebalance_timeout_ms=timeout_ms,
                member_id=self.member_id,
                group_instance_id=self.instance,
                protocol_type="consumer",
                protocols=[{"name": "dealt", "metadata": b""}],
            )
            code = Code(joined.error_code)
            if code is Code.NONE:
                break
            if code is Code.MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                continue
            if code is Code.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            else:
                self._check(code)
            await asyncio.sleep(BACKOFF_S)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        synced = await self._sync(joined)
        await self.take(json.loads(synced.assignment or b"[]"))

    async def _sync(self, joined: Any) -> Any:
        assignments = []
        if joined.leader == joined.member_id:
            members = sorted(member.member_id for member in joined.members)
            for number, member_id in enumerate(members):
                dealt = range(number, self.membership.partitions, len(members))
                part = json.dumps(list(dealt)).encode()
                assignments.append({"member_id": member_id, "assignment": part})
        while True:
            synced = await self._ask("SyncGroup", 4, **self._identity(), assignments=assignments)
            if synced.error_code == Code.NONE:
                return synced
            self._check(Code(synced.error_code))
            await asyncio.sleep(BACKOFF_S)

    async def leave(self) -> None:
        member = {"member_id": self.member_id, "group_instance_id": self.instance}
        if self.member_id and self.instance is None:
            await self._ask("LeaveGroup", 4, group_id=self.membership.group, members=[member])


class ConsumerMember(Member):
    """A member of the consumer protocol (KIP-848)."""

    def new_id(self) -> str:
        return str(UUID(int=self.chance.getrandbits(128)))

    def member_epoch(self) -> int:
        return self.generation

    async def stay(self, for_s: float) -> None:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + for_s
        self.member_id, self.generation = self.new_id(), 0
        owned: list[int] = []
        next_s = self.next_commit_s()
        while not self.is_stopping and loop.time() < ends_s:
            answer = await self._ask("ConsumerGroupHeartbeat", 1, **self._heartbeat(owned))
            code = Code(answer.error_code)
            if code is not Code.NONE:
                self._check(code)
                await asyncio.sleep(BACKOFF_S)
                continue
            self.generation = answer.member_epoch
            if answer.assignment is not None:
                owned = [
                    partition
                    for topic in answer.assignment.topic_partitions
                    for partition in topic.partitions
                ]
            heartbeat_s = loop.time() + answer.heartbeat_interval_ms / 1000
            try:
                await self.take(owned)
                while next_s <= heartbeat_s:
                    await asyncio.sleep(next_s - loop.time())
                    await self.commit()
                    next_s = self.next_commit_s()
                await asyncio.sleep(heartbeat_s - loop.time())
            except Rebalance:
                await asyncio.sleep(BACKOFF_S)

    def _heartbeat(self, owned: Sequence[int]) -> dict[str, Any]:
        membership = self.membership
        topics = [{"topic_id": membership.topic_id, "partitions": list(owned)}] if owned else []
        return {
            "group_id": membership.group,
            "member_id": self.member_id,
            "member_epoch": self.generation,
            "instance_id": self.instance,
            "rebalance_timeout_ms": membership.session_timeout_ms,
            "subscribed_topic_names": [membership.topic],
            "topic_partitions": topics,
        }

    async def leave(self) -> None:
        values = {**self._heartbeat([]), "member_epoch": -1 if self.instance is None else -2}
        await self._ask("ConsumerGroupHeartbeat", 1, **values)
