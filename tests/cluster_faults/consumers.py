"""Groups of consumers that read what the producers write, all the while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from cluster_faults.cluster import WITHIN_S
from cluster_faults.readers import read_all
from sim.history import Place
from support.groups.clients import BROKER_SETTINGS, CONFLUENT_CONSUMER, KAFKA_PYTHON, GroupClient
from support.groups.judge import given_up, went_back
from support.groups.members import Host, Story, processes, shared
from support.groups.traffic import OFFSETS_TOPIC, commit_of
from support.wait import eventually

GROUP = "readers"
MEMBERS = 2
CLIENTS: tuple[GroupClient, ...] = (KAFKA_PYTHON, CONFLUENT_CONSUMER)
"""A group of each: of the classic protocol, and of the consumer protocol."""

CLASSIC_GROUP = f"{GROUP}-{KAFKA_PYTHON.name}"


class Consumers:
    """Two groups, each with its members in a process of their own."""

    def __init__(self, bootstrap: str, topic: str, home: Path) -> None:
        self.story = Story()
        self._bootstrap = bootstrap
        self._hosts: dict[str, Host] = {}
        self._stack = ExitStack()
        for client in CLIENTS:
            group = f"{GROUP}-{client.name}"
            host = Host(client, bootstrap, topic, self.story, home / f"{group}.err")
            self._stack.callback(host.close)
            self._hosts[group] = host
            for number in range(MEMBERS):
                host.join(f"{group}-{number}", group)

    def close(self) -> None:
        """End them in any way."""
        self._stack.close()

    def read(self) -> dict[str, int]:
        """How many records each group has processed."""
        return {group: sum(self.story.groups[group].readers.values()) for group in self._hosts}

    def finish(self, ends: dict[Place, int]) -> list[str]:
        """All before the `ends` is processed, and the members leave; what is violated."""
        expected = {f"{topic}/{index}": end for (topic, index), end in ends.items()}
        found = [f"I11 gave up: {event.member}: {event.why}" for event in self.story.of("failed")]
        for group, host in self._hosts.items():
            self._await_all(group, host, expected)
            host.finish()
            found += [f"I7 {complaint}" for complaint in self.story.groups[group].complaints]
        late = given_up(self.story.of("refused"))
        return [*found, *(f"I7 {violation}" for violation in went_back(self._stored(), late))]

    def _stored(self) -> Iterator[tuple[str, str, int]]:
        """The groups' commits, as they are stored."""
        partitions = int(BROKER_SETTINGS["offsets.topic.num.partitions"])
        places = [(OFFSETS_TOPIC, index) for index in range(partitions)]
        for reading in read_all(self._bootstrap, places, name="reader of commits").values():
            for _, value, key in reading.records:
                if key is not None and value is not None:
                    yield from (
                        commit for commit in commit_of(key, value) if commit[0] in self._hosts
                    )

    def _await_all(self, group: str, host: Host, expected: dict[str, int]) -> None:
        eventually(
            lambda: self.story.ask(group, processes(expected)),
            within_s=WITHIN_S,
            what=f"group {group} has processed everything",
            detail=host.tail,
        )
        eventually(
            lambda: self.story.ask(
                group, lambda progress: shared(progress, expected, host.members)
            ),
            within_s=WITHIN_S,
            what=f"group {group} has one owner for each partition",
            detail=host.tail,
        )
