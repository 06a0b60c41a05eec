"""What a program with consumers in groups reads and reports: the same for every client.

The program is started with the broker's address, a topic (or, from `^` on, a regular expression)
and settings, each `name=value`. On standard input it reads commands, a line each:

    join MEMBER GROUP       start a consumer in a group
    leave MEMBER            end it politely
    seek MEMBER PLACE N     go on at offset N of a place, which is `topic/partition`

At the end of its input it ends all politely, then itself. On standard output it reports, a line of
JSON each, as it happens: `t` is the wall clock in ms, `m` the member, `e` what:

    joining                 the consumer is made
    assigned    p: [PLACE]  it owns these as well
    owns        p: [PLACE]  it owns these and no others
    revoked     p: [PLACE]  it gave these up
    lost        p: [PLACE]  they were taken from it
    read        r: [[PLACE, FIRST, LAST]]   it processed the records from FIRST to LAST
    committed   o: {PLACE: OFFSET}          the broker took this commit
    refused     why: TEXT, o: {PLACE: OFFSET}   it did not, or not in time (o: from Python)
    left                                    it has ended politely
    failed      why: TEXT                  it ended by itself

A record is reported as read before the offset behind it is committed, and both by a write of its
own: what is committed was reported, wherever the program is killed.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

POLL_MS = 100
STDOUT = 1

_lock = threading.Lock()


def report(member: str, kind: str, **more: Any) -> None:
    """Write one line."""
    with _lock:
        fields = {"t": time.time_ns() // 1_000_000, "m": member, "e": kind, **more}
        data = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        while data:
            data = data[os.write(STDOUT, data) :]


def place(topic: str, partition: int) -> str:
    """A partition's name in reports."""
    return f"{topic}/{partition}"


def parted(name: str) -> tuple[str, int]:
    """The partition of a name in reports."""
    topic, _, partition = name.rpartition("/")
    return topic, int(partition)


def ranges(at: str, offsets: Iterable[int]) -> list[tuple[str, int, int]]:
    """Records of one place as ranges without gaps."""
    found: list[tuple[str, int, int]] = []
    for offset in offsets:
        if found and found[-1][2] + 1 == offset:
            found[-1] = (at, found[-1][1], offset)
        else:
            found.append((at, offset, offset))
    return found


def value_of(text: str) -> Any:
    """A setting's value: a number, a truth value or a text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


class Uncommitted:
    """Offsets behind what a member has processed, as long as it owns the place."""

    def __init__(self, member: str) -> None:
        self._member = member
        self.offsets: dict[str, int] = {}

    def read(self, records: Mapping[str, list[int]]) -> None:
        """Records, by their place, are processed."""
        read: list[tuple[str, int, int]] = []
        for at, offsets in records.items():
            read += ranges(at, offsets)
            self.offsets[at] = offsets[-1] + 1
        report(self._member, "read", r=read)

    def committed(self, offsets: Mapping[str, int]) -> None:
        """The broker has taken a commit."""
        report(self._member, "committed", o=offsets)
        for at, offset in offsets.items():
            if self.offsets.get(at) == offset:
                del self.offsets[at]

    def refused(self, error: object, offsets: Mapping[str, int]) -> None:
        """The broker, or the client itself, has not; they are committed again with the next."""
        report(self._member, "refused", why=repr(error)[:200], o=offsets)

    def forget(self, places: Iterable[str]) -> None:
        """They belong to another now, who begins at what is committed."""
        for at in places:
            self.offsets.pop(at, None)
