"""Classic groups under random events, on virtual time: clients start, stall, change and leave, the
coordinator moves, and appends fail.

The model is what clients are promised: one generation at a time, in which each member gets its own
part of the leader's assignment; a client that follows the protocol stays a member; each request is
answered once; and another coordinator knows what was stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.group_requests import LeavingMember
from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.log.journal import ReplyFuture
from kavka.wire.errors import ErrorCode
from support.classic_clients import ClassicClients, Client, Request
from support.classic_groups import BOTH, RANGE, REBALANCE_MS, SESSION_MS

HEARTBEAT_MS = 3_000
CLIENTS = 4
NUMBERS = st.integers(0, CLIENTS - 1)
VERSIONS = st.sampled_from([0, 3, 4, 5, 8, 9])
CODES = st.sampled_from(
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]
)


@dataclass(eq=False)
class Consumer(Client):
    """One consumer, as stock ones behave."""

    runs: bool = False
    heartbeat_ms: int = 0
    """Time of the last one."""

    @property
    def is_stable(self) -> bool:
        api, code = self.last
        return api not in ("", "JoinGroup") and code is ErrorCode.NONE


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.coordinator = ClassicClients()
        self.kit = self.coordinator.kit
        self.consumers = [Consumer(f"c{number}") for number in range(CLIENTS)]
        self.started = CLIENTS

    # -- consumers

    def step(self, consumer: Consumer) -> None:
        """Do the next thing, if there is one."""
        self.receive()
        if not consumer.runs or any(
            request.client is consumer for request in self.coordinator.waiting
        ):
            return
        api, code = consumer.last
        if consumer.is_stable:
            self.heartbeat(consumer)
        elif (api, code) == ("JoinGroup", ErrorCode.NONE):
            members, generation = consumer.members, consumer.generation
            assignments = {
                member_id: f"{member_id} in {generation}".encode() for member_id in members
            }
            self.coordinator.sync(consumer, assignments)
        else:
            self.coordinator.join(consumer, consumer.member_id)

    def heartbeat(self, consumer: Consumer) -> None:
        now_ms = self.kit.now_ms
        if now_ms - consumer.heartbeat_ms >= HEARTBEAT_MS and self.kit.journal.is_fully_committed:
            consumer.heartbeat_ms = now_ms
            code = self.coordinator.heartbeat(consumer)
            self.receive()
            assert code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) or (
                consumer.generation < 0
            )

    def receive(self) -> None:
        for client, api, _ in self.coordinator.receive():
            if isinstance(client, Consumer):
                self.received(client, api, client.last[1])

    def received(self, consumer: Consumer, api: str, code: ErrorCode) -> None:
        if api == "SyncGroup" and code is ErrorCode.NONE:
            consumer.heartbeat_ms = self.kit.now_ms
            others = [
                other.assignment
                for other in self.consumers
                if other is not consumer
                and other.runs
                and other.is_stable
                and other.generation == consumer.generation
                # an older one of the same instance does not know yet that it is fenced
                and (other.instance_id is None or other.instance_id != consumer.instance_id)
            ]
            assert not consumer.assignment or consumer.assignment not in others
        elif code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            consumer.runs, consumer.generation = False, -1
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            consumer.member_id, consumer.generation = "", -1

    def pass_time(self, ms: int, *, step_ms: int = 500) -> None:
        """The consumers that run go on meanwhile."""
        for _ in range(0, ms, step_ms):
            for consumer in self.consumers:
                self.step(consumer)
            self.kit.advance(step_ms)
        for consumer in self.consumers:
            self.step(consumer)

    # -- events

    @rule(
        number=NUMBERS,
        protocols=st.sampled_from([RANGE, BOTH]),
        instance=st.sampled_from([None, None, "i", "j"]),
        version=VERSIONS,
    )
    def start(self, number: int, protocols: Any, instance: str | None, version: int) -> None:
        if not self.consumers[number].runs:
            self.started += 1
            self.consumers[number] = Consumer(
                f"c{self.started}",
                instance if version >= 5 else None,
                values={"protocols": protocols, "version": version},
                runs=True,
            )
            self.step(self.consumers[number])

    @rule(number=NUMBERS)
    def stall(self, number: int) -> None:
        self.consumers[number].runs = False

    @rule(number=NUMBERS)
    def go_on_after_a_stall(self, number: int) -> None:
        consumer = self.consumers[number]
        consumer.runs = consumer.runs or consumer.generation >= 0

    @rule(number=NUMBERS)
    def change_subscription(self, number: int) -> None:
        consumer = self.consumers[number]
        if consumer.runs and consumer.is_stable:
            (name, metadata), *others = consumer.values["protocols"]
            changed = OfferedProtocol(name, metadata + b"+")  # behind what the broker decodes
            consumer.values["protocols"] = (changed, *others)
            consumer.last = ("", ErrorCode.NONE)

    @rule(number=NUMBERS, by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        consumer = self.consumers[number]
        if consumer.member_id:
            by_instance = by_instance and consumer.instance_id is not None
            member_id = "" if by_instance else consumer.member_id
            consumer.runs = False
            self.other_request(self.kit.leave(LeavingMember(member_id, consumer.instance_id)))

    def other_request(self, future: ReplyFuture) -> None:
        """One to whose response no consumer reacts."""
        self.coordinator.waiting.append(Request(Client("other"), "LeaveGroup", future))

    @rule(ms=st.sampled_from([0, 1_000, 3_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int) -> None:
        self.pass_time(ms)

    @rule(ms=st.sampled_from([1_000, SESSION_MS, REBALANCE_MS, 300_000]))
    def all_stall(self, ms: int) -> None:
        self.kit.advance(ms)

    @rule(holds=st.booleans())
    def hold_commits(self, holds: bool) -> None:
        self.kit.holds = holds
        self.kit.commit_unless_held()

    @rule(code=CODES)
    def the_next_append_fails(self, code: ErrorCode) -> None:
        self.kit.port.failures = [code]

    @rule(size_max=st.sampled_from([3, 100]))
    def limit_the_size(self, size_max: int) -> None:
        self.kit.settings.group_max_size = size_max

    @precondition(lambda self: not self.kit.holds)
    @rule()
    def move_the_coordinator(self) -> None:
        self.kit.move()

    @rule(
        member=st.sampled_from(["", "unknown"]),
        generation=st.integers(-1, 3),
        instance=st.sampled_from([None, "i", "k"]),
        kind=st.sampled_from(["", "consumer", "x"]),
    )
    def wrong_requests(self, member: str, generation: int, instance: str | None, kind: str) -> None:
        kit = self.kit
        self.other_request(kit.sync(member, generation, instance_id=instance, kind=kind))
        self.other_request(kit.leave(LeavingMember(member, "k")))
        if member:
            join = kit.join(member, instance_id=instance, kind=kind)
            assert join.is_complete or not kit.journal.is_fully_committed
            self.other_request(join)

    # -- what always holds

    @property
    def group(self) -> ClassicGroup | None:
        return self.kit.group if "g" in self.kit.shard.state.groups else None

    @invariant()
    def the_coordinator_is_sound(self) -> None:
        self.coordinator.check()

    @invariant()
    def each_member_has_its_own_part(self) -> None:
        if self.group is not None and self.group.current is GroupState.STABLE:
            parts = [
                member.assignment for member in self.group.members.values() if member.assignment
            ]
            assert len(parts) == len(set(parts))
            assert all(part.endswith(b" in %d" % self.group.generation) for part in parts)

    def teardown(self) -> None:
        """Undisturbed, the consumers that run are the members of a stable group."""
        self.kit.port.failures = []
        self.hold_commits(False)
        self.limit_the_size(100)
        self.pass_time(2 * REBALANCE_MS + 3 * SESSION_MS + 300_000, step_ms=1_000)
        self.the_coordinator_is_sound()
        running = {consumer.member_id: consumer for consumer in self.consumers if consumer.runs}
        if self.group is None:
            assert not running
            return
        assert running.keys() == self.group.members.keys()
        assert self.group.current is (GroupState.STABLE if running else GroupState.EMPTY)
        generation = self.group.generation
        for member in self.group.members.values():
            consumer = running[member.member_id]
            assert (consumer.is_stable, consumer.generation) == (True, generation)
            assert consumer.assignment == member.assignment
        self.pass_time(2 * SESSION_MS, step_ms=1_000)
        if running:
            assert self.group.generation == generation, "it rebalances without a reason"
        assert not self.coordinator.waiting


Groups.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestGroups = Groups.TestCase
