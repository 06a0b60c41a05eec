"""The high watermark against what is true: how far each replica's log really goes, and which ISR
the controller has really decided, of which the leader hears late, or not at all."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.server.replica.partition_state import LeaderAndIsrState, PartitionState, ProposeIsr

LEADER = 1
REPLICAS = (1, 2, 3)
LAG_MAX_MS = 30_000


@dataclass(frozen=True)
class _Decided:
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


class World:
    """Broker 1 leads; its followers and the controller are true, messages are late."""

    def __init__(self, min_isr: int, isr: tuple[int, ...] = REPLICAS) -> None:
        self.leader = PartitionState(LEADER, high_watermark=0, log_end=0, lag_max_ms=LAG_MAX_MS)
        self.leader.configure(1 << 60, min_isr)
        self.now_ms = 0
        self.ends = dict.fromkeys(REPLICAS, 0)
        self.truth = _Decided(0, isr, 0)
        self.proposals: deque[ProposeIsr] = deque()
        self.answers: deque[tuple[ProposeIsr, _Decided | None]] = deque()
        self.decisions: deque[_Decided] = deque()
        self.watermark_max = 0
        self._lead(self.truth)

    def _lead(self, decided: _Decided) -> None:
        decision = LeaderAndIsrState(
            1, LEADER, decided.leader_epoch, decided.isr, decided.partition_epoch, REPLICAS
        )
        self.leader.lead(decision, self.now_ms)

    def append(self, count: int) -> None:
        self.ends[LEADER] += count
        self.leader.appended(self.ends[LEADER])

    def fetch(self, follower: int, count: int) -> None:
        """The follower tells how far it is, and receives some more."""
        self._propose(self.leader.fetched(follower, self.ends[follower], self.now_ms))
        self.ends[follower] = min(self.ends[follower] + count, self.ends[LEADER])

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self._propose(self.leader.shrink(self.now_ms))

    def _propose(self, proposal: ProposeIsr | None) -> None:
        if proposal is not None:
            assert not self.proposals, "one at a time"
            self.proposals.append(proposal)

    def control(self) -> None:
        """The controller decides on the proposal that it has received; the leader may repeat it."""
        if not self.proposals:
            return
        proposal, truth = self.proposals[0], self.truth
        known = (proposal.leader_epoch, proposal.partition_epoch)
        if known == (truth.leader_epoch, truth.partition_epoch):
            self.truth = _Decided(truth.leader_epoch, proposal.isr, truth.partition_epoch + 1)
            self.answers.append((proposal, self.truth))
        elif (proposal.leader_epoch, proposal.isr) == (truth.leader_epoch, truth.isr):
            self.answers.append((proposal, truth))  # it had succeeded already

    def refuse(self) -> None:
        """The controller refuses the proposal as a replica in it is not alive."""
        if self.proposals and not self.answers:
            self.answers.append((self.proposals[0], None))

    def lose(self) -> None:
        """An answer is lost; the leader asks again."""
        if self.answers:
            self.answers.popleft()

    def answer(self) -> None:
        """An answer reaches the leader."""
        if not self.answers:
            return
        proposal, decided = self.answers.popleft()
        if self.proposals and self.proposals[0] is proposal:
            self.proposals.popleft()
        if decided is None:
            self.leader.isr_refused(proposal)
        else:
            self.leader.isr_decided(decided.leader_epoch, decided.isr, decided.partition_epoch)

    def remove(self, follower: int) -> None:
        """The controller removes a broker that has died, in a new leader epoch."""
        truth = self.truth
        isr = tuple(broker_id for broker_id in truth.isr if broker_id != follower)
        self.truth = _Decided(truth.leader_epoch + 1, isr, truth.partition_epoch + 1)
        self.decisions.append(self.truth)

    def inform(self) -> None:
        """A LeaderAndIsr reaches the leader; it ends what the leader has asked for."""
        if self.decisions:
            self.proposals.clear()
            self._lead(self.decisions.popleft())

    def check(self) -> None:
        self.leader.check_invariants()
        watermark = self.leader.high_watermark
        assert watermark >= self.watermark_max, "it went back"
        self.watermark_max = watermark
        for broker_id in self.truth.isr:
            assert watermark <= self.ends[broker_id], self.leader.story


_STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("fetch"), st.sampled_from((2, 3)), st.integers(0, 6)),
    st.tuples(st.just("wait"), st.sampled_from((1, 10_000, 31_000))),
    st.tuples(st.sampled_from(("control", "answer", "lose", "refuse", "inform"))),
    st.tuples(st.just("remove"), st.sampled_from((2, 3))),
)


@settings(max_examples=400)
@given(st.integers(1, 3), st.sampled_from(((1,), (1, 2), REPLICAS)), st.lists(_STEPS, max_size=80))
def test_the_high_watermark_is_on_every_replica_that_the_controller_knows_as_in_sync(
    min_isr: int, isr: tuple[int, ...], steps: list[tuple[str, ...]]
) -> None:
    world = World(min_isr, isr)
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
        world.check()


@given(st.lists(_STEPS, max_size=60))
def test_once_everything_arrives_all_followers_join_and_everything_is_committed(
    steps: list[tuple[str, ...]],
) -> None:
    world = World(1)
    for name, *arguments in steps:
        getattr(world, name)(*arguments)
    for _ in range(6):
        while world.decisions:
            world.inform()
        for follower in (2, 3):
            world.fetch(follower, 1 << 30)
        world.control()
        while world.answers:
            world.answer()
        world.check()
    assert sorted(world.leader.isr) == sorted(world.truth.isr) == list(REPLICAS)
    assert world.leader.high_watermark == world.ends[LEADER]
