"""Groups of consumers: who reads what, and from where."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Partition, Record
from kavka.compat_tests.scenario import (
    SETTLED_S,
    Scenario,
    Trial,
    becomes,
    equal,
    read,
    shown,
    stored,
)

PARTITIONS: Final = 6
SESSION_MS: Final = 10_000
HEARTBEAT_MS: Final = 500
QUICK: Final = {"session_timeout_ms": SESSION_MS, "heartbeat_ms": HEARTBEAT_MS}
"""Settings with which a member hears of a rebalance soon."""


def all_of(topic: str, count: int = PARTITIONS) -> frozenset[Partition]:
    return frozenset(Partition(topic, index) for index in range(count))


async def shared(members: list[Driver], topic: str, sizes: list[int]) -> None:
    """All partitions become assigned, each to one member, so many to each.

    Each member polls on its own, as a rebalance waits for all of them.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLED_S
    found = [frozenset[Partition]()] * len(members)

    def is_shared() -> bool:
        every = [partition for share in found for partition in share]
        whole = len(every) == len(set(every)) and set(every) == all_of(topic)
        return whole and sorted(map(len, found)) == sorted(sizes)

    async def keep_polling(number: int) -> None:
        while not is_shared() and loop.time() < until:
            found[number] = await members[number].assignment()

    await asyncio.gather(*map(keep_polling, range(len(members))))
    if not is_shared():
        raise Mismatch(
            f"after {SETTLED_S:.0f} s members have {shown(found)}, expected {sizes} of 6"
        )


async def run_commit(trial: Trial) -> None:
    topic, group = await trial.topic(), trial.name("group")
    partition = Partition(topic, 0)
    await stored(
        await trial.producer(), topic, [Record(str(number).encode()) for number in range(10)]
    )
    with trial.step("join a group and read", "FindCoordinator", "JoinGroup", "SyncGroup", "Fetch"):
        member = await trial.member(group, [topic])
        await becomes(member.assignment, {partition}, "assignment")
        equal([record.offset for record in await read(member, 6)], [*range(6)], "offsets")
    with trial.step("commit an offset", "OffsetCommit", "OffsetFetch"):
        await member.commit({partition: 4})
        equal(await member.committed([partition]), [4], "committed offset")
        await member.ask("close_consumer")
    with trial.step("go on from there as another member", "OffsetFetch", "Fetch"):
        member = await trial.member(group, [topic])
        equal([record.offset for record in await read(member, 6)], [*range(4, 10)], "offsets")


async def run_metadata(trial: Trial) -> None:
    topic, group = await trial.topic(), trial.name("group")
    partition = Partition(topic, 0)
    await stored(await trial.producer(), topic, [Record(b"value")])
    member = await trial.member(group, [topic])
    await becomes(member.assignment, {partition}, "assignment")
    with trial.step("commit an offset with metadata", "OffsetCommit", "OffsetFetch"):
        offsets = [partition.as_json(offset=1, metadata="by the suite, ø")]
        await member.ask("commit", offsets=offsets)
        found = await member.ask("committed", partitions=[partition.as_json()])
        expected = [{"offset": 1, "metadata": "by the suite, ø"}]
        equal(found["offsets"], expected, "committed offset and metadata")


async def run_pattern(trial: Trial) -> None:
    topics = [await trial.topic(2) for _ in range(2)]
    await trial.topic()
    with trial.step("subscribe to topics by a pattern", "Metadata", "JoinGroup"):
        member = await trial.driver()
        await member.ask("consumer", group=trial.name("group"))
        numbers = "|".join(topic.rpartition("-")[2] for topic in topics)
        await member.ask("subscribe", pattern=f"{trial.label}-topic-({numbers})")
        expected = all_of(topics[0], 2) | all_of(topics[1], 2)
        await becomes(member.assignment, expected, "assignment")


def with_assignor(name: str, feature: str, title: str, **settings: Any) -> Scenario:
    """Members that come and go, with an assignment strategy."""

    async def run(trial: Trial) -> None:
        topic, group = await trial.topic(PARTITIONS), trial.name("group")
        with trial.step("join as the first member", "JoinGroup", "SyncGroup"):
            members = [await trial.member(group, [topic], **settings)]
            await becomes(members[0].assignment, all_of(topic), "assignment")
        with trial.step("join as the second and the third", "JoinGroup", "SyncGroup", "Heartbeat"):
            members += [await trial.member(group, [topic], **settings) for _ in range(2)]
            await shared(members, topic, [2, 2, 2])
        with trial.step("leave as the second", "LeaveGroup", "Heartbeat"):
            await members.pop(1).ask("close_consumer")
            await shared(members, topic, [3, 3])
        with trial.step("die as the third", "Heartbeat"):
            await members.pop().kill()
            await shared(members, topic, [6])

    return Scenario(name, title, run, NEEDS | {feature})


async def run_consumer_protocol(trial: Trial) -> None:
    topic, group = await trial.topic(PARTITIONS), trial.name("group")
    await stored(
        await trial.producer(), topic, [Record(b"value", partition=index) for index in range(6)]
    )
    with trial.step("join by the protocol of KIP-848", "ConsumerGroupHeartbeat"):
        members = [await trial.member(group, [topic], protocol="consumer")]
        await shared(members, topic, [6])
    with trial.step("share with a second member", "ConsumerGroupHeartbeat"):
        members.append(await trial.member(group, [topic], protocol="consumer"))
        await shared(members, topic, [3, 3])
    with trial.step("leave as the first", "ConsumerGroupHeartbeat"):
        await members.pop(0).ask("close_consumer")
        await shared(members, topic, [6])
    with trial.step("commit with the member's epoch", "OffsetCommit", "OffsetFetch"):
        await members[0].commit({Partition(topic, 0): 1})
        equal(await members[0].committed([Partition(topic, 0)]), [1], "committed offset")


async def run_static(trial: Trial) -> None:
    topic, group = await trial.topic(PARTITIONS), trial.name("group")
    with trial.step("join as two static members", "JoinGroup", "SyncGroup"):
        first = await trial.member(group, [topic], instance_id="one", **QUICK)
        second = await trial.member(group, [topic], instance_id="two", **QUICK)
        await shared([first, second], topic, [3, 3])
        had = await first.assignment()
    with trial.step("die and come back as the first, with the same partitions", "JoinGroup"):
        await first.kill()
        first = await trial.member(group, [topic], instance_id="one", **QUICK)
        await becomes(first.assignment, had, "assignment")
        await shared([first, second], topic, [3, 3])


NEEDS: Final = frozenset({"consume", "group"})
ALL: Final = (
    Scenario(
        "commits", "Committed offsets are where a group goes on", run_commit, NEEDS, quick=True
    ),
    Scenario("commit-metadata", "Metadata of a commit", run_metadata, NEEDS | {"commit_metadata"}),
    Scenario("pattern", "Topics by a pattern", run_pattern, NEEDS | {"pattern"}),
    with_assignor("range", "range", "Groups with the range assignor", assignor="range", **QUICK),
    with_assignor(
        "roundrobin",
        "roundrobin",
        "Groups with the round robin assignor",
        assignor="roundrobin",
        **QUICK,
    ),
    with_assignor(
        "sticky", "sticky", "Groups with the sticky assignor", assignor="sticky", **QUICK
    ),
    with_assignor(
        "cooperative",
        "cooperative",
        "Groups with the cooperative sticky assignor",
        assignor="cooperative",
        **QUICK,
    ),
    Scenario(
        "consumer-protocol",
        "Groups by the new protocol (KIP-848)",
        run_consumer_protocol,
        NEEDS | {"consumer_protocol"},
    ),
    Scenario("static-members", "Static members (KIP-345)", run_static, NEEDS | {"static_members"}),
)
