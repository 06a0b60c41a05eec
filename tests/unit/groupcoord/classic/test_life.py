"""Classic groups as a whole: clients that come, go, stall and restart, on virtual time.

The model is what clients are promised: one generation at a time, of which all members hear the
same; what the leader assigns is what each gets; who keeps to the protocol stays a member; every
request is answered once; and another coordinator knows what was stored.
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
    assert_sound,
    code_of,
)

BEAT_MS = 3_000
CLIENTS = 4
SIZE_MAX = 3
VERSIONS = st.sampled_from([0, 3, 4, 5, 8, 9])
CODES = st.sampled_from(
    [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE]
)
FORGET = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


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
    syncs: bool = False
    is_stable: bool = False
    runs: bool = False
    fenced: bool = False
    beaten_ms: int = 0
    assigned: dict[int, bytes] = field(default_factory=dict)
    """By generation."""

    def forget(self) -> None:
        """Begin without an id."""
        self.member_id, self.generation, self.is_stable, self.ticket = "", -1, False, None


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kit = ClassicKit()
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.asked: list[tuple[str, Ticket]] = []
        self.leaders: dict[tuple[int, int], str] = {}
        """By life of the coordinator and generation."""
        self.plans: dict[tuple[int, int], dict[str, bytes]] = {}
        self.life = 0

    # -- what clients do

    def turn(self, client: Client) -> None:
        """Do the next thing, if there is one."""
        if not client.runs:
            return
        if client.ticket is not None:
            if client.ticket.settled:
                self.answered(client, client.ticket)
        elif client.is_stable:
            if self.kit.now_ms - client.beaten_ms >= BEAT_MS:
                self.beat(client)
        else:
            self.join(client)

    def join(self, client: Client) -> None:
        client.syncs = False
        client.ticket = self.kit.join(
            client.member_id,
            instance_id=client.instance_id,
            client_id=f"c{client.number}",
            protocols=client.protocols,
            version=client.version,
        )
        self.asked.append(("join", client.ticket))

    def answered(self, client: Client, ticket: Ticket) -> None:
        client.ticket = None
        code = code_of(ticket)
        if code is ErrorCode.NONE:
            if client.syncs:
                self.assigned(client, ticket.answer)
            else:
                self.joined(client, ticket.answer)
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = ticket.answer.member_id
        elif code is ErrorCode.FENCED_INSTANCE_ID:
            client.runs, client.fenced = False, True
        elif code in FORGET:
            client.forget()
        elif code is ErrorCode.GROUP_MAX_SIZE_REACHED:
            client.forget()
            client.runs = False

    def joined(self, client: Client, answer: Any) -> None:
        client.member_id, client.generation = answer.member_id, answer.generation_id
        client.protocol = answer.protocol_name
        is_leader = answer.leader == answer.member_id
        key = (self.life, answer.generation_id)
        if is_leader and answer.members and not answer.skip_assignment:
            ids = [one.member_id for one in answer.members]
            assert client.member_id in ids
            assert len(ids) == len(set(ids))
            plan = {one: f"{one} in {key}".encode() for one in ids}
            self.plans[key] = plan
        else:
            plan = {}
        client.syncs = True
        client.ticket = self.kit.sync(
            client.member_id,
            client.generation,
            plan,
            instance_id=client.instance_id,
            protocol=client.protocol,
        )
        self.asked.append(("sync", client.ticket))

    def assigned(self, client: Client, answer: Any) -> None:
        client.is_stable = True
        client.beaten_ms = self.kit.now_ms
        client.assigned[client.generation] = answer.assignment
        assert answer.protocol_name == client.protocol
        others = {
            one.assigned.get(client.generation)
            for one in self.clients
            if one is not client
            and one.runs
            and one.generation == client.generation
            # an older one of the same instance does not know yet that it is fenced
            and (one.instance_id is None or one.instance_id != client.instance_id)
        }
        assert not answer.assignment or answer.assignment not in others, "two have the same part"

    def beat(self, client: Client) -> None:
        if self.kit.journal.is_fully_committed:
            code = self.kit.beat(client.member_id, client.generation, client.instance_id)
            client.beaten_ms = self.kit.now_ms
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                client.is_stable = False
            elif code in FORGET:
                client.forget()
            elif code is ErrorCode.FENCED_INSTANCE_ID:
                client.runs, client.fenced = False, True
            else:
                assert code is ErrorCode.NONE

    def pass_time(self, ms: int, *, step_ms: int = 500) -> None:
        """All clients that run go on meanwhile."""
        for _ in range(0, ms, step_ms):
            for client in self.clients:
                self.turn(client)
            self.kit.advance(step_ms)
        for client in self.clients:
            self.turn(client)

    # -- what happens to them

    @rule(
        number=st.integers(0, CLIENTS - 1),
        protocols=st.sampled_from([RANGE, BOTH]),
        instance=st.sampled_from([None, None, "i", "j"]),
        version=VERSIONS,
    )
    def start(self, number: int, protocols: Any, instance: str | None, version: int) -> None:
        client = self.clients[number]
        if not client.runs:
            was_fenced = client.fenced
            self.clients[number] = client = Client(
                number, instance if version >= 5 else None, protocols, version, runs=True
            )
            assert not (was_fenced and client.fenced)
            self.turn(client)

    @rule(number=st.integers(0, CLIENTS - 1))
    def kill(self, number: int) -> None:
        self.clients[number].runs = False

    @rule(number=st.integers(0, CLIENTS - 1))
    def go_on_after_a_stall(self, number: int) -> None:
        client = self.clients[number]
        if not client.fenced and client.generation >= 0:
            client.runs = True

    @rule(number=st.integers(0, CLIENTS - 1))
    def change_subscription(self, number: int) -> None:
        client = self.clients[number]
        if client.runs and client.is_stable:
            name, metadata = client.protocols[0]
            changed = OfferedProtocol(name, metadata + b"+")  # behind what is read of it
            client.protocols = (changed, *client.protocols[1:])
            client.is_stable = False

    @rule(number=st.integers(0, CLIENTS - 1), by_instance=st.booleans())
    def leave(self, number: int, by_instance: bool) -> None:
        client = self.clients[number]
        if not client.member_id:
            return
        leaver = Leaver(client.member_id, client.instance_id)
        if by_instance and client.instance_id is not None:
            leaver = Leaver("", client.instance_id)
        ticket = self.kit.leave(leaver)
        self.asked.append(("leave", ticket))
        client.runs = False

    @rule(ms=st.sampled_from([0, 1_000, 3_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int) -> None:
        self.pass_time(ms)

    @rule(ms=st.sampled_from([1_000, SESSION_MS, REBALANCE_MS, 300_000]))
    def everything_stalls(self, ms: int) -> None:
        self.kit.advance(ms)

    @rule()
    def commits_stop(self) -> None:
        self.kit.holds = True

    @rule()
    def commits_go_on(self) -> None:
        self.kit.holds = False
        self.kit.commit()

    @rule(code=CODES)
    def the_next_append_fails(self, code: ErrorCode) -> None:
        self.kit.port.failures = [code]

    @rule(size_max=st.sampled_from([SIZE_MAX, 100]))
    def the_size_is_limited(self, size_max: int) -> None:
        self.kit.settings.group_max_size = size_max

    @precondition(lambda self: not self.kit.holds)
    @rule()
    def another_coordinator(self) -> None:
        self.kit.move()
        self.life += 1

    @rule(
        member=st.sampled_from(["", "nobody"]),
        generation=st.integers(-1, 3),
        instance=st.sampled_from([None, "i", "k"]),
        kind=st.sampled_from(["", "consumer", "x"]),
    )
    def something_odd(self, member: str, generation: int, instance: str | None, kind: str) -> None:
        kit = self.kit
        self.asked.append(("sync", kit.sync(member, generation, instance_id=instance, kind=kind)))
        self.asked.append(("leave", kit.leave(Leaver(member, "k"))))
        if member:
            join = kit.join(member, instance_id=instance, kind=kind)
            assert join.settled or not kit.journal.is_fully_committed
            self.asked.append(("join", join))

    # -- what is always so

    @property
    def group(self) -> ClassicGroup | None:
        found = self.kit.shard.state.groups.get("g")
        assert found is None or isinstance(found, ClassicGroup)
        return found

    @invariant()
    def the_group_is_sound(self) -> None:
        if self.group is not None:
            assert_sound(self.group, self.kit)

    @invariant()
    def no_request_is_lost(self) -> None:
        open_ = {id(ticket) for _, ticket in self.asked if not ticket.settled}
        self.asked = [one for one in self.asked if not one[1].settled]
        waiting = {id(ticket) for ticket in self.kit.shard.resign()}
        if self.kit.journal.is_fully_committed:
            assert open_ == waiting
        else:
            assert waiting <= open_

    @invariant()
    def one_part_each(self) -> None:
        if self.group is None or self.group.current is not GroupState.STABLE:
            return
        plan = self.plans.get((self.life, self.group.generation))
        if plan is not None:
            parts = [one.assignment for one in self.group.members.values()]
            assert set(parts) <= {*plan.values(), b""}
            assert len(parts) == len(set(parts)) or b"" in parts

    @invariant()
    def what_is_stored_is_what_is(self) -> None:
        group = self.group
        if group is None or group.current is not GroupState.STABLE:
            return
        stored = self.kit.replayed().state.groups["g"]
        assert isinstance(stored, ClassicGroup)
        assert stored.generation == group.generation
        assert (stored.protocol, stored.leader) == (group.protocol, group.leader)
        assert {one.member_id: one.assignment for one in stored.members.values()} == {
            one.member_id: one.assignment for one in group.members.values()
        }
        assert stored.static == group.static

    def teardown(self) -> None:
        """Left in peace, all that run are together, and hold their parts."""
        self.kit.holds = False
        self.kit.port.failures = []
        self.kit.commit()
        self.kit.settings.group_max_size = 100
        self.pass_time(2 * REBALANCE_MS + 3 * SESSION_MS + 300_000, step_ms=1_000)
        running = [one for one in self.clients if one.runs]
        if self.group is None:
            assert not running
            return
        assert_sound(self.group, self.kit)
        assert {one.member_id for one in running} == set(self.group.members)
        assert all(one.is_stable for one in running)
        assert {one.generation for one in running} <= {self.group.generation}
        for client in running:
            member = self.group.members[client.member_id]
            assert client.assigned[client.generation] == member.assignment
        if running:
            assert self.group.current is GroupState.STABLE
        calm = self.group.generation
        self.pass_time(2 * SESSION_MS, step_ms=1_000)
        assert self.group.generation == calm, "rebalances without a reason"
        for _, ticket in self.asked:
            assert ticket.settled


Groups.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestGroups = Groups.TestCase
