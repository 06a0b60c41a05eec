"""What OffsetFetch responds about a committed offset: that, or that a later one is undecided
(KIP-447), but never that there is none, as a consumer that gets that starts over. So it is while
transactions end, when the group changes its kind, and when the broker dies at any step, and loads.

A client asks all the while, in each version, for places and for all. Committed offsets only grow
here, so no answer may tell less than what was known when it was asked for; what is aborted is
POISON, and must never be a response. CRASH_EVERY (24; `make commits` sets 1) leaves steps out.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pytest

from kavka.groupcoord import pending_txn_offsets
from kavka.log import journal
from kavka.server.coordinators import journal_loader, serial_queue
from kavka.server.handlers import offset_fetch
from kavka.wire.errors import ErrorCode as Code
from support import group_requests, offset_requests
from support.classic_groups import RANGE, REBALANCE_MS, SESSION_MS
from support.group_requests import GROUP
from support.memory_broker import NEVER_AWAITED
from support.memory_network import Closed
from support.mortal_broker import MortalBroker
from support.offset_requests import GROUPS_SINCE, Place
from support.transactional import RETRIED, Answer, Refused, Request, Script, TransactionalProducer

EVERY: Final = int(os.environ.get("CRASH_EVERY", "24"))
PARTS: Final = 3
"""Of the test, which others may do at the same time."""

SETTINGS: Final = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
)
OLDER, NEWER, PLAIN, IN_TREE = "older", "newer", "plain", "in-tree"
"""Topics, by who commits their offsets: producers of both protocols, one without transactions, and
one who keeps them in the coordination tree (version 0)."""

PARTITIONS: Final = range(2)
IN_LOG: Final = [(topic, index) for topic in (OLDER, NEWER, PLAIN) for index in PARTITIONS]
POISON: Final = 1_000
SOON_MS: Final = 1_000
ALL_SINCE, STABLE_SINCE, MEMBERS_SINCE = 2, 7, 9
ASKED_AT_ONCE_MAX: Final = 4
STEPS_MIN: Final = 120
"""The story takes more on the disk."""

GONE: Final = frozenset({Code.UNKNOWN_MEMBER_ID, Code.STALE_MEMBER_EPOCH})
"""What members got that were there when they asked."""

pytestmark = [NEVER_AWAITED, pytest.mark.timeout(600)]


class Member(NamedTuple):
    """Who commits, and asks; by default no member."""

    member_id: str = ""
    epoch: int = -1
    """Or generation."""

    of_consumer: bool = False
    """Of a group of the consumer protocol, where who asks says who it is."""


class Form(NamedTuple):
    """Of a request."""

    version: int
    is_stable: bool
    places: Sequence[Place] | None
    """None: all of the group."""


class PendingFetch(NamedTuple):
    """A request on its way."""

    form: Form
    least: dict[str, int]
    """The least that a response may have, as it was known at the request, by topic."""

    undecided: dict[str, int]
    """What open transactions had committed."""

    answer: asyncio.Future[Any]


class Watcher:
    """Asks for the offsets in every iteration of the loop, and knows the responses allowed."""

    def __init__(self, broker: MortalBroker) -> None:
        self.broker = broker
        self.member = Member()
        self.tried = dict.fromkeys((OLDER, NEWER, PLAIN, IN_TREE), -1)
        """The last that was to be committed, by topic."""

        self.least = {is_stable: dict(self.tried) for is_stable in (False, True)}
        """What was in a response already, or acknowledged. The end of a transaction is answered
        before its offsets count, but from then on they are undecided, with require_stable."""

        self.undecided: dict[str, int] = {}
        self.seen: Counter[int] = Counter()
        """Codes."""

        self._forms = itertools.cycle(forms())
        self._pending: list[PendingFetch] = []
        self._client: Any = None

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            while self._pending and self._pending[0].answer.done():
                self._take(self._pending.pop(0))
            if self.broker.network.ports and self.broker.instance.broker is not None:
                self._ask()
            await asyncio.sleep(0)

    def _ask(self) -> None:
        if self._client is None or self._client.is_closed:
            self._client = self.broker.connect()
        if len(self._pending) < ASKED_AT_ONCE_MAX:
            form = next(self._forms)
            values = offset_requests.fetching(self.broker, form.places, form.version)
            if form.version >= STABLE_SINCE:
                values["require_stable"] = form.is_stable
            if form.version >= MEMBERS_SINCE and self.member.of_consumer:
                member_id, epoch, _ = self.member
                values["groups"][0] |= {"member_id": member_id, "member_epoch": epoch}
            answer = self._client.send("OffsetFetch", form.version, **values)
            least = dict(self.least[form.is_stable])
            self._pending.append(PendingFetch(form, least, dict(self.undecided), answer))

    def _take(self, pending: PendingFetch) -> None:
        if isinstance(pending.answer.exception(), Closed):
            return
        form, answer = pending.form, pending.answer.result()
        if (code := group_code(form.version, answer)) != 0:
            assert code in RETRIED | GONE, pending
            self.seen[code] += 1
            return
        notified = offset_requests.found(self.broker, answer, form.version)
        for topic, index in IN_LOG if form.places is None else form.places:
            offset, code = notified.get((topic, index), (-1, 0))
            self.seen[code] += 1
            if code == Code.UNSTABLE_OFFSET_COMMIT:
                assert form.is_stable, pending
                continue
            if form.is_stable and (topic, index) in notified:
                assert not self._is_undecided(topic, pending), pending
            if form.version == 0 and code == Code.UNKNOWN_TOPIC_OR_PARTITION:
                code = 0  # so it says that there is none
            assert code == 0 and pending.least[topic] <= offset <= self.tried[topic], pending
            for is_stable in {False, form.is_stable}:
                self.least[is_stable][topic] = max(self.least[is_stable][topic], offset)

    def _is_undecided(self, topic: str, pending: PendingFetch) -> bool:
        """Whether it was all the time."""
        return topic in pending.undecided and pending.undecided[topic] == self.undecided.get(topic)


def forms() -> list[Form]:
    """All, in turn."""
    in_tree = [(IN_TREE, index) for index in PARTITIONS]
    found = [Form(0, False, in_tree)]
    for version in range(1, 11):
        for is_stable in (False, True) if version >= STABLE_SINCE else (False,):
            found.append(Form(version, is_stable, IN_LOG))
            if version >= ALL_SINCE:
                found.append(Form(version, is_stable, None))
    return found


def group_code(version: int, answer: Any) -> int:
    """What is wrong with the whole group, or with all of its partitions alike."""
    if version >= GROUPS_SINCE:
        return int(answer.groups[0].error_code)
    if version >= ALL_SINCE:
        return int(answer.error_code)
    codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    return max(codes) if codes <= RETRIED and version else 0


class Story:
    """Offsets are committed, in transactions of both protocols and without any; by no
    member, then with a member of each protocol."""

    def __init__(self, watcher: Watcher, play: Callable[[Script], Any]) -> None:
        self._watcher = watcher
        self._play = play
        self._older = TransactionalProducer("older", 1, OLDER)
        self._newer = TransactionalProducer("newer", 2, NEWER)

    async def tell(self) -> None:
        """All of it."""
        for producer in (self._older, self._newer):
            await self._play(producer.find())
            await self._play(producer.init())
        await self._commit_all()
        await self._join()
        await self._commit_all()
        await self._leave()
        while self._watcher.member.epoch < 0:
            with suppress(Refused):  # what is not synchronized is forgotten
                await self._join_classic()
        await self._commit_all()

    async def _commit_all(self) -> None:
        older, newer = self._older, self._newer
        await self._commit_plainly(PLAIN, 9)
        await self._commit_plainly(IN_TREE, 0)
        await self._commit(older)
        await self._commit(newer)
        await self._end(newer)
        await self._commit_plainly(PLAIN, 9)
        await self._end(older)
        await self._commit(older, POISON)
        await self._abort(older, older.end(commit=False))
        await self._commit(newer, POISON)
        await self._abort(newer, newer.init())
        for producer in (older, newer):
            await self._commit(producer)
            await self._end(producer)

    # -- offsets

    async def _commit(self, producer: TransactionalProducer, offset: int = -1) -> None:
        """In a transaction that stays open; the next offset, if none is given."""
        watcher, topic = self._watcher, producer.topic
        if offset < 0:
            watcher.tried[topic] += 1
            offset = watcher.tried[topic]
        await self._play(producer.commit_offset(GROUP, offset, PARTITIONS))
        watcher.undecided[topic] = offset

    async def _end(self, producer: TransactionalProducer) -> None:
        watcher, topic = self._watcher, producer.topic
        del watcher.undecided[topic]
        await self._play(producer.end(commit=True))
        watcher.least[True][topic] = watcher.tried[topic]

    async def _abort(self, producer: TransactionalProducer, script: Script) -> None:
        del self._watcher.undecided[producer.topic]
        await self._play(script)

    async def _commit_plainly(self, topic: str, version: int) -> None:
        watcher = self._watcher
        watcher.tried[topic] += 1
        places = dict.fromkeys([(topic, index) for index in PARTITIONS], watcher.tried[topic])
        values = offset_requests.committing(watcher.broker, places)
        if version:
            values["member_id"] = watcher.member.member_id
            values["generation_id_or_member_epoch"] = watcher.member.epoch
        await self._ask("OffsetCommit", version, values)
        for least in watcher.least.values():
            least[topic] = watcher.tried[topic]

    # -- members

    async def _ask(self, name: str, version: int, values: dict[str, Any]) -> Answer:
        answers = []

        def script() -> Script:
            answers.append((yield Request(name, version, values)))

        await self._play(script())
        return answers[0]

    async def _beat(self, epoch: int, **more: Any) -> Answer:
        values = {"group_id": GROUP, "member_id": "m", "member_epoch": epoch, **more}
        return await self._ask("ConsumerGroupHeartbeat", 1, values)

    async def _join(self) -> None:
        answer = await self._beat(
            0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[OLDER, NEWER, PLAIN],
            topic_partitions=[],
        )
        self._watcher.member = Member("m", answer["member_epoch"], of_consumer=True)

    async def _leave(self) -> None:
        self._watcher.member = Member()
        with suppress(Refused):  # it has left, but did not hear of it
            await self._beat(-1, rebalance_timeout_ms=-1)

    async def _join_classic(self) -> None:
        joining = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [
                {"name": protocol.name, "metadata": protocol.metadata} for protocol in RANGE
            ],
        }
        joined = await self._ask("JoinGroup", 3, joining)
        member_id, generation = joined["member_id"], joined["generation_id"]
        part = {"member_id": member_id, "assignment": b"all"}
        syncing = {"group_id": GROUP, "generation_id": generation, "member_id": member_id}
        await self._ask("SyncGroup", 2, {**syncing, "assignments": [part]})
        self._watcher.member = Member(member_id, generation)


async def strike(step: int) -> bool:
    """One death at one step; False: there are not so many."""
    broker = MortalBroker(*SETTINGS)
    await broker.start()
    for topic in (OLDER, NEWER, PLAIN, IN_TREE):
        await broker.create(topic, len(PARTITIONS))
    await group_requests.make_topic(broker)
    watcher = Watcher(broker)
    has_died = False

    async def revive() -> None:
        nonlocal has_died
        has_died = True
        await broker.bury()
        await broker.revive()

    async def play(script: Script) -> None:
        assert await broker.play(script, revive)

    async def tell() -> None:
        broker.fs.dies_after = step
        await Story(watcher, play).tell()
        if broker.is_dead:
            await revive()
        broker.fs.dies_after = None
        await broker.kill()
        await broker.advance(SOON_MS)

    watching = asyncio.create_task(watcher.watch())
    telling = asyncio.create_task(tell())
    await asyncio.wait([watching, telling], return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    for task in (watching, telling):
        if task.done():
            task.result()
    assert watcher.seen[Code.UNSTABLE_OFFSET_COMMIT]
    assert watcher.least[True] == watcher.tried, "the last of each was in a response in the end"
    await broker.stop()
    gc.collect()
    return has_died


@pytest.fixture
def little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that may pause does."""
    monkeypatch.setattr(serial_queue, "TICK_SLICE_S", -1.0)
    monkeypatch.setattr(journal, "ITEMS_PER_STEP", 1)
    monkeypatch.setattr(journal_loader, "SLICE_S", -1.0)
    monkeypatch.setattr(journal_loader, "CHUNK_RECORDS", 1)
    monkeypatch.setattr(pending_txn_offsets, "OFFSETS_PER_STEP", 1)
    monkeypatch.setattr(offset_fetch, "OFFSETS_PER_STEP", 1)


@pytest.fixture
def collected_by_the_test() -> Iterator[None]:
    """What a dead process leaves, coroutines for one, is not found inside of a NamedTuple's
    constructor, where no warning can be made of it."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("little_at_a_time", "collected_by_the_test")
@pytest.mark.parametrize("part", range(PARTS))
def test_an_offset_that_is_committed_is_never_forgotten(part: int) -> None:
    step = part * EVERY
    while asyncio.run(strike(step)):
        step += PARTS * EVERY
    assert step > STEPS_MIN
