"""Members of groups, each in a thread, at the word of standard input: see reporting.py."""

from __future__ import annotations

import queue
import sys
import threading
from abc import ABC, abstractmethod

from support.groups.programs import reporting


class Member(ABC, threading.Thread):
    """One consumer, polled until it shall leave."""

    def __init__(self, name: str, group: str) -> None:
        super().__init__(name=name, daemon=True)
        self.group = group
        self.leaving = threading.Event()
        self.seeks: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self.uncommitted = reporting.Uncommitted(name)

    def run(self) -> None:
        try:
            self.open()
            self.report("joining")
            while not self.leaving.is_set():
                while not self.seeks.empty():
                    at, offset = self.seeks.get()
                    self.uncommitted.forget([at])
                    self.seek(at, offset)
                self.turn()
            self.close()
            self.report("left")
        except BaseException as error:
            self.report("failed", why=repr(error))
            raise

    def turn(self) -> None:
        """Poll once, process what comes, and commit."""
        records = self.poll()
        if records:
            self.uncommitted.read(records)
        if self.uncommitted.offsets:
            self.commit(dict(self.uncommitted.offsets))

    def report(self, kind: str, **more: object) -> None:
        reporting.report(self.name, kind, **more)

    def assigned(self, places: list[str]) -> None:
        self.report("assigned", p=places)

    def revoked(self, places: list[str], kind: str = "revoked") -> None:
        self.uncommitted.forget(places)
        self.report(kind, p=places)

    @abstractmethod
    def open(self) -> None:
        """Make the consumer and subscribe."""

    @abstractmethod
    def poll(self) -> dict[str, list[int]]:
        """Offsets by place."""

    @abstractmethod
    def commit(self, offsets: dict[str, int]) -> None:
        """Commit and wait for it, then report."""

    @abstractmethod
    def seek(self, at: str, offset: int) -> None:
        """Go on there."""

    @abstractmethod
    def close(self) -> None:
        """Leave the group politely."""


def run(kind: type[Member]) -> None:
    """Obey standard input to its end."""
    members: dict[str, Member] = {}
    for line in sys.stdin:
        command, name, *more = line.split()
        if command == "join":
            members[name] = kind(name, *more)
            members[name].start()
        elif command == "leave":
            members[name].leaving.set()
        else:
            members[name].seeks.put((more[0], int(more[1])))
    for member in members.values():
        member.leaving.set()
    for member in members.values():
        member.join()
