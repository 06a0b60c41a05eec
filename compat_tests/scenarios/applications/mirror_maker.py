"""MirrorMaker 2: a topic and its group are mirrored, and a reader goes on in the mirror."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.errors import Mismatch
from kavka.compat_tests.records import Headers, Partition, Read, Record
from kavka.compat_tests.scenario import RETRY_S, Scenario, Trial, becomes, equal, read, stored
from kavka.compat_tests.scenarios.applications.meanwhile import meanwhile

PARTITIONS: Final = 3
PART: Final = 20
"""Records of each partition that are sent at once."""

BEFORE_KILL: Final = 100
"""Records that are mirrored while more are written, before the mirror is killed."""

TIME_MS: Final = 1_700_000_000_000
RETENTION_MS: Final = "-1"
"""The records are older than brokers keep any by default."""

MESSAGE_BYTES: Final = "765432"
MIRRORED_S: Final = 120.0
"""How long anything may take to be in the mirror."""

MIRRORED_MS: Final = round(MIRRORED_S * 1000)
QUIET_MS: Final = 1_500
HEADERS: Final[Headers] = (("trace", b"1"), ("twice", b"a"), ("twice", b""), ("naïve", b"\0"))
"""Each record has one of them less than the one before it."""

SETTINGS: Final = {
    "plugin.discovery": "service_load",
    "replication.factor": "-1",
    "checkpoints.topic.replication.factor": "-1",
    "offset-syncs.topic.replication.factor": "-1",
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
    "heartbeats.topic.replication.factor": "-1",
    # The topic of heartbeats is not this trial's own, and a mirror of itself would have a mirror.
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    # Whatever changes is mirrored soon, and each record's place is known in the mirror.
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "offset.lag.max": "0",
}
OF_TARGET: Final = {
    "plugin.discovery": "service_load",
    "exactly.once.source.support": "enabled",
    # One that was killed is soon replaced.
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "producer.transaction.timeout.ms": "10000",
}
"""Of the workers that the mirror consists of."""


class Mirror:
    """A topic, and how it is mirrored under another name."""

    def __init__(self, trial: Trial, topic: str, group: str) -> None:
        self._trial = trial
        self._source, self._target = trial.name("source"), trial.name("target")
        self._settings = SETTINGS | {"topics": topic, "groups": group}
        self._settings |= {f"{self._target}.{name}": value for name, value in OF_TARGET.items()}
        self.topic = f"{self._source}.{topic}"
        """The mirror's name."""

    async def start(self) -> Driver:
        """Returns when it copies."""
        driver = await self._trial.driver()
        await driver.ask(
            "start_mirror",
            within_s=MIRRORED_S,
            source=self._source,
            target=self._target,
            settings=self._settings,
        )
        await becomes(lambda: _copies(driver), True, "whether it copies", MIRRORED_S)
        return driver


async def _copies(driver: Driver) -> bool:
    """Mismatch if a part of it has failed."""
    found = await driver.ask("mirror_states")
    for name, connector in found["connectors"].items():
        for part in connector["parts"]:
            if part["state"] == "FAILED":
                raise Mismatch(f"{name} has failed: {part['trace']}")
    source = found["connectors"].get("MirrorSourceConnector")
    states = [part["state"] for part in source["parts"]] if source else []
    return len(states) > 1 and set(states) == {"RUNNING"}


class Copy:
    """What was sent to a topic, and what was found in its mirror."""

    def __init__(self, writer: Driver, topic: str) -> None:
        self._writer = writer
        self._topic = topic
        self.sent: list[Record] = []
        self.found: list[Read] = []

    async def write(self) -> None:
        """Send a part to each partition."""
        first = len(self.sent) // PARTITIONS
        records = [
            Record(
                value=None if number % 10 == 9 else f"value {number} of {partition}".encode(),
                key=None if number % 10 == 8 else f"key {number}".encode(),
                headers=HEADERS[number % (len(HEADERS) + 1) :],
                timestamp=TIME_MS + number * 1_000,
                partition=partition,
            )
            for number in range(first, first + PART)
            for partition in range(PARTITIONS)
        ]
        await stored(self._writer, self._topic, records)
        self.sent += records

    async def read(self, reader: Driver, count: int | None = None) -> None:
        """Read so many records, or all that were sent, out of the mirror."""
        missing = len(self.sent) - len(self.found)
        self.found += await read(reader, missing if count is None else count, MIRRORED_MS)


def same(found: Sequence[Read], sent: Sequence[Record]) -> None:
    """Each partition of the mirror must have the same records in the same order. Mismatch."""
    for partition in range(PARTITIONS):
        seen, expected = (
            [
                (record.timestamp, record.key, record.value, record.headers)
                for record in records
                if record.partition == partition
            ]
            for records in (found, sent)
        )
        for number, (copied, original) in enumerate(zip(seen, expected, strict=False)):
            equal(copied, original, f"record {number} of partition {partition}")
        equal(len(seen), len(expected), f"records of partition {partition}")


async def run_mirror(trial: Trial) -> None:
    topic, group = await trial.topic(PARTITIONS, retention_ms=RETENTION_MS), trial.name("group")
    mirror, client = Mirror(trial, topic, group), await trial.reference()
    copy = Copy(client, topic)
    await client.ask("producer", acks="all")
    await copy.write()
    with trial.step("mirror a topic", "CreateTopics", "InitProducerId", "Produce", "Fetch"):
        running = await mirror.start()
        reader = await trial.reference()
        await reader.ask("consumer", isolation="read_committed")
        await reader.assign({Partition(mirror.topic, index): 0 for index in range(PARTITIONS)})
        await copy.read(reader)
        same(copy.found, copy.sent)
    with trial.step("mirror its settings", "DescribeConfigs", "IncrementalAlterConfigs"):
        await _settings(client, topic, mirror.topic)
    with trial.step("mirror a group's offsets", "OffsetFetch", "ListGroups", "OffsetCommit"):
        await _leave(trial, topic, group)
        await _known(client, group, mirror.topic)
    with trial.step("kill it in the middle, and mirror the rest", "InitProducerId", "EndTxn"):
        async with meanwhile(copy.write):
            await copy.read(reader, BEFORE_KILL)
            await running.kill()
        running = await mirror.start()
        await copy.read(reader)
        copy.found += await reader.poll(1, QUIET_MS)
        same(copy.found, copy.sent)
    with trial.step("go on in the mirror as the group", "JoinGroup", "OffsetFetch", "Fetch"):
        member = await trial.reference()
        await member.ask("consumer", group=group, isolation="read_committed")
        await member.ask("subscribe", topics=[mirror.topic])
        rest = copy.sent[PART * PARTITIONS :]
        same(await read(member, len(rest), MIRRORED_MS), rest)
        await running.ask("stop_mirror")


async def _settings(client: Driver, topic: str, mirror: str) -> None:
    """Change a topic's settings; its mirror must get them, and those of before."""
    configs = {"retention.ms": RETENTION_MS, "max.message.bytes": MESSAGE_BYTES}
    changed = {"max.message.bytes": MESSAGE_BYTES}
    await client.ask("alter_configs", topic=topic, set=changed)

    async def mirrored() -> dict[str, str]:
        found = await client.ask("describe_configs", topic=mirror)
        return {name: found["configs"][name] for name in configs}

    await becomes(mirrored, configs, "settings of the mirror", MIRRORED_S)


async def _leave(trial: Trial, topic: str, group: str) -> None:
    """Read everything as a member of the group, commit that, and leave the group, as offsets are
    mirrored only while it has no members."""
    member = await trial.reference()
    await member.ask("consumer", group=group)
    await member.ask("subscribe", topics=[topic])
    await read(member, PART * PARTITIONS)
    await member.ask("commit")
    await member.ask("close_consumer")


async def _known(client: Driver, group: str, topic: str) -> None:
    """Wait until the group has offsets in all partitions of a topic."""
    loop = asyncio.get_running_loop()
    until = loop.time() + MIRRORED_S
    while True:
        found = await client.ask("group_offsets", group=group)
        known = [committed for committed in found["offsets"] if committed["topic"] == topic]
        if len(known) == PARTITIONS:
            return
        if loop.time() > until:
            raise Mismatch(f"offsets of {group} in {topic}: {known} after {MIRRORED_S:.0f} s")
        await asyncio.sleep(RETRY_S)


ALL: Final = (
    Scenario(
        "mirror",
        "A mirrored topic has the same records and settings, and the group's offsets",
        run_mirror,
        only="mirror-maker-2",
    ),
)
