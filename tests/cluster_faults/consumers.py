"""Groups of consumers that read what the producers write, all the while."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from cluster_faults.cluster import WITHIN_S
from sim.history import Place
from support.groups.clients import BROKER_SETTINGS, CONFLUENT_CONSUMER, KAFKA_PYTHON, GroupClient
from support.groups.judge import went_back
from support.groups.members import Host, Story, processes, shared
from support.groups.traffic import stored_commits
from support.wait import eventually

GROUP = "readers"
MEMBERS = 2
CLIENTS: tuple[GroupClient, ...] = (KAFKA_PYTHON, CONFLUENT_CONSUMER)
"""A group of each: of the classic protocol, and of the consumer protocol."""


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
        wanted = {f"{topic}/{index}": end for (topic, index), end in ends.items()}
        found = [f"I11 gave up: {one.member}: {one.why}" for one in self.story.of("failed")]
        for group, host in self._hosts.items():
            self._await_all(group, host, wanted)
            host.finish()
            found += [f"I7 {one}" for one in self.story.groups[group].complaints]
        partitions = int(BROKER_SETTINGS["offsets.topic.num.partitions"])
        stored = (
            commit
            for commit in stored_commits(self._bootstrap, partitions)
            if commit[0] in self._hosts
        )
        return [*found, *(f"I7 {one}" for one in went_back(stored))]

    def _await_all(self, group: str, host: Host, wanted: dict[str, int]) -> None:
        eventually(
            lambda: self.story.ask(group, processes(wanted)),
            within_s=WITHIN_S,
            what=f"group {group} has processed everything",
            detail=host.tail,
        )
        eventually(
            lambda: self.story.ask(group, lambda one: shared(one, wanted, host.members)),
            within_s=WITHIN_S,
            what=f"group {group} has one owner for each partition",
            detail=host.tail,
        )
