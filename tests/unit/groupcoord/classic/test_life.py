"""Classic groups under random events, on virtual time: clients start, stall, change and leave, the
coordinator moves, and appends fail.

The model is what clients are promised: one generation at a time, in which each member gets its own
part of the leader's assignment; a client that follows the protocol stays a member; each request is
answered once; and another coordinator knows what was stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kavka.groupcoord.classic.group import ClassicGroup, GroupState
from kavka.groupcoord.classic.members import OfferedProtocol
from kavka.groupcoord.classic.requests import Leaver
from kavka.log.journal import Ticket
from kavka.wire.errors import ErrorCode
from support.classic_groups import (
    BOTH,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicKit,
    assert_replayed,
    assert_sound,
    code_of,
)

HEARTBEAT_MS = 3_000
CLIENTS = 4
NUMBERS = st.integers(0, CLIENTS - 1)
VERSIONS = st.sampled_from([0, 3, 4, 5, 8, 9])
CODES = st.sampled_from(
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]
)


@dataclass
class Client:
    """One consumer, as stock ones behave."""

    number: int
    instance_id: str | None = None
    protocols: tuple[OfferedProtocol, ...] = RANGE
    version: int = 9
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    ticket: Ticket | None = None
    is_syncing: bool = False
    is_stable: bool = False
    runs: bool = False
    heartbeat_ms: int = 0
    """Time of the last one."""
    assigned: dict[int, bytes] = field(default_factory=dict)
    """Assignments by generation."""

    def failed(self, code: ErrorCode) -> None:
        """A request has failed: most errors mean to join again."""
        self.is_stable = False
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED):
            self.runs, self.generation = False, -1
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.member_id, self.generation = "", -1


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kit = ClassicKit()
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.tickets: list[Ticket] = []
        self.assignments: dict[tuple[int, int], dict[str, bytes]] = {}
        """Of the leaders, by coordinator and generation."""
        self.coordinator = 0

    # -- clients

    def step(self, client: Client) -> None:
        """Do the next thing, if there is one."""
        if not client.runs:
            return
        if client.ticket is not None:
            if client.ticket.settled:
                self.answered(client, client.ticket)
        elif not client.is_stable:
            self.join(client)
        elif self.kit.now_ms - client.heartbeat_ms >= HEARTBEAT_MS:
            self.heartbeat(client)

    def join(self, client: Client) -> None:
        client.is_syncing = False
        client.ticket = self.kit.join(
            client.member_id,
            instance_id=client.instance_id,
            client_id=f"c{client.number}",
            protocols=client.protocols,
            version=client.version,
        )
        self.tickets.append(client.ticket)

    def answered(self, client: Client, ticket: Ticket) -> None:
        client.ticket = None
        code = code_of(ticket)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = ticket.answer.member_id
        elif code is not ErrorCode.NONE:
            client.failed(code)
        elif client.is_syncing:
            self.synced(client, ticket.answer)
        else:
            self.joined(client, ticket.answer)

    def joined(self, client: Client, answer: Any) -> None:
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.protocol = answer.protocol_name
        assignment: dict[str, bytes] = {}
        if answer.leader == answer.member_id and answer.members and not answer.skip_assignment:
            ids = [one.member_id for one in answer.members]
            assert client.member_id in ids
            assert len(ids) == len(set(ids))
            key = (self.coordinator, answer.generation_id)
            assignment = self.assignments[key] = {one: f"{one} in {key}".encode() for one in ids}
        client.is_syncing = True
        client.ticket = self.kit.sync(
            client.member_id,
            client.generation,
            assignment,
            instance_id=client.instance_id,
            protocol=client.protocol,
        )
        self.tickets.append(client.ticket)

    def synced(self, client: Client, answer: Any) -> None:
        client.is_stable, client.heartbeat_ms = True, self.kit.now_ms
        client.assigned[client.generation] = answer.assignment
        assert answer.protocol_name == client.protocol
        others = [
            one.assigned.get(client.generation)
            for one in self.clients
            if one is not client
            and one.runs
            and one.generation == client.generation
            # an older one of the same instance does not know yet that it is fenced
            and (one.instance_id is None or one.instance_id != client.instance_id)
        ]
        assert not answer.assignment or answer.assignment not in others, "two have the same part"

    def heartbeat(self, client: Client) -> None:
        if self.kit.journal.is_fully_committed:
            code = self.kit.beat(client.member_id, client.generation, client.instance_id)
            client.heartbeat_ms = self.kit.now_ms
            if code is not ErrorCode.NONE:
                client.failed(code)
                assert code is ErrorCode.REBALANCE_IN_PROGRESS or client.generation < 0

    def pass_time(self, ms: int, *, step_ms: int = 500) -> None:
        """The clients that run go on meanwhile."""
        for _ in range(0, ms, step_ms):
            for client in self.clients:
                self.step(client)
            self.kit.advance(step_ms)
        for client in self.clients:
            self.step(client)

    # -- events

    @rule(
        number=NUMBERS,
        protocols=st.sampled_from([RANGE, BOTH]),
        instance=st.sampled_from([None, None, "i", "j"]),
        version=VERSIONS,
    )
    def start(self, number: int, protocols: Any, instance: str | None, version: int) -> None:
        if not self.clients[number].runs:
            instance = instance if version >= 5 else None
            self.clients[number] = Client(number, instance, protocols, version, runs=True)
            self.step(self.clients[number])

    @rule(number=NUMBERS)
    def stall(self, number: int) -> None:
        self.clients[number].runs = False

    @rule(number=NUMBERS)
    def go_on_after_a_stall(self, number: int) -> None:
        client = self.clients[number]
        client.runs = client.runs or client.generation >= 0

    @rule(number=NUMBERS)
    def change_subscription(self, number: int) -> None:
        client = self.clients[number]
        if client.runs and client.is_stable:
            name, metadata = client.protocols[0]
            changed = OfferedProtocol(name, metadata + b"+")  # behind what the broker decodes
            client.protocols = (changed, *client.protocols[1:])
            client.is_stable = False

    @rule(number=NUMBERS, by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        client = self.clients[number]
        if client.member_id:
            by_instance = by_instance and client.instance_id is not None
            member_id = "" if by_instance else client.member_id
            self.tickets.append(self.kit.leave(Leaver(member_id, client.instance_id)))
            client.runs = False

    @rule(ms=st.sampled_from([0, 1_000, 3_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int) -> None:
        self.pass_time(ms)

    @rule(ms=st.sampled_from([1_000, SESSION_MS, REBALANCE_MS, 300_000]))
    def all_clients_stall(self, ms: int) -> None:
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
        self.coordinator += 1

    @rule(
        member=st.sampled_from(["", "unknown"]),
        generation=st.integers(-1, 3),
        instance=st.sampled_from([None, "i", "k"]),
        kind=st.sampled_from(["", "consumer", "x"]),
    )
    def wrong_requests(self, member: str, generation: int, instance: str | None, kind: str) -> None:
        kit = self.kit
        self.tickets.append(kit.sync(member, generation, instance_id=instance, kind=kind))
        self.tickets.append(kit.leave(Leaver(member, "k")))
        if member:
            join = kit.join(member, instance_id=instance, kind=kind)
            assert join.settled or not kit.journal.is_fully_committed
            self.tickets.append(join)

    # -- what always holds

    @property
    def group(self) -> ClassicGroup | None:
        return self.kit.group if "g" in self.kit.shard.state.groups else None

    @invariant()
    def the_group_is_sound_and_stored(self) -> None:
        if self.group is not None:
            assert_sound(self.group, self.kit)
            assert_replayed(self.group, self.kit)

    @invariant()
    def no_request_is_lost(self) -> None:
        self.tickets = [one for one in self.tickets if not one.settled]
        unanswered = {id(ticket) for ticket in self.tickets}
        waiting = {id(ticket) for ticket in self.kit.shard.resign()}
        assert waiting <= unanswered
        assert waiting == unanswered or not self.kit.journal.is_fully_committed

    @invariant()
    def each_member_has_its_own_part(self) -> None:
        if self.group is None or self.group.current is not GroupState.STABLE:
            return
        assignment = self.assignments.get((self.coordinator, self.group.generation))
        if assignment is not None:
            parts = [one.assignment for one in self.group.members.values()]
            assert set(parts) <= {*assignment.values(), b""}
            assert len(parts) == len(set(parts)) or b"" in parts

    def teardown(self) -> None:
        """Undisturbed, the clients that run are the members of a stable group."""
        self.kit.port.failures = []
        self.hold_commits(False)
        self.limit_the_size(100)
        self.pass_time(2 * REBALANCE_MS + 3 * SESSION_MS + 300_000, step_ms=1_000)
        running = [one for one in self.clients if one.runs]
        if self.group is None:
            assert not running
            return
        self.the_group_is_sound_and_stored()
        assert {one.member_id for one in running} == set(self.group.members)
        for client in running:
            assert client.is_stable
            assert client.generation == self.group.generation
            member = self.group.members[client.member_id]
            assert client.assigned[client.generation] == member.assignment
        if running:
            assert self.group.current is GroupState.STABLE
        generation = self.group.generation
        self.pass_time(2 * SESSION_MS, step_ms=1_000)
        assert self.group.generation == generation, "it rebalances without a reason"
        assert all(ticket.settled for ticket in self.tickets)


Groups.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGroups = Groups.TestCase
