"""Four consumers share live traffic while one is killed, one added, one leaves and the broker dies.

One more consumer, alone in a group of its own, gets everything too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from support.clients.idempotent import History
from support.clients.kafka_python import create_topic
from support.groups.clients import BROKER_SETTINGS, GroupClient
from support.groups.events import Event, Place
from support.groups.judge import GroupJudge, judged, unprocessed, went_back
from support.groups.members import Host, Story, now_ms, processes, shared
from support.groups.traffic import Traffic, committed, stored_commits
from support.process import BrokerProcess
from support.wait import eventually

TOPIC = "live"
PARTITIONS = 12
MEMBERS = 4
WITHIN_S = 90.0
MORE_RECORDS = 10
"""Of each partition, that are processed before something else happens."""
SHARED, ALONE = "shared", "alone"


class Scenario:
    """One run against one broker."""

    def __init__(self, broker: BrokerProcess, client: GroupClient, home: Path) -> None:
        self.broker = broker
        self.client = client
        self.home = home
        self.story = Story()
        self.members: dict[str, dict[str, Host]] = {SHARED: {}, ALONE: {}}
        self.places = [f"{TOPIC}/{number}" for number in range(PARTITIONS)]
        self._numbers = iter(range(1000))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.push(self._stack)
            create_topic(self.broker.bootstrap, TOPIC, PARTITIONS)
            self.traffic = Traffic(self.broker.bootstrap, TOPIC, PARTITIONS, History())
            self.traffic.start()
            self._stack.callback(self.traffic.finish)
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def host(self, other: GroupClient | None = None) -> Host:
        """A process for members, of the client under test or of another."""
        client = other or self.client
        errors = self.home / f"{client.name}-{next(self._numbers)}.err"
        host = Host(client, self.broker.bootstrap, TOPIC, self.story, errors)
        self._stack.callback(host.close)
        return host

    def join(self, host: Host, group: str = SHARED) -> str:
        """A new member."""
        member = f"{group}-{next(self._numbers)}"
        host.join(member, group)
        self.members[group][member] = host
        return member

    def kill(self, host: Host) -> None:
        """SIGKILL for a process with members."""
        for members in self.members.values():
            for member in [name for name, at in members.items() if at is host]:
                del members[member]
        host.kill()

    def leave(self, member: str) -> None:
        """A member of the shared group leaves politely."""
        self.members[SHARED].pop(member).leave(member)

    def await_stable(self, after: str) -> None:
        """Wait until both groups are stable, and what came meanwhile and more is processed."""
        began_ms = now_ms()
        for group in self.members:
            self._await_shared(group)
        stable_ms = now_ms()
        self._await_processed(self._ends())
        self._await_processed(self._ends(MORE_RECORDS))
        print(
            f"{self.client.name}, {after}: stable after {stable_ms - began_ms} ms,"
            f" all processed {now_ms() - stable_ms} ms later"
        )

    def restart_broker(self) -> None:
        """SIGKILL for the broker, and a new start."""
        self.broker.kill()
        self.broker.start()

    def finish(self) -> None:
        """The traffic ends, all of it is processed and committed, and all members leave."""
        self.traffic.finish()
        assert not self.traffic.history.failures, self.traffic.history.failures[:10]
        ends = self.traffic.ends()
        self._await_processed(ends)
        for group in self.members:
            self._await(group, lambda judge: judge.committed == ends, "all is committed")
        for host in {id(host): host for host in self._hosts()}.values():
            host.finish()

    def complaints(self) -> list[str]:
        """What is to be said against it."""
        ends = self.traffic.ends()
        judges = judged(self.story.events)
        stored = list(
            stored_commits(
                self.broker.bootstrap, int(BROKER_SETTINGS["offsets.topic.num.partitions"])
            )
        )
        found = went_back(stored)
        for group, judge in judges.items():
            found += judge.complaints + unprocessed(judge, self.traffic.acknowledged())
            last = {at: offset for name, at, offset in stored if name == group}
            shown = committed(self.broker.bootstrap, group, TOPIC, PARTITIONS)
            if not last == shown == ends:
                found.append(f"group {group}: stored is {last}, shown {shown}, and not {ends}")
        return found

    def tail(self) -> str:
        """For messages about a failed test."""
        return self.story.tail() + "\n" + self.broker.tail()

    def _hosts(self) -> Iterable[Host]:
        for members in self.members.values():
            yield from members.values()

    def _ends(self, more: int = 0) -> dict[Place, int]:
        ends = self.traffic.ends()
        return {at: ends.get(at, 0) + more for at in self.places}

    def _await_shared(self, group: str) -> None:
        members = set(self.members[group])
        # From its last move on: what is reported late, for having happened later, is no part of it.
        at_ms = eventually(
            lambda: self.story.moved_ms(group, lambda judge: shared(judge, self.places, members)),
            within_s=WITHIN_S,
            what=f"{members} share all in group {group}",
            detail=self.tail,
        )
        self.story.add(Event(group, "stable", at_ms=at_ms, places=tuple(self.places)))

    def _await_processed(self, ends: dict[Place, int]) -> None:
        for group in self.members:
            self._await(group, processes(ends), "what came is processed")

    def _await(self, group: str, condition: Callable[[GroupJudge], bool], what: str) -> None:
        eventually(
            lambda: self.story.ask(group, condition),
            within_s=WITHIN_S,
            what=f"{what} in group {group}",
            detail=self.tail,
        )


def play(broker: BrokerProcess, client: GroupClient, home: Path, rounds: int) -> None:
    """All of it, so many times over; every check."""
    with Scenario(broker, client, home) as scenario:
        resident, victim = scenario.host(), scenario.host()
        scenario.join(resident, ALONE)
        scenario.join(victim)
        for _ in range(MEMBERS - 1):
            scenario.join(resident)
        scenario.await_stable("all joined")
        for number in range(rounds):
            scenario.kill(victim)
            scenario.await_stable("one killed")
            added = scenario.join(resident)
            scenario.await_stable("one added")
            scenario.restart_broker()
            scenario.await_stable("broker killed and restarted")
            scenario.leave(added)
            scenario.await_stable("one left")
            if number + 1 < rounds:
                victim = scenario.host()
                scenario.join(victim)
                scenario.await_stable("one added")
        scenario.finish()
        complaints = scenario.complaints()
        assert not complaints, "\n".join([*complaints[:20], scenario.tail()])
        counts = dict(scenario.story.groups[SHARED].readers)
        print(f"{client.name}: {sum(counts.values())} processed by {counts}")
        assert all(counts.values())
