"""Requests to brokers as commands of scenario files; the other commands: `broker_scenarios`.

    == partitions belong to a transaction once they were added
    versions AddPartitionsToTxn 0-3
    topic t:2
    transaction tx
    AddPartitionsToTxn v3_and_below_transactional_id: tx, v3_and_below_topics: [t {partitions: [0]}]
      results_by_topic_v3_and_below: [t {results_by_partition: [0]}]

A request is the API's name and its fields (`message_text`), perhaps after `v4` or `v0-2` for one
version or several, one after the other; else it is sent in the highest version. Several requests
may share a line, and each response has a label then:

    Heartbeat group_id: g, member_id: $ for a | b | member-1
    Heartbeat member_id: m for group_id: a | group_id: b

`versions` has a broker of its own for each version of an API: all of the scenario happens on all of
them, and requests of that API are in that version. What does not differ by version is written once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any, Final

import pytest

from kavka.compat_tests.raw.codec import schemas
from kavka.wire.api import Api
from support import message_text
from support.loop_context import LoopContext
from support.memory_broker import Client, MemoryBroker
from support.memory_network import Closed, until
from support.message_text import Names
from support.scenarios import Command
from support.virtual import run_until_idle

TURNS: Final = 100
"""Iterations of the loop after each command, so that what it leads to has happened."""

DEFAULTS: Final = {
    "AlterConfigs.resources": "resource_type: 2",
    "AlterPartitionReassignments": "timeout_ms: 5000",
    "ApiVersions": "client_software_name: tester, client_software_version: 1.0",
    "CreatePartitions": "timeout_ms: 5000",
    "CreatePartitions.topics": "assignments: null",
    "CreateTopics": "timeout_ms: 5000",
    "CreateTopics.topics": "num_partitions: 1, replication_factor: 1",
    "DeleteRecords": "timeout_ms: 5000",
    "DeleteTopics": "timeout_ms: 5000",
    "DescribeConfigs.resources": "resource_type: 2, configuration_keys: null",
    "ElectLeaders": "timeout_ms: 5000",
    "Fetch": "replica_id: -1, max_bytes: 1048576, session_epoch: -1",
    "IncrementalAlterConfigs.resources": "resource_type: 2",
    "InitProducerId": "transactional_id: null, transaction_timeout_ms: 60000, producer_id: -1, "
    "producer_epoch: -1",
    "ListOffsets": "replica_id: -1",
    "ListPartitionReassignments": "timeout_ms: 5000",
    "ListTransactions": "duration_filter: -1",
    "OffsetFetch.groups": "topics: null",
    "OffsetForLeaderEpoch": "replica_id: -1",
    "Produce": "transactional_id: null, acks: -1, timeout_ms: 1000",
    "UpdateFeatures": "timeout_ms: 1000",
}
"""Fields of requests, and of the structs in their arrays, that have these values unless a scenario
says otherwise."""

APIS: Final[dict[str, Api]] = {
    module.API.name: module.API for module in schemas.api_modules().values()
}
Lines = list[str]


class Side:
    """One broker and what has been sent to it."""

    def __init__(self, version: int | None, *settings: str) -> None:
        self.version = version
        self.broker = MemoryBroker(*settings)
        self.names = Names()
        self.clients: dict[str, Client] = {}
        self.pending: list[tuple[str, str, asyncio.Future[Any]]] = []
        self.pauses: list[float] | None = None
        """Where they are counted."""
        self.epoch = -1
        """The last one of the features."""

    def client(self, name: str) -> Client:
        """The connection of that name, a new one at first."""
        if name not in self.clients or self.clients[name].is_closed:
            self.clients[name] = self.broker.connect() if name else self.broker.client
        return self.clients[name]

    def send(
        self, api: str, version: int, text: str, defaults: Mapping[str, str], client: str = ""
    ) -> asyncio.Future[Any]:
        """Send the request that is written as `text`."""
        struct = schemas.schema(f"{api}Request")
        values = message_text.read(struct, defaults.get(api, ""), self.names)
        values |= message_text.read(struct, text, self.names)
        for field in struct._fields:
            if (more := defaults.get(f"{api}.{field.name}")) and field.name in values:
                common = message_text.read(field.array_of, more, self.names)
                values[field.name] = [common | item for item in values[field.name] or ()]
        return self.client(client).send(api, version, **values)

    def written(self, api: str, answer: asyncio.Future[Any]) -> Lines:
        """A response as text."""
        if isinstance(answer.exception(), Closed):
            return ["connection closed"]
        return message_text.write(schemas.schema(f"{api}Response"), answer.result(), self.names)

    async def arrived(self) -> Lines:
        """What has come for requests that were sent before."""
        await self.broker.advance(0)
        await run_until_idle(TURNS)
        lines: Lines = []
        for sent in list(self.pending):
            name, api, answer = sent
            if answer.done():
                self.pending.remove(sent)
                lines += labelled(name, self.written(api, answer))
        return lines


Work = Callable[[Side], Coroutine[Any, Any, Iterable[str] | None]]


def on_each(
    body: Callable[[Any, Side, Command], Coroutine[Any, Any, Iterable[str] | None]],
) -> Callable[[Any, Command], Lines]:
    """A command that is done to each broker."""

    @wraps(body)
    def do(machine: Any, command: Command) -> Lines:
        return list(machine.each(lambda side: body(machine, side, command)))

    return do


class BrokerMachine(LoopContext):
    """The requests; a context, at whose end the brokers stop cleanly."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: Lines = []
        self.sides: list[Side] = []
        self.patch = pytest.MonkeyPatch()
        self._api = ""
        self._versions: list[int] = []
        self._defaults = dict(DEFAULTS)

    async def finish(self) -> None:
        for side in self.sides:
            await side.broker.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, failure, trace)
        finally:
            self.patch.undo()

    def __getattr__(self, name: str) -> Any:
        api = name.removeprefix("do_")
        if api not in APIS:
            raise AttributeError(name)
        return partial(self._request, api)

    def each(self, work: Work) -> Iterator[str]:
        """Do it to all brokers; what that leads to."""
        if not self.sides:
            versions: Sequence[int | None] = self._versions or [None]
            self.sides = [Side(version, *self.settings) for version in versions]
            for side in self.sides:
                self.run(side.broker.start())
        found = [(side.version, self.run(self._done(side, work))) for side in self.sides]
        return by_version(found)

    async def _done(self, side: Side, work: Work) -> Lines:
        return [*(await work(side) or ()), *await side.arrived()]

    # -- requests ---------------------------------------------------------------------------

    def _request(self, api: str, command: Command) -> Iterator[str]:
        text, versions = self._parsed(api, command)
        template, _, items = text.partition(" for ")
        for item in items.split(" | "):
            filled = template.replace("$", item) if "$" in template else f"{template}, {item}"
            work = partial(self._ask, api=api, versions=versions, text=filled if item else template)
            yield from labelled(item, list(self.each(work)))

    async def _ask(self, side: Side, *, api: str, versions: list[int], text: str) -> Lines:
        found: list[tuple[int | None, Lines]] = []
        for version in versions or [self._version(side, api)]:
            answer = side.send(api, version, text, self._defaults)
            await until(answer.done, f"an answer to {api} v{version}")
            found.append((version, side.written(api, answer)))
        lines = list(by_version(found))
        if side.pauses is not None:
            lines.append(f"pauses: {len(side.pauses)}")
            side.pauses.clear()
        return lines

    def _parsed(self, api: str, command: Command) -> tuple[str, list[int]]:
        """The fields' text and the versions."""
        for key in command.options:
            command.get(key)
        word, _, rest = command.rest.partition(" ")
        if not word[:1] == "v" or not word[1:].replace("-", "").isdigit():
            return command.rest, []
        low, _, high = word[1:].partition("-")
        highest = int(high) if high else APIS[api].highest if "-" in word else int(low)
        return rest, list(range(int(low), highest + 1))

    def _version(self, side: Side, api: str) -> int:
        if side.version is not None and api == self._api:
            return side.version
        return APIS[api].highest

    def do_versions(self, command: Command) -> Iterator[str]:
        """versions API [low-high]: a broker for each version."""
        self._api, *limits = command.words
        api = APIS[self._api]
        low, _, high = (limits or ["0-"])[0].partition("-")
        first = max(int(low), api.lowest)
        self._versions = list(range(first, (int(high) if high else api.highest) + 1))
        yield ""

    def do_default(self, command: Command) -> Iterator[str]:
        """default API FIELDS: what requests of the API have unless they say otherwise. With
        API.FIELD it is of the structs in that array."""
        api, text = command.rest.split(" ", 1)
        for key in command.options:
            command.get(key)
        self._defaults[api] = ", ".join(filter(None, [DEFAULTS.get(api), text]))
        yield ""

    @on_each
    async def do_send(self, side: Side, command: Command) -> None:
        """send NAME API ...: a request on a connection NAME; `NAME: response` is written below the
        command during which it comes."""
        name, api, rest = (*command.rest.split(" ", 2), "")[:3]
        for key in command.options:
            command.get(key)
        text, versions = self._parsed(api, Command(api, [], {}, rest))
        version = versions[0] if versions else self._version(side, api)
        side.pending.append((name, api, side.send(api, version, text, self._defaults, name)))

    @on_each
    async def do_without(self, side: Side, command: Command) -> None:
        """without FIELD ...: fields of responses that are not written."""
        side.names.hidden |= set(command.words)


def by_version(found: Iterable[tuple[int | None, Lines]]) -> Iterator[str]:
    """Lines of each version, once for versions that follow each other and have the same ones."""
    runs: list[tuple[list[int | None], Lines]] = []
    for version, lines in found:
        if runs and runs[-1][1] == lines:
            runs[-1][0].append(version)
        else:
            runs.append(([version], lines))
    for versions, lines in runs:
        if len(runs) == 1:
            yield from lines
            continue
        title = f"v{versions[0]}" if len(versions) == 1 else f"v{versions[0]}-{versions[-1]}"
        yield from labelled(title, lines or ["nothing"])


def labelled(label: str, lines: Lines) -> Lines:
    """The lines as those of `label`."""
    if not label:
        return lines
    if len(lines) == 1:
        return [f"{label}: {lines[0]}"]
    return [f"{label}:", *(f"  {line}" for line in lines)]
