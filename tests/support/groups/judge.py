"""Whether what a group's members report is what a consumer group promises. Pure.

- Every record that was acknowledged to its producer is processed at least once.
- None is skipped: no offset is committed before all records in front of it were processed, and a
  member that keeps a partition reads on where it was.
- Committed offsets never go back, but where they are set back on purpose.
- While a group is stable each partition has one owner, which alone processes its records, each
  of them once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping

from support.groups.events import GOES, MOVES, Event, Place


class Processed:
    """Which records of one place have been processed: all in front of `end`, and some behind."""

    def __init__(self) -> None:
        self.end = 0
        self._behind: set[int] = set()

    def add(self, first: int, last: int) -> None:
        """Those from `first` to `last` are."""
        if first <= self.end:
            self.end = max(self.end, last + 1)
        else:
            self._behind.update(range(first, last + 1))
        while self.end in self._behind:
            self._behind.remove(self.end)
            self.end += 1

    def __contains__(self, offset: int) -> bool:
        return offset < self.end or offset in self._behind


class GroupJudge:
    """One group; takes its events in their order. `complaints` stay empty if all is well."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.complaints: list[str] = []
        self.owners: dict[Place, set[str]] = defaultdict(set)
        self.processed: dict[Place, Processed] = defaultdict(Processed)
        self.committed: dict[Place, int] = {}
        self.readers: dict[str, int] = defaultdict(int)
        """How many records each member processed."""
        self.times_settled = 0
        self.is_settled = False
        self._next: dict[tuple[str, Place], int] = {}
        """Where a member reads on."""
        self._since_settled: dict[tuple[Place, int], str] = {}

    def take(self, event: Event) -> None:
        """Judge one event."""
        if event.what in MOVES:
            self._moves(event)
        elif event.what == "read":
            for at, first, last in event.ranges:
                self._read(event.member, at, first, last)
        elif event.what == "committed":
            for at, offset in event.offsets.items():
                self._committed(event.member, at, offset)
        elif event.what == "stable":
            self._settle(event.places)
        elif event.what == "rewound":
            self._rewind(event.offsets)

    def owned(self, member: str) -> list[Place]:
        """What a member owns."""
        return [at for at, owners in self.owners.items() if member in owners]

    def _moves(self, event: Event) -> None:
        self.is_settled = False
        gone: Iterable[Place] = event.places
        if event.what in GOES or event.what == "owns":
            gone = self.owned(event.member)
        if event.what != "assigned":
            for at in gone:
                self.owners[at].discard(event.member)
        if event.what in ("assigned", "owns"):
            for at in event.places:
                self.owners[at].add(event.member)
        # Wherever it may start over, it does not read on.
        for at in (*gone, *event.places):
            self._next.pop((event.member, at), None)

    def _read(self, member: str, at: Place, first: int, last: int) -> None:
        reads_on = self._next.get((member, at), first)
        if first > reads_on:
            self._complain(f"{member} skipped {at} from {reads_on} to {first - 1}")
        self._next[member, at] = last + 1
        self.processed[at].add(first, last)
        self.readers[member] += last + 1 - first
        if self.is_settled:
            self._read_while_settled(member, at, first, last)

    def _read_while_settled(self, member: str, at: Place, first: int, last: int) -> None:
        if self.owners[at] != {member}:
            self._complain(f"{member} read {at} from {first}, which {self.owners[at]} owns")
        for offset in range(first, last + 1):
            other = self._since_settled.setdefault((at, offset), member)
            if other != member:
                self._complain(f"{other} and {member} processed {at} {offset}")

    def _committed(self, member: str, at: Place, offset: int) -> None:
        if offset < self.committed.get(at, 0):
            self._complain(f"{member} set {at} back from {self.committed[at]} to {offset}")
        if offset > self.processed[at].end:
            end = self.processed[at].end
            self._complain(f"{member} committed {at} {offset}, processed are those before {end}")
        self.committed[at] = offset

    def _settle(self, places: Iterable[Place]) -> None:
        self.is_settled = True
        self.times_settled += 1
        self._since_settled.clear()
        for at in places:
            if len(self.owners[at]) != 1:
                self._complain(f"{at} has the owners {sorted(self.owners[at])}")

    def _rewind(self, offsets: Mapping[Place, int]) -> None:
        self.is_settled = False
        self.committed.update(offsets)

    def _complain(self, complaint: str) -> None:
        self.complaints.append(f"group {self.group}: {complaint}")


def unprocessed(judge: GroupJudge, acknowledged: Iterable[tuple[Place, int]]) -> list[str]:
    """Complaints about records that were acknowledged and that the group has not processed."""
    return [
        f"group {judge.group}: {at} {offset} was not processed"
        for at, offset in acknowledged
        if offset not in judge.processed[at]
    ]


def judged(events: Iterable[Event]) -> dict[str, GroupJudge]:
    """The judges of all groups, after all events in the order of their times."""
    judges: dict[str, GroupJudge] = {}
    for event in sorted(events, key=lambda event: event.at_ms):
        judges.setdefault(event.group, GroupJudge(event.group)).take(event)
    return judges


def given_up(events: Iterable[Event]) -> set[tuple[str, Place, int]]:
    """Commits (group, place, offset) whose members had no success in time."""
    return {
        (event.group, at, offset)
        for event in events
        if event.what == "refused"
        for at, offset in event.offsets.items()
    }


def went_back(
    commits: Iterable[tuple[str, Place, int]], may_be_late: Container[tuple[str, Place, int]] = ()
) -> list[str]:
    """Complaints about commits (group, place, offset), in the order in which they were stored.
    `may_be_late`: a commit that librdkafka has reported as timed out it still sends again, behind
    the member's next one, and no broker can know."""
    last: dict[tuple[str, Place], int] = {}
    complaints = []
    for group, at, offset in commits:
        if offset < last.get((group, at), 0) and (group, at, offset) not in may_be_late:
            complaints.append(f"group {group}: {at} {offset} stored after {last[group, at]}")
        last[group, at] = offset
    return complaints
