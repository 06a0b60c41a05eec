"""Processes with members of groups, and what they all have told."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, cast

from support.groups.clients import GroupClient
from support.groups.events import MOVES, Event, Place, read
from support.groups.judge import GroupJudge
from support.wait import eventually

END_WITHIN_S = 60.0
SHOWN_EVENTS = 30
SHOWN_COMPLAINTS = 5
SHOWN_BYTES = 3000


class Story:
    """All events of a test in the order of their arrival, and where its groups stand by them."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.groups: dict[str, GroupJudge] = {}
        self.member_groups: dict[str, str] = {}
        self._lock = threading.Lock()

    def joins(self, member: str, group: str) -> None:
        """A member of a group will tell."""
        with self._lock:
            self.member_groups[member] = group
            self.groups.setdefault(group, GroupJudge(group))

    def add_line(self, line: bytes) -> None:
        """A member has told something."""
        self.add(read(line, self.member_groups))

    def add(self, event: Event) -> None:
        """Something has happened."""
        with self._lock:
            self.events.append(event)
            self.groups[event.group].take(event)

    def ask(self, group: str, what: Callable[[GroupJudge], bool]) -> bool:
        """A question about a group as it stands."""
        with self._lock:
            return what(self.groups[group])

    def last_move_ms(self, group: str) -> int:
        """When somebody in a group last got or gave up something."""
        with self._lock:
            moves = [one.at_ms for one in self.events if one.group == group and one.what in MOVES]
        return max(moves, default=0)

    def of(self, what: str, group: str = "") -> list[Event]:
        """The events of one kind."""
        with self._lock:
            events = list(self.events)
        return [one for one in events if one.what == what and group in ("", one.group)]

    def tail(self) -> str:
        """Where the groups stand, and the last that was told, for messages about a failed test."""
        with self._lock:
            kept = [one for one in self.events if one.what not in ("read", "committed")]
            lines = [
                f"{one.at_ms % 1_000_000} {one.member or one.group} {one.what} {one.why}"
                f" {' '.join(sorted(one.places))}"
                for one in kept[-SHOWN_EVENTS:]
            ]
            for name, group in self.groups.items():
                owners = {at: sorted(who) for at, who in sorted(group.owners.items())}
                ends = {at: one.end for at, one in sorted(group.processed.items())}
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
        command, environment = client.start()
        given = [f"{name}={value}" for name, value in {**client.settings, **settings}.items()]
        self._story = story
        self._stderr = stderr
        self.members: set[str] = set()
        with stderr.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, bootstrap, topic, *given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                start_new_session=True,
            )
        self._in = cast(BinaryIO, self.process.stdin)
        self._out = cast(BinaryIO, self.process.stdout)
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def join(self, member: str, group: str) -> None:
        """Start a member."""
        self._story.joins(member, group)
        self.members.add(member)
        self._tell(f"join {member} {group}")

    def leave(self, member: str) -> None:
        """End a member politely. Returns when it has left."""
        self.members.discard(member)
        self._tell(f"leave {member}")
        eventually(
            lambda: member in {one.member for one in self._story.of("left")},
            within_s=END_WITHIN_S,
            what=f"{member} leaves",
            detail=self.tail,
        )

    def seek(self, member: str, at: Place, offset: int) -> None:
        """Have a member go on elsewhere."""
        self._tell(f"seek {member} {at} {offset}")

    def kill(self) -> None:
        """SIGKILL: its members have no chance to leave."""
        assert self.process.poll() is None, self.tail()
        self.process.kill()
        self.process.wait(END_WITHIN_S)
        self._reader.join(END_WITHIN_S)  # what it told before is taken down before its end is
        for member in sorted(self.members):
            group = self._story.member_groups[member]
            self._story.add(Event(group, "killed", member, now_ms()))
        self._close()

    def finish(self) -> None:
        """All leave politely, and the process ends."""
        self._in.close()
        code = self.process.wait(END_WITHIN_S)
        self._reader.join(END_WITHIN_S)
        assert code == 0, f"ended with {code}\n{self.tail()}"
        self._close()

    def close(self) -> None:
        """End it in whatever way, for the end of a test."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(END_WITHIN_S)
        self._reader.join(END_WITHIN_S)
        self._close()

    def tail(self) -> str:
        """What it, and all members, told last."""
        return self._stderr.read_text(errors="replace")[-SHOWN_BYTES:] + "\n" + self._story.tail()

    def _tell(self, command: str) -> None:
        assert self.process.poll() is None, self.tail()
        self._in.write(command.encode() + b"\n")
        self._in.flush()

    def _listen(self) -> None:
        for line in self._out:
            if line.endswith(b"\n"):
                self._story.add_line(line)

    def _close(self) -> None:
        self._in.close()
        self._out.close()


def processes(ends: Mapping[Place, int]) -> Callable[[GroupJudge], bool]:
    """Whether all in front of some offsets is processed."""
    return lambda group: all(group.processed[at].end >= end for at, end in ends.items())


def now_ms() -> int:
    """The wall clock, which the members tell too."""
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
