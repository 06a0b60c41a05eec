"""Processes with members of groups, and what they all have reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from support.groups.clients import GroupClient
from support.groups.events import MOVES, Event, Place, read
from support.groups.judge import GroupJudge
from support.talking import END_WITHIN_S, TalkingProcess
from support.wait import eventually

SHOWN_EVENTS = 30
SHOWN_COMPLAINTS = 5


class Story:
    """All events of a test in the order of their arrival, and where its groups stand by them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.groups: dict[str, GroupJudge] = {}
        self.member_groups: dict[str, str] = {}
        self._lock = threading.Lock()

    def joins(self, member: str, group: str) -> None:
        """A member of a group will report."""
        with self._lock:
            self.member_groups[member] = group
            self.groups.setdefault(group, GroupJudge(group))

    def add_line(self, line: bytes) -> None:
        """A member has reported something."""
        self.add(read(line, self.member_groups))

    def add(self, event: Event) -> None:
        """Something has happened."""
        with self._lock:
            self.events.append(event)
            self.groups[event.group].take(event)

    def ask(self, group: str, question: Callable[[GroupJudge], bool]) -> bool:
        """A question about a group as it stands."""
        with self._lock:
            return question(self.groups[group])

    def moved_ms(self, group: str, condition: Callable[[GroupJudge], bool]) -> int:
        """When a member of a group last got or gave up partitions, if the condition holds for the
        group now; 0 if it does not."""
        with self._lock:
            if not condition(self.groups[group]):
                return 0
            moves = [
                event.at_ms for event in self.events if event.group == group and event.what in MOVES
            ]
        return max(moves, default=0)

    def of(self, kind: str, group: str = "") -> list[Event]:
        """The events of one kind."""
        with self._lock:
            events = list(self.events)
        return [event for event in events if event.what == kind and group in ("", event.group)]

    def tail(self) -> str:
        """Where the groups stand, and the last reports, for messages about a failed test."""
        with self._lock:
            kept = [event for event in self.events if event.what not in ("read", "committed")]
            lines = [
                f"{event.at_ms % 1_000_000} {event.member or event.group} {event.what} {event.why}"
                f" {' '.join(sorted(event.places))}"
                for event in kept[-SHOWN_EVENTS:]
            ]
            for name, group in self.groups.items():
                owners = {at: sorted(who) for at, who in sorted(group.owners.items())}
                ends = {at: offsets.end for at, offsets in sorted(group.processed.items())}
                lines.append(f"{name}: owners {owners}\n  processed {ends}")
                lines.append(f"  committed {dict(sorted(group.committed.items()))}")
                lines += group.complaints[:SHOWN_COMPLAINTS]
        return "\n".join(lines)


class Host:
    """A process in which members of groups live."""

    def __init__(
        self,
        client: GroupClient,
        bootstrap: str,
        topic: str,
        story: Story,
        stderr: Path,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        given = [f"{name}={value}" for name, value in {**client.settings, **settings}.items()]
        self._story = story
        self.members: set[str] = set()
        self.process = TalkingProcess(
            client.start(), [bootstrap, topic, *given], story.add_line, stderr
        )

    def join(self, member: str, group: str) -> None:
        """Start a member."""
        self._story.joins(member, group)
        self.members.add(member)
        self.process.send(f"join {member} {group}")

    def leave(self, member: str) -> None:
        """End a member politely. Returns when it has left."""
        self.members.discard(member)
        self.process.send(f"leave {member}")
        eventually(
            lambda: member in {event.member for event in self._story.of("left")},
            within_s=END_WITHIN_S,
            what=f"{member} leaves",
            detail=self.tail,
        )

    def seek(self, member: str, at: Place, offset: int) -> None:
        """Have a member go on elsewhere."""
        self.process.send(f"seek {member} {at} {offset}")

    def kill(self) -> None:
        """SIGKILL: its members have no chance to leave."""
        self.process.kill()
        for member in sorted(self.members):
            group = self._story.member_groups[member]
            self._story.add(Event(group, "killed", member, now_ms()))

    def finish(self) -> None:
        """All leave politely, and the process ends."""
        code = self.process.finish()
        assert code == 0, f"ended with {code}\n{self.tail()}"

    def close(self) -> None:
        """End it in any way, for the end of a test."""
        self.process.close()

    def tail(self) -> str:
        """What it, and all members, reported last."""
        return self.process.errors() + "\n" + self._story.tail()


def processes(ends: Mapping[Place, int]) -> Callable[[GroupJudge], bool]:
    """Whether all in front of some offsets is processed."""
    return lambda group: all(group.processed[at].end >= end for at, end in ends.items())


def now_ms() -> int:
    """The wall clock, which the members report too."""
    return time.time_ns() // 1_000_000


def shared(group: GroupJudge, places: Iterable[Place], members: set[str]) -> bool:
    """Whether members own all places, each one of them, and none two more than another."""
    owned = dict.fromkeys(members, 0)
    for at in places:
        owners = group.owners[at]
        if len(owners) != 1 or not owners <= members:
            return False
        [owner] = owners
        owned[owner] += 1
    return max(owned.values()) - min(owned.values()) <= 1
