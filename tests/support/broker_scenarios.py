"""Brokers as the machine of scenario files: requests to them, and their responses.

    == partitions belong to a transaction once they were added
    versions AddPartitionsToTxn 0-3
    topic t partitions=2
    coordinator transaction
    InitProducerId transactional_id: tx, transaction_timeout_ms: 60000
    AddPartitionsToTxn v3_and_below_transactional_id: tx, v3_and_below_topics: [t {partitions: [0]}]
    ----
    results_by_topic_v3_and_below: [t {results_by_partition: [0]}]

A request is the API's name and its fields (`message_text`), perhaps after `v4` or `v0-2` for one
version or several, one after the other; else it is sent in the highest version. Requests and
responses of the same command that do not differ by version are written once.

`versions` has a broker of its own for each version of an API: all of the scenario happens on all of
them, and requests of that API are in that version.

Other commands are the methods `do_<name>` below; they write nothing unless they say so.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final

import pytest

from kavka.log.memfs import Fault
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.wire.api import Api
from kavka.wire.errors import ErrorCode
from support import (
    group_requests,
    message_text,
    messages,
    offset_requests,
    transaction_requests,
)
from support.batches import CODECS, Written, build
from support.denied import Denied
from support.memory_broker import DATA, Client, MemoryBroker
from support.memory_network import Closed, until
from support.message_text import Names
from support.pauses import pauses_of
from support.scenarios import Command, duration_ms
from support.virtual import settle

TURNS: Final = 100
"""Iterations of the loop after each command, so that what it leads to has happened."""

DEFAULTS: Final = {
    "CreateTopics": "timeout_ms: 5000",
    "CreateTopics.topics": "num_partitions: 1, replication_factor: 1",
    "CreatePartitions": "timeout_ms: 5000",
    "CreatePartitions.topics": "assignments: null",
    "OffsetFetch.groups": "topics: null",
    "AlterConfigs.resources": "resource_type: 2",
    "IncrementalAlterConfigs.resources": "resource_type: 2",
    "DescribeConfigs.resources": "resource_type: 2, configuration_keys: null",
    "DeleteTopics": "timeout_ms: 5000",
    "DeleteRecords": "timeout_ms: 5000",
    "ElectLeaders": "timeout_ms: 5000",
    "AlterPartitionReassignments": "timeout_ms: 5000",
    "ListPartitionReassignments": "timeout_ms: 5000",
    "UpdateFeatures": "timeout_ms: 1000",
    "InitProducerId": "transactional_id: null, transaction_timeout_ms: 60000, producer_id: -1, "
    "producer_epoch: -1",
    "ListTransactions": "duration_filter: -1",
    "ListOffsets": "replica_id: -1",
    "OffsetForLeaderEpoch": "replica_id: -1",
    "Fetch": "replica_id: -1, max_bytes: 1048576, session_epoch: -1",
    "ApiVersions": "client_software_name: tester, client_software_version: 1.0",
}
"""Fields of requests, and of the structs in their arrays, that have these values unless a scenario
says otherwise."""

APIS: Final[dict[str, Api]] = {one.API.name: one.API for one in messages.api_modules().values()}


class Side:
    """One broker and what has been sent to it."""

    def __init__(self, version: int | None, *settings: str) -> None:
        self.version = version
        self.broker = MemoryBroker(*settings)
        self.names = Names()
        self.clients: dict[str, Client] = {}
        self.pending: list[tuple[str, str, asyncio.Future[Any]]] = []
        self.pauses: list[float] | None = None
        self.epoch = -1

    async def start(self) -> None:
        await self.broker.start()
        self.clients[""] = self.broker.client

    def client(self, name: str) -> Client:
        """The connection of that name, a new one at first."""
        if name not in self.clients or self.clients[name].is_closed:
            self.clients[name] = self.broker.connect() if name else self.broker.client
        return self.clients[name]

    def send(
        self, api: str, version: int, text: str, defaults: Mapping[str, str], client: str = ""
    ) -> asyncio.Future[Any]:
        """Send the request that is written as `text`."""
        struct = messages.schema(f"{api}Request")
        values = message_text.read(struct, defaults.get(api, ""), self.names)
        values |= message_text.read(struct, text, self.names)
        for field in struct._fields:
            if (more := defaults.get(f"{api}.{field.name}")) and field.name in values:
                common = message_text.read(field.array_of, more, self.names)
                values[field.name] = [common | one for one in values[field.name] or ()]
        return self.client(client).send(api, version, **values)

    def written(self, api: str, answer: asyncio.Future[Any]) -> list[str]:
        """A response as text."""
        if isinstance(answer.exception(), Closed):
            return ["connection closed"]
        return message_text.write(
            messages.schema(f"{api}Response"), answer.result(), self.names
        )


class BrokerScenario:
    """A machine for `Scenario.check`; a context, at whose end the brokers stop cleanly."""

    def __init__(self) -> None:
        self._settings: list[str] = []
        self._api, self._versions = "", list[int]()
        self._defaults = dict(DEFAULTS)
        self._sides: list[Side] = []
        self._lost: list[Any] = []
        self._runner = asyncio.Runner()
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> BrokerScenario:
        self._runner.__enter__()
        loop = self._runner.get_loop()
        loop.set_exception_handler(lambda _, context: self._lost.append(context))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                for side in self._sides:
                    self._runner.run(side.broker.stop())
                assert not self._lost, self._lost
        finally:
            self._patch.undo()
            self._runner.__exit__(kind, failure, trace)

    def __getattr__(self, name: str) -> Any:
        api = name.removeprefix("do_")
        if api not in APIS:
            raise AttributeError(name)
        return partial(self._request, api)

    def _each(self, work: Callable[[Side], Coroutine[Any, Any, list[str] | None]]) -> list[str]:
        """Do it to all brokers; what that leads to, once for those where it is the same."""
        if not self._sides:
            for version in self._versions or [None]:
                self._sides.append(Side(version, *self._settings))
                self._runner.run(self._sides[-1].start())
        found = [(side.version, self._runner.run(self._done(side, work))) for side in self._sides]
        return list(by_version(found))

    async def _done(
        self, side: Side, work: Callable[[Side], Coroutine[Any, Any, list[str] | None]]
    ) -> list[str]:
        lines = list(await work(side) or ())
        await side.broker.advance(0)
        await settle(TURNS)
        for sent in list(side.pending):
            name, api, answer = sent
            if answer.done():
                side.pending.remove(sent)
                first, *rest = side.written(api, answer)
                lines += [f"{name}: {first}", *rest]
        return lines

    # -- requests ---------------------------------------------------------------------------

    def _request(self, api: str, command: Command) -> list[str]:
        text, versions = self._parsed(api, command)

        async def ask(side: Side) -> list[str]:
            found = []
            for version in versions or [self._version(side, api)]:
                answer = side.send(api, version, text, self._defaults)
                await until(lambda: answer.done(), f"an answer to {api} v{version}")  # noqa: B023
                found.append((version, side.written(api, answer)))
            lines = list(by_version(found))
            if side.pauses is not None:
                lines.append(f"pauses: {len(side.pauses)}")
                side.pauses.clear()
            return lines

        return self._each(ask)

    def _parsed(self, api: str, command: Command) -> tuple[str, list[int]]:
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

    def do_send(self, command: Command) -> list[str]:
        """send NAME API ...: a request on a connection NAME; `NAME: response` is written below the
        command during which it comes."""
        name, api, rest = (*command.rest.split(" ", 2), "")[:3]
        inner = Command(api, [], command.options, rest)
        text, versions = self._parsed(api, inner)
        for key in command.options:
            command.get(key)

        async def send(side: Side) -> None:
            version = versions[0] if versions else self._version(side, api)
            answer = side.send(api, version, text, self._defaults, name)
            side.pending.append((name, api, answer))

        return self._each(send)

    def do_default(self, command: Command) -> Iterator[str]:
        """default API FIELDS: what requests of the API have unless they say otherwise."""
        api, text = command.rest.split(" ", 1)
        for key in command.options:
            command.get(key)
        self._defaults[api] = ", ".join(filter(None, [DEFAULTS.get(api), text]))
        yield ""

    def do_without(self, command: Command) -> list[str]:
        """without FIELD ...: fields of responses that are not written."""

        async def hide(side: Side) -> None:
            side.names.hidden |= set(command.words)

        return self._each(hide)

    # -- the broker's life ------------------------------------------------------------------

    def do_broker(self, command: Command) -> Iterator[str]:
        """broker KEY=VALUE ...: settings, before anything else."""
        assert not self._sides
        self._settings += [f"{key}={command.get(key)}" for key in command.options]
        yield ""

    def _end(self, command: Command) -> list[str]:
        held = command.get("hold")
        settings = [f"{key}={command.get(key)}" for key in command.options if key != "hold"]

        async def end(side: Side) -> None:
            if command.name == "crash":
                await side.broker.crash()
            elif held is not None:
                await side.broker.kill(*settings, holding=held)
            else:
                await getattr(side.broker, command.name)(*settings)
            await side.broker.advance(0)

        return self._each(end)

    do_restart = do_kill = do_crash = _end
    """A clean stop, SIGKILL (and with hold=NAME such jobs do not begin afterwards), or a power cut;
    and a start, perhaps with more settings."""

    def do_steps(self, command: Command) -> list[str]:
        """steps MODULE.CONSTANT=N ...: constants of kavka.server that say how much is done between
        two pauses. From now on requests write how many pauses they made."""
        for name in command.options:
            module, _, constant = name.rpartition(".")
            found = importlib.import_module(f"kavka.{module}")
            assert hasattr(found, constant)
            self._patch.setattr(found, constant, command.number(name))

        async def count(side: Side) -> None:
            side.pauses = pauses_of(side.broker)

        return self._each(count)

    def do_advance(self, command: Command) -> list[str]:
        """advance 5s: let time pass."""
        return self._each(lambda side: side.broker.advance(duration_ms(command.words[0])))

    def do_deny(self, command: Command) -> list[str]:
        """deny READ WRITE:t ...: from now on these are refused, on everything or on one name."""

        def one(word: str) -> Operation | tuple[Operation, str]:
            operation, colon, name = word.partition(":")
            return (Operation[operation], name) if colon else Operation[operation]

        denied = Denied(*map(one, command.words))
        return self._authorize(denied if command.words else AllowAll())

    def do_allow(self, command: Command) -> list[str]:
        """All is allowed again."""
        return self._authorize(AllowAll())

    def _authorize(self, authorizer: Any) -> list[str]:
        async def authorize(side: Side) -> None:
            side.broker.parts.authorizer = authorizer

        return self._each(authorize)

    def do_controller_stops(self, command: Command) -> list[str]:
        """The broker is no longer the controller."""

        async def close(side: Side) -> None:
            side.broker.parts.controller.close()

        return self._each(close)

    def do_hold(self, command: Command) -> list[str]:
        """hold [NAME]: jobs beside the loop (by the function's name) do not begin."""

        async def hold(side: Side) -> None:
            side.broker.jobs.hold(*command.words)

        return self._each(hold)

    def do_release(self, command: Command) -> list[str]:
        """They begin."""

        async def release(side: Side) -> None:
            side.broker.jobs.release()

        return self._each(release)

    def do_fault(self, command: Command) -> list[str]:
        """fault OPERATION PATH [skip=N]: a disk operation fails, once."""

        async def add(side: Side) -> None:
            side.broker.fs.faults.append(Fault(*command.words, skip=command.number("skip")))

        return self._each(add)

    def do_close(self, command: Command) -> list[str]:
        """close NAME: the client hangs up."""

        async def close(side: Side) -> None:
            side.clients[command.words[0]].close()

        return self._each(close)

    def do_purgatory(self, command: Command) -> list[str]:
        """Writes how many requests wait in the purgatory."""

        async def look(side: Side) -> list[str]:
            return [str(len(side.broker.parts.purgatory))]

        return self._each(look)

    def do_cold(self, command: Command) -> list[str]:
        """Nothing is in the page cache."""

        async def empty(side: Side) -> None:
            side.broker.fs.cached = False

        return self._each(empty)

    # -- topics and records -----------------------------------------------------------------

    def do_topic(self, command: Command) -> list[str]:
        """topic NAME [partitions=N] [KEY=VALUE ...]: create it; its id is `#NAME`."""
        (name,) = command.words
        partitions = command.number("partitions", 1)
        configs = {key: command.get(key) for key in command.options if key != "partitions"}

        async def create(side: Side) -> None:
            side.names.topic(name, await side.broker.create(name, partitions, configs))

        return self._each(create)

    def do_topics(self, command: Command) -> list[str]:
        """Writes all topics and how many partitions each has."""

        async def look(side: Side) -> list[str]:
            answer = await side.broker.ask("Metadata", 9, topics=None)
            found = [f"{one.name} {len(one.partitions)}" for one in answer.topics]
            return [", ".join(found) or "no topics"]

        return self._each(look)

    def do_features(self, command: Command) -> list[str]:
        """Writes the finalized levels of features as clients learn them, and whether their epoch is
        newer than the last time."""

        async def look(side: Side) -> list[str]:
            answer = await side.send("ApiVersions", 4, "", self._defaults)
            levels = {one.name: one.max_version_level for one in answer.finalized_features}
            found = [f"{name} {level}" for name, level in sorted(levels.items())]
            before, side.epoch = side.epoch, answer.finalized_features_epoch
            assert side.epoch >= before
            return [", ".join([*found, "newer epoch" if side.epoch > before else "same epoch"])]

        return self._each(look)

    def do_coordinator(self, command: Command) -> list[str]:
        """coordinator group|transaction ...: have the topic of these coordinators created."""

        async def find(side: Side) -> None:
            for word in command.words:
                kind = ["group", "transaction"].index(word)
                answer = await side.broker.ask("FindCoordinator", 1, key="g", key_type=kind)
                assert answer.error_code == 0

        return self._each(find)

    def do_transaction(self, command: Command) -> list[str]:
        """transaction ID [TOPIC-PARTITION ...]: a producer of this transactional id, and a
        transaction with these partitions."""
        name, *places = command.words

        async def begin(side: Side) -> None:
            await transaction_requests.find(side.broker, name)
            producer = await transaction_requests.begun(side.broker, name)
            for place in places:
                topic, _, partition = place.rpartition("-")
                asked = {topic: [int(partition)]}
                codes = await transaction_requests.add(side.broker, producer, asked, name)
                assert set(codes.values()) == {0}

        return self._each(begin)

    def do_member(self, command: Command) -> list[str]:
        """The classic group "g" with one member, `member-1`, in generation 1, with its assignment
        "all"; or, with `member joined`, before its SyncGroup."""

        async def join(side: Side) -> None:
            joined = await (group_requests.join if command.words else group_requests.stable)(
                side.broker
            )
            side.names.of_member(joined.member_id)

        return self._each(join)

    def do_consumer(self, command: Command) -> list[str]:
        """consumer GROUP MEMBER TOPIC ...: a member joins a group of the consumer protocol."""
        group_id, member_id, *topics = command.words
        text = f"group_id: {group_id}, member_id: {member_id}, rebalance_timeout_ms: 60000, "
        text += f"subscribed_topic_names: [{', '.join(topics)}], topic_partitions: []"

        async def join(side: Side) -> None:
            await side.send("ConsumerGroupHeartbeat", 1, text, {})

        return self._each(join)

    def do_commit(self, command: Command) -> list[str]:
        """commit GROUP TOPIC-PARTITION=OFFSET ...: committed offsets of one who is in no group."""
        (group_id,) = command.words
        offsets = {key.rpartition("-"): command.number(key) for key in command.options}
        places = {(topic, int(index)): offset for (topic, _, index), offset in offsets.items()}

        async def commit(side: Side) -> None:
            codes = await offset_requests.commit(side.broker, places, group_id=group_id)
            assert set(codes.values()) == {0}

        return self._each(commit)

    def do_isr(self, command: Command) -> list[str]:
        """isr TOPIC-PARTITION 1,2: broker 2, which never fetches, is a replica, and these are in
        sync. Of the topics of coordinators the partition may be the coordinator's: TOPIC-NAME."""
        place, isr = command.words

        async def share(side: Side) -> None:
            topic, partition = self._place(side, place)
            side.broker.share(tuple(map(int, isr.split(","))), topic, partition)

        return self._each(share)

    def _place(self, side: Side, text: str) -> tuple[str, int]:
        topic, _, partition = text.rpartition("-")
        if partition.isdigit():
            return topic, int(partition)
        parts = side.broker.parts
        owner = parts.groups if topic == parts.groups.topic else parts.transactions
        return topic, owner.partition_of(partition)

    def do_produce(self, command: Command) -> list[str]:
        """produce TOPIC-PARTITION [values=a,b] [times=0,5] [codec=gzip] [producer=id,epoch,sequence]
        [transactional=yes] [acks=-1]: a batch of three records, or of these; times in ms."""
        topic, _, partition = command.words[0].rpartition("-")
        times = command.list("times")
        values = command.list("values", ",".join(["value"] * (len(times) or 3)))
        times = times or ["0"] * len(values)
        records = [
            Written(value=value.encode(), time_ms=int(time))
            for value, time in zip(values, times, strict=True)
        ]
        producer = tuple(map(int, command.list("producer", "-1,-1,-1")))
        codec = command.text("codec", "none")
        assert codec in CODECS and len(producer) == 3
        batch = build(
            records, codec=codec, producer=producer, transactional="transactional" in command
        )
        acks = command.number("acks", -1)

        async def produce(side: Side) -> list[str]:
            answer = await side.broker.produce(batch, topic, int(partition), acks=acks)
            code = ErrorCode(answer.error_code)
            return [code.name if code else f"offset {answer.base_offset}"]

        return self._each(produce)

    def do_log(self, command: Command) -> list[str]:
        """log TOPIC-PARTITION SETTING ...: the log's settings, and its `end` or `start` offset."""
        topic, _, partition = command.words[0].rpartition("-")

        async def look(side: Side) -> list[str]:
            log = side.broker.replica(topic, int(partition)).log
            offsets = {"end": log.end_offset, "start": log.start_offset}
            return [
                f"{name}: {offsets.get(name, getattr(log.settings, name, None))}"
                for name in command.words[1:]
            ]

        return self._each(look)

    def do_directories(self, command: Command) -> list[str]:
        """Those in the data directory."""

        async def look(side: Side) -> list[str]:
            fs = side.broker.fs
            found = [one for one in fs.list_dir(DATA) if fs.is_dir(f"{DATA}/{one}")]
            return [re.sub(r"[.][0-9a-f]{32}-", ".*-", ", ".join(sorted(found))) or "none"]

        return self._each(look)

    def do_fetch(self, command: Command) -> list[str]:
        """fetch TOPIC-PARTITION [offset=N]: one partition, without waiting."""
        topic, _, partition = command.words[0].rpartition("-")
        offset = command.number("offset")

        async def fetch(side: Side) -> list[str]:
            answer = await side.broker.fetch(offset, topic, int(partition))
            struct = messages.schema("FetchResponse")
            for name in ("responses", "partitions"):
                (struct,) = [one.array_of for one in struct._fields if one.name == name]
            return message_text.write(struct, answer, side.names)

        return self._each(fetch)

    def do_read(self, command: Command) -> list[str]:
        """read TOPIC-PARTITION: offsets and values of all records that consumers see."""
        topic, _, partition = command.words[0].rpartition("-")

        async def read(side: Side) -> list[str]:
            found = await side.broker.read_all(topic, int(partition))
            return [", ".join(f"{one.offset} {(one.value or b'').decode()}" for one in found)]

        return self._each(read)


def by_version(found: list[tuple[int | None, list[str]]]) -> Iterator[str]:
    """Lines of each version, once for versions that follow each other and have the same ones."""
    runs: list[tuple[list[int | None], list[str]]] = []
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
        if len(lines) == 1:
            yield f"{title}: {lines[0]}"
        else:
            yield f"{title}:"
            yield from (f"  {line}" for line in lines or ["nothing"])
