"""aiokafka's consumers in groups; see reporting.py."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import KafkaError

from support.groups.programs.reporting import POLL_MS, Uncommitted, parted, place, report, value_of

BOOTSTRAP, TOPIC, *SETTINGS = sys.argv[1:]


def settings() -> dict[str, Any]:
    pairs = (setting.partition("=") for setting in SETTINGS)
    return {name.replace(".", "_"): value_of(value) for name, _, value in pairs}


class Member(ConsumerRebalanceListener):  # type: ignore[misc]
    """One consumer, polled by a task until it shall leave."""

    def __init__(self, name: str, group: str) -> None:
        self.name = name
        self.group = group
        self.leaving = False
        self.seeks: list[tuple[str, int]] = []
        self.uncommitted = Uncommitted(name)

    async def run(self) -> None:
        try:
            await self._consume()
            report(self.name, "left")
        except BaseException as error:
            report(self.name, "failed", why=repr(error))
            raise

    async def _consume(self) -> None:
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=BOOTSTRAP,
            group_id=self.group,
            client_id=self.name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **settings(),
        )
        if TOPIC.startswith("^"):
            self.consumer.subscribe(pattern=TOPIC, listener=self)
        else:
            self.consumer.subscribe([TOPIC], listener=self)
        report(self.name, "joining")
        await self.consumer.start()
        while not self.leaving:
            while self.seeks:
                at, offset = self.seeks.pop()
                self.uncommitted.forget([at])
                self.consumer.seek(TopicPartition(*parted(at)), offset)
            await self._turn()
        await self.consumer.stop()

    async def _turn(self) -> None:
        found = await self.consumer.getmany(timeout_ms=POLL_MS)
        records = {
            place(*at): [record.offset for record in messages] for at, messages in found.items()
        }
        if records:
            self.uncommitted.read(records)
        offsets = dict(self.uncommitted.offsets)
        if not offsets:
            return
        try:
            await self.consumer.commit(
                {TopicPartition(*parted(at)): n for at, n in offsets.items()}
            )
        except KafkaError as error:
            self.uncommitted.refused(error, offsets)
        else:
            self.uncommitted.committed(offsets)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        report(self.name, "owns", p=sorted(place(*topic_partition) for topic_partition in assigned))

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        places = sorted(place(*topic_partition) for topic_partition in revoked)
        self.uncommitted.forget(places)
        report(self.name, "revoked", p=places)


async def main() -> None:
    logging.disable(logging.CRITICAL)  # that its broker goes away is the test
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    members: dict[str, Member] = {}
    tasks = []
    while line := (await reader.readline()).decode():
        command, name, *more = line.split()
        if command == "join":
            members[name] = Member(name, *more)
            tasks.append(asyncio.create_task(members[name].run()))
        elif command == "leave":
            members[name].leaving = True
        else:
            members[name].seeks.append((more[0], int(more[1])))
    for member in members.values():
        member.leaving = True
    await asyncio.gather(*tasks)


if __name__ == "__main__":
    asyncio.run(main())
