"""What the actors of a world saw, for the judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"

OFFSET_STEP = 1_000_000

UNKNOWN_OFFSET = -1
"""Of a record that is acknowledged, but its producer does not know where it lies."""

Place = tuple[str, int]
"""Topic and partition."""


class Write(NamedTuple):
    """A record that a producer wants to write; its value is unique."""

    producer: str
    place: Place
    is_idempotent: bool
    """Whether it may be there once only."""
    is_dense: bool
    """Whether each record of its producer follows the one with the number before."""


class Seen(NamedTuple):
    """A record that a reader was given."""

    offset: int
    value: bytes | None
    key: bytes | None


class End(NamedTuple):
    """The high watermark that came with a response."""

    at_s: float
    leader_epoch: int
    """-1 where the reader does not know it."""
    high_watermark: int


@dataclass
class Reading:
    """What one reader was given of one partition, in order, since it began or was reset."""

    reader: str
    place: Place
    committed: bool = False
    """Whether it reads what is committed only."""
    records: list[Seen] = field(default_factory=list)
    position: int = 0
    """Where it reads next."""
    judged_up_to: int | None = None
    """Where it read next before what is left of compacted topics was read: it goes on reading, and
    they go on being compacted. None if that was not read."""
    ends: list[End] = field(default_factory=list)
    markers: list[int] = field(default_factory=list)
    """The producer ids of the transaction markers, in order."""


@dataclass
class Commit:
    """An offset that a member of a group commits."""

    member: str
    group: str
    place: Place
    generation: int
    offset: int
    at_s: float
    acknowledged_s: float | None = None
    is_refused: bool = False
    member_id: str = ""
    """Of the consumer protocol: with an earlier epoch, too, a member may commit what it has had
    since then (KIP-1251)."""


class Fetched(NamedTuple):
    """A committed offset that a member was given, and when it asked; -1: there is none."""

    member: str
    group: str
    place: Place
    offset: int
    at_s: float


class Transaction:
    """A transaction of one producer, and what came of it."""

    def __init__(self, producer: str, number: int) -> None:
        self.producer = producer
        self.number = number
        self.producer_id = -1
        self.values: dict[bytes, Place] = {}
        self.keys: dict[bytes, bytes | None] = {}
        """By value."""
        self.outcome = ABORTED
        """UNKNOWN from the moment that a commit is sent until its response."""
        self.is_ended = False
        """Whether its end was acknowledged."""


class History:
    """All operations and their outcomes."""

    def __init__(self, now_s: Callable[[], float], part_of: History | None = None) -> None:
        """`part_of`: one of the same brokers; what these lose is lost here, too."""
        self.now_s = now_s
        self._part_of = part_of
        self.writes: dict[bytes, Write] = {}
        self.acknowledged: dict[bytes, int] = {}
        """Offsets by value."""
        self.given_up: dict[bytes, str] = {}
        """Why a producer has given a record up, by value: it may be there or not."""
        self.keys: dict[bytes, bytes] = {}
        """By value, of records outside transactions that have one."""
        self.ends: dict[Place, int] = {}
        """The offset behind the last acknowledged record."""
        self.commits: list[Commit] = []
        self.fetched: list[Fetched] = []
        self.transactions: list[Transaction] = []
        self.readings: list[Reading] = []
        self.violations: list[str] = []
        self.keeps_markers = False
        """Whether no transaction marker of the compacted topic may be removed."""
        self.compacts_apart = False
        """Whether replicas are compacted each by itself: a reader may miss what another one has."""
        self._offsets_made = 0
        self._may_lose = False

    @property
    def may_lose(self) -> bool:
        """Whether acknowledged records may be lost: the power was cut, and nothing is synced before
        it is acknowledged."""
        return self._may_lose or (self._part_of is not None and self._part_of.may_lose)

    def loses(self) -> None:
        """From now on acknowledged records may be lost."""
        self._may_lose = True

    def higher_offset(self, offset: int) -> int:
        """One to be committed that no other commit has."""
        self._offsets_made += 1
        return (offset // OFFSET_STEP + 1) * OFFSET_STEP + self._offsets_made

    def violation(self, complaint: str) -> None:
        """A judge has found something."""
        self.violations.append(f"{self.now_s():.3f} s: {complaint}")
