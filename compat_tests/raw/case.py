"""How a case is written.

A case is a named script of requests, valid for a range of versions of one API. It is run in every
one of them, against a broker and against Apache Kafka, each time on topics of its own, and what
both answer is compared field by field. The cases of an API stand in `cases/<module of the API>.py`:

    CASES = Cases("ListOffsets")

    @CASES.case()                                    # every served version; one topic, `on.topic`
    def the_end_of_an_empty_log(on: Ground) -> Values:
        return {"topics": [{"name": on.topic, "partitions": [{"partition_index": 0, ...}]}]}

The name of the function is the name of the case. Fields are plain values as kafka-python's codec
takes them, in snake case; what is left out has the schema's default. Fields that a version does
not have are not sent. Note that the default of an array is an empty list.

Which versions: `@CASES.case(since=4, until=9)`. What must be there before:

    FIVE = Topic("five", partitions=2, batches=(build(), build()), shared=True)

    @CASES.case(topics=[FIVE, Topic("other", configs={"cleanup.policy": "compact"})])

`on.topic` is the full name of the first topic, `on.name("other")` that of another one, and
`on.id("other")` its id; `on.unused("topic")` is the name of a topic that is not there. A topic is
created for each case and version, unless it is `shared`: then by all cases of the API, which
must leave it as it is; or `kept`: then each version of the case finds what the one before left,
which is quicker where that does no harm. `batches` are appended to its partition 0.
`topics=[]`: none is needed.

Several requests: the function is a generator, which is sent the answer to each, as plain dicts
(or one of the `Outcome`s: nothing answered, connection closed):

    @CASES.case(since=7, topics=[FIVE])
    def a_session_goes_on(on: Ground) -> Script:
        first = yield on.ask(max_bytes=1000, session_epoch=0, topics=[...])
        yield on.ask(session_id=first["session_id"], session_epoch=1)

`on.ask(...)` is a request of the case's own API and version; `on.other("Metadata", 9, ...)` one of
another API, for instance to see what a request has changed; its answer is compared too, unless
`compared=False`. `on.ask(..., silent=True)` is one that is answered by nothing (acks=0), and
`on.ask(..., within_s=NEVER_ANSWERED_S)` one that Apache Kafka fails to answer.
`on.raw(data)` sends bytes as they are (with the frame's length in front); `on.frame(...)` gives
the frame of a request to spoil. `on.ended(data)` sends bytes and then ends the stream. All
requests of a case go over one connection; after a closed one the next gets a new one. Others
go over another one with `link="2"`. A request that may have to wait for another is sent by
`on.ask(..., later=True)`, which gives nothing; `on.answered("1")` is its answer then. What of an
answer is compared may be picked by `shown=function`.

Scripts of several members of a group, whose versions are those of one API, lie in `sequences/`;
`on.group` is the name of a group of this case and version, and `members.py` has what they share;
`transactions.py` has transactional producers. What may be answered "not yet" is asked
`again=function`, as long as that is true of the answer, and only the last one is compared.

Variants of one thing are added by a loop: `CASES.add("name", function, since=..., topics=...)`.

What differs between any two brokers is listed in `nature.py`, with a reason each. In the repository
`PYTHONPATH=src:tests .venv/bin/python -m differential --api 2` runs the cases of one API against
Kavka and Apache Kafka, and prints what differs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final, TypeAlias
from uuid import UUID

from kavka.compat_tests.raw.codec import schemas, wire_client

Values: TypeAlias = Mapping[str, Any]

NAME_CHARS_MAX: Final = 160
"""Of a topic's name; Apache Kafka allows 249."""

ANSWER_WITHIN_S: Final = 60.0
LOOKS_WITHIN_S: Final = 60.0
"""How long is looked whether a change is in force: Apache Kafka answers before it is."""

NEVER_ANSWERED_S: Final = 1.0
"""For a request that Apache Kafka never answers: how long to wait for that."""

PARTITIONS_MAX: Final = 10_000
"""So many Apache Kafka makes for one request; 3.9 with ZooKeeper has no limit."""

FIRST_LINK: Final = "1"

GROUP_APIS: Final = (
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
    "FindCoordinator",
    "DescribeGroups",
    "ListGroups",
    "DeleteGroups",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
)


TRANSACTION_APIS: Final = (
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeTransactions",
    "ListTransactions",
)
"""Their cases need the coordinators of both; other APIs have tables with `transactional`."""


def looking() -> Iterator[None]:
    """The turns of a loop that asks until something is so, until that has taken too long. How often
    a broker is asked in that time differs with the machine and what else it does."""
    ends_s = time.monotonic() + LOOKS_WITHIN_S
    while time.monotonic() < ends_s:
        yield


class NotPlayable(Exception):
    """A case can't be played on this broker; the message says what it lacks."""


class Outcome(Enum):
    """What may come instead of an answer."""

    CLOSED = "connection closed"
    SILENT = "no answer"
    TIMED_OUT = "no answer in time"


@dataclass(frozen=True)
class Topic:
    """A topic that a case needs. `batches` are appended to partition 0."""

    label: str = "t"
    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    batches: Sequence[bytes | bytearray] = ()
    shared: bool = False
    kept: bool = False


@dataclass(frozen=True)
class Step:
    """One request. With `answer_as` = (API, version) the answer is read as one of these."""

    frame: bytes
    answer_as: tuple[str, int] | None
    compared: bool = True
    silent: bool = False
    ended: bool = False
    within_s: float = ANSWER_WITHIN_S
    """How long to wait for the answer."""
    link: str = FIRST_LINK
    """Which connection it goes over."""
    later: bool = False
    """Whether it is only sent: the answer comes with a step whose frame is empty."""
    shown: Callable[[Any], Any] | None = None
    """What of the answer is compared; all of it if None."""
    again: Callable[[Any], bool] | None = None
    """Whether the same is asked again, after this answer; only the last one counts."""


Script: TypeAlias = Generator[Step, Any, None]
Function: TypeAlias = "Callable[[Ground], Values | Script]"


@dataclass(frozen=True)
class Case:
    """A script, the versions it is for, and what it needs."""

    api: str
    name: str
    function: Function
    since: int
    until: int
    topics: Sequence[Topic]
    transactional: bool = False

    @property
    def of_groups(self) -> bool:
        """Whether it needs the coordinators of groups."""
        return self.transactional or self.api in GROUP_APIS


class Cases:
    """The cases of one API, in order."""

    def __init__(self, api: str, *, transactional: bool = False) -> None:
        self.api = api
        self.transactional = transactional or api in TRANSACTION_APIS
        """Whether cases need the coordinators of transactions as well."""
        self.key: int = wire_client.api_key(api)
        served = messages_api(api)
        self.first: int = served.lowest
        self.last: int = served.highest
        self.cases: list[Case] = []

    def add(
        self,
        name: str,
        function: Function,
        *,
        since: int = 0,
        until: int | None = None,
        topics: Sequence[Topic] = (Topic(),),
    ) -> None:
        """One more case; its name must be new."""
        assert all(name != case.name for case in self.cases), name
        last = self.last if until is None else min(until, self.last)
        since = max(since, self.first)
        assert since <= last, f"{self.api} {name}: no such version"
        self.cases.append(
            Case(self.api, name, function, since, last, tuple(topics), self.transactional)
        )

    def case(
        self,
        *,
        since: int = 0,
        until: int | None = None,
        topics: Sequence[Topic] = (Topic(),),
    ) -> Callable[[Function], Function]:
        """Make a case of the function below."""

        def added(function: Function) -> Function:
            name = function.__name__.replace("_", " ")
            self.add(name, function, since=since, until=until, topics=topics)
            return function

        return added

    def runs(self) -> Iterable[tuple[Case, int]]:
        """Each (case, version)."""
        for case in self.cases:
            for version in range(case.since, case.until + 1):
                yield case, version


def messages_api(name: str) -> Any:
    """Kavka's description of an API: which versions there are."""
    return next(module.API for module in schemas.api_modules().values() if module.API.name == name)


@dataclass(frozen=True)
class Facts:
    """What a script may have to know of the broker that it runs against."""

    host: str
    port: int
    broker_id: int
    cluster_id: str
    ids: Mapping[str, UUID] = field(default_factory=dict)
    """Topic ids by full name; of the topics that were made for the cases."""
    prefix: str = ""
    """Of every topic's name."""
    patience_s: float = 0.0
    """How long to wait at least for each answer: Kavka gives those that Apache Kafka forgets."""
    offered: Mapping[str, tuple[int, int]] | None = None
    """The (lowest, highest) version of each API that it offers; all if None."""
    settings: Mapping[str, str | None] = field(default_factory=dict)
    """Of the broker, by name, as far as they are known."""
    has_quotas: bool = False
    """Whether it tells of quotas, by which a client may have to wait."""
    limits_partitions: bool = True
    """Whether it refuses to make more than `PARTITIONS_MAX` partitions at a time."""
    others: frozenset[str] = frozenset()
    """Topics and groups that were there before."""
    coordinator_epochs: frozenset[int] = frozenset({0})
    """Of its transaction coordinators: how often each has been elected."""
    listed: tuple[str, int] | None = None
    """The address that clients are given, if it is another one."""
    now_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
    """When it was asked, about: what is less than a day away is its clock's time."""

    @cached_property
    def names(self) -> Mapping[UUID, str]:
        """Full names by topic id."""
        return {topic_id: name for name, topic_id in self.ids.items()}

    def offers(self, api: str, version: int) -> bool:
        """Whether an API may be asked in this version."""
        if self.offered is None:
            return True
        lowest, highest = self.offered.get(api, (0, -1))
        return lowest <= version <= highest


class Ground:
    """Where a script stands: one case in one version against one broker."""

    def __init__(self, case: Case, version: int, facts: Facts) -> None:
        self.case = case
        self.version = version
        self.facts = facts
        self._correlation_id = 0

    @property
    def broker_id(self) -> int:
        return self.facts.broker_id

    def needs(self, setting: str, value: str) -> None:
        """What the script tries can only be tried where the broker is set so. NotPlayable."""
        found = self.facts.settings.get(setting, value)
        if found != value:
            raise NotPlayable(f"the broker's {setting} is {found}, not {value}")

    def needs_limit(self) -> None:
        """The script asks for more partitions than a broker should make. NotPlayable."""
        if not self.facts.limits_partitions:
            raise NotPlayable(f"the broker would make more than {PARTITIONS_MAX} partitions")

    @property
    def topic(self) -> str:
        """The full name of the case's first topic."""
        return self.name(self.case.topics[0].label)

    @property
    def topic_id(self) -> UUID:
        """Its id."""
        return self.id(self.case.topics[0].label)

    def name(self, label: str) -> str:
        """The full name of one of the case's topics."""
        found = next(topic for topic in self.case.topics if topic.label == label)
        return topic_name(self.facts.prefix, self.case, self.version, found)

    def id(self, label: str) -> UUID:
        """The id of one of the case's topics, on this broker. NotPlayable where it has none."""
        found = self.facts.ids.get(self.name(label))
        if found is None:
            raise NotPlayable("the broker gives topics no ids")
        return found

    def unused(self, label: str) -> str:
        """The name of a topic that is not there, unless the case makes it."""
        return topic_name(self.facts.prefix, self.case, self.version, Topic(f"no-{label}"))

    def ask(
        self,
        *,
        compared: bool = True,
        silent: bool = False,
        within_s: float = ANSWER_WITHIN_S,
        link: str = FIRST_LINK,
        later: bool = False,
        shown: Callable[[Any], Any] | None = None,
        again: Callable[[Any], bool] | None = None,
        **fields: Any,
    ) -> Step:
        """A request of the case's own API and version."""
        return Step(
            self.frame(**fields),
            (self.case.api, self.version),
            compared,
            silent,
            within_s=max(within_s, self.facts.patience_s),
            link=link,
            later=later,
            shown=shown,
            again=again,
        )

    def other(
        self,
        api: str,
        version: int,
        *,
        compared: bool = True,
        link: str = FIRST_LINK,
        later: bool = False,
        shown: Callable[[Any], Any] | None = None,
        again: Callable[[Any], bool] | None = None,
        **fields: Any,
    ) -> Step:
        """A request of another API."""
        self._correlation_id += 1
        frame = wire_client.framed(wire_client.encode(api, version, self._correlation_id, **fields))
        answer_as = (api, version)
        return Step(frame, answer_as, compared, link=link, later=later, shown=shown, again=again)

    def answered(
        self, link: str, *, compared: bool = True, within_s: float = ANSWER_WITHIN_S
    ) -> Step:
        """The answer to what was sent for later on a connection."""
        return Step(b"", None, compared, within_s=within_s, link=link)

    @property
    def group(self) -> str:
        """The name of a group that this case has for itself in this version."""
        return topic_name(self.facts.prefix, self.case, self.version, Topic("group"))

    @property
    def transactional_id(self) -> str:
        """One that this case has for itself in this version."""
        return topic_name(self.facts.prefix, self.case, self.version, Topic("transaction"))

    def frame(self, **fields: Any) -> bytes:
        """The frame of a request, its length in front."""
        self._correlation_id += 1
        encoded = wire_client.encode(self.case.api, self.version, self._correlation_id, **fields)
        return wire_client.framed(encoded)

    def raw(self, frame: bytes, answer_as: tuple[str, int] | None = None) -> Step:
        """Bytes as they are; by default an answer is read as one of the case's API."""
        return Step(frame, answer_as or (self.case.api, self.version))

    def ended(self, data: bytes) -> Step:
        """Bytes as they are, behind which the stream ends."""
        return Step(data, (self.case.api, self.version), ended=True)


def topic_name(prefix: str, case: Case, version: int, topic: Topic) -> str:
    """A shared topic's name has the API, another's the case and the version as well."""
    if topic.shared:
        return f"{prefix}{case.api}-shared-{topic.label}"
    slug = re.sub(r"[^a-zA-Z0-9]+", "-", case.name)
    scope = "" if topic.kept else f"-v{version}"
    return f"{prefix}{case.api}-{slug}"[:NAME_CHARS_MAX] + f"{scope}-{topic.label}"
