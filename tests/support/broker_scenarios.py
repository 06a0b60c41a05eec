"""Brokers as the machine of scenario files: what happens to them besides requests.

Each command is a method `do_<name>`; it writes nothing unless it says so.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

from kavka.compat_tests.raw.codec import schemas
from kavka.compat_tests.raw.codec.batches import CODECS, Written, build
from kavka.log.memfs import Fault
from kavka.server.auth.authorizer import AllowAll, Operation
from kavka.server.replica.partition_state import LeaderAndIsrState
from kavka.wire.errors import ErrorCode
from support import group_requests, message_text, offset_requests, transaction_requests
from support.broker_machine import BrokerMachine, Lines, Side, on_each
from support.denied import Denied
from support.memory_broker import DATA
from support.pauses import pauses_of
from support.scenarios import Command, duration_ms


def _place(text: str) -> tuple[str, int]:
    """TOPIC-PARTITION."""
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def _place_of(side: Side, text: str) -> tuple[str, int]:
    """TOPIC-PARTITION; of the topics of coordinators also the coordinator's: TOPIC-NAME."""
    topic, _, partition = text.rpartition("-")
    if not partition.isdigit():
        parts = side.broker.parts
        owner = parts.groups if topic == parts.groups.topic else parts.transactions
        return topic, owner.partition_of(partition)
    return topic, int(partition)


class BrokerScenario(BrokerMachine):
    """All commands."""

    # -- the broker's life ------------------------------------------------------------------

    def do_broker(self, command: Command) -> Iterator[str]:
        """broker KEY=VALUE ...: settings, before anything else."""
        assert not self.sides
        self.settings += [f"{key}={command.get(key)}" for key in command.options]
        yield ""

    @on_each
    async def _end(self, side: Side, command: Command) -> None:
        held = command.get("hold")
        settings = [f"{key}={command.get(key)}" for key in command.options if key != "hold"]
        if command.name == "crash":
            await side.broker.crash()
        elif held is not None:
            await side.broker.kill(*settings, holding=held)
        else:
            await getattr(side.broker, command.name)(*settings)

    do_restart = do_kill = do_crash = _end
    """A clean stop, SIGKILL (and with hold=NAME such jobs do not begin afterwards), or a power cut;
    and a start, perhaps with more settings."""

    @on_each
    async def do_steps(self, side: Side, command: Command) -> None:
        """steps MODULE.CONSTANT=N ...: constants of kavka that say how much is done between two
        pauses. From now on requests write how many pauses they made."""
        for name in command.options:
            module, _, constant = name.rpartition(".")
            found = importlib.import_module(f"kavka.{module}")
            assert hasattr(found, constant)
            self.patch.setattr(found, constant, command.number(name))
        side.pauses = pauses_of(side.broker)

    @on_each
    async def do_advance(self, side: Side, command: Command) -> None:
        """advance 5s: let time pass."""
        await side.broker.advance(duration_ms(command.words[0]))

    @on_each
    async def do_deny(self, side: Side, command: Command) -> None:
        """deny READ WRITE:t ...: from now on these are refused, on everything or on one name."""

        def operation_of(word: str) -> Operation | tuple[Operation, str]:
            operation, colon, name = word.partition(":")
            return (Operation[operation], name) if colon else Operation[operation]

        side.broker.parts.authorizer = Denied(*map(operation_of, command.words))

    @on_each
    async def do_allow(self, side: Side, command: Command) -> None:
        """All is allowed again."""
        side.broker.parts.authorizer = AllowAll()

    @on_each
    async def do_controller_stops(self, side: Side, command: Command) -> None:
        """The broker is no longer the controller."""
        side.broker.parts.controller.close()

    @on_each
    async def do_hold(self, side: Side, command: Command) -> None:
        """hold [NAME]: jobs beside the loop (by the function's name) do not begin."""
        side.broker.jobs.hold(*command.words)

    @on_each
    async def do_release(self, side: Side, command: Command) -> None:
        """They begin."""
        side.broker.jobs.release()

    @on_each
    async def do_fault(self, side: Side, command: Command) -> None:
        """fault OPERATION PATH [skip=N]: a disk operation fails, once."""
        operation, path = command.words
        side.broker.fs.faults.append(Fault(operation, path, skip=command.number("skip")))

    @on_each
    async def do_capacity(self, side: Side, command: Command) -> None:
        """capacity full|free: there is no room on the disk, or enough again."""
        side.broker.fs.capacity_bytes = {"full": 0, "free": None}[command.words[0]]

    @on_each
    async def do_cold(self, side: Side, command: Command) -> None:
        """Nothing is in the page cache."""
        side.broker.fs.cached = False

    @on_each
    async def do_close(self, side: Side, command: Command) -> None:
        """close NAME: the client hangs up."""
        side.clients[command.words[0]].close()

    @on_each
    async def do_purgatory(self, side: Side, command: Command) -> Lines:
        """Writes how many partitions are waited for in the purgatory."""
        return [str(len(side.broker.parts.purgatory))]

    @on_each
    async def do_features(self, side: Side, command: Command) -> Lines:
        """Writes the finalized levels of features as clients learn them, and whether their epoch is
        newer than the last time."""
        answer = await side.send("ApiVersions", 4, "", self._defaults)
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        found = [f"{name} {level}" for name, level in sorted(levels.items())]
        before, side.epoch = side.epoch, answer.finalized_features_epoch
        assert side.epoch >= before
        return [", ".join([*found, "newer epoch" if side.epoch > before else "same epoch"])]

    # -- topics and records -----------------------------------------------------------------

    @on_each
    async def do_topic(self, side: Side, command: Command) -> None:
        """topic NAME[:PARTITIONS] ... [KEY=VALUE ...]: create topics with these configs; their ids
        are `#NAME`."""
        configs = {key: command.get(key) for key in command.options}
        for word in command.words:
            name, _, partitions = word.partition(":")
            topic_id = await side.broker.create(name, int(partitions or 1), configs)
            side.names.topic(name, topic_id)

    @on_each
    async def do_topics(self, side: Side, command: Command) -> Lines:
        """Writes all topics and how many partitions each has."""
        answer = await side.broker.ask("Metadata", 9, topics=None)
        found = [f"{topic.name} {len(topic.partitions)}" for topic in answer.topics]
        return [", ".join(found) or "no topics"]

    @on_each
    async def do_directories(self, side: Side, command: Command) -> Lines:
        """Writes those in the data directory."""
        fs = side.broker.fs
        found = [name for name in fs.list_dir(DATA) if fs.is_dir(f"{DATA}/{name}")]
        return [re.sub(r"[.][0-9a-f]{32}-", ".*-", ", ".join(sorted(found))) or "none"]

    @on_each
    async def do_log(self, side: Side, command: Command) -> Lines:
        """log TOPIC-PARTITION NAME ...: writes settings of the log, its `end` or `start` offset."""
        log = side.broker.replica(*_place(command.words[0])).log
        offsets = {"end": log.end_offset, "start": log.start_offset}
        found = {
            name: offsets.get(name, getattr(log.settings, name, None)) for name in command.words[1:]
        }
        return [", ".join(f"{name}: {value}" for name, value in found.items())]

    @on_each
    async def do_isr(self, side: Side, command: Command) -> None:
        """isr TOPIC-PARTITION 1,2: broker 2, which never fetches, is a replica, and these are in
        sync. Of the topics of coordinators the partition may be the coordinator's: TOPIC-NAME."""
        place, isr = command.words
        side.broker.share(tuple(map(int, isr.split(","))), *_place_of(side, place))

    @on_each
    async def do_alone(self, side: Side, command: Command) -> None:
        """alone TOPIC-PARTITION: the replica on broker 2 is removed; TOPIC-NAME as for `isr`."""
        side.broker.unshare(*_place_of(side, command.words[0]))

    @on_each
    async def do_follow(self, side: Side, command: Command) -> None:
        """follow TOPIC-PARTITION: broker 2 leads the partition, as if LeaderAndIsr had said so."""
        replica = side.broker.replica(*_place(command.words[0]))
        now = replica.partition
        version = now.partition_epoch + 1
        now.follow(LeaderAndIsrState(1, 2, now.leader_epoch + 1, (2,), version, (1, 2)))
        replica.role_changed()

    @on_each
    async def do_produce(self, side: Side, command: Command) -> Lines:
        """produce TOPIC-PARTITION [values=a,b] [times=0,5] [codec=gzip] [transactional=yes]
        [acks=-1] [producer=id,epoch,sequence]: a batch of three records, or of these; times in ms.
        Several sequences are several batches. Writes the offset or the error of each."""
        times = command.list("times")
        values = command.list("values", ",".join(["value"] * (len(times) or 3)))
        records = [
            Written(value=value.encode(), time_ms=int(time))
            for value, time in zip(values, times or ["0"] * len(values), strict=True)
        ]
        producer_id, epoch, *sequences = map(int, command.list("producer", "-1,-1,-1"))
        codec, acks = command.text("codec", "none"), command.number("acks", -1)
        assert codec in CODECS
        is_transactional = "transactional" in command
        found = []
        for sequence in sequences:
            producer = (producer_id, epoch, sequence)
            batch = build(records, codec=codec, producer=producer, transactional=is_transactional)
            answer = await side.broker.produce(batch, *_place(command.words[0]), acks=acks)
            code = ErrorCode(answer.error_code)
            found.append(code.name if code else f"offset {answer.base_offset}")
        return [", ".join(found)]

    @on_each
    async def do_fetch(self, side: Side, command: Command) -> Lines:
        """fetch TOPIC-PARTITION [offset=N]: one partition, without waiting. Writes its response."""
        answer = await side.broker.fetch(command.number("offset"), *_place(command.words[0]))
        struct = schemas.schema("FetchResponse")
        for name in ("responses", "partitions"):
            (struct,) = [field.array_of for field in struct._fields if field.name == name]
        return message_text.write(struct, answer, side.names)

    @on_each
    async def do_read(self, side: Side, command: Command) -> Lines:
        """read TOPIC-PARTITION: writes offsets and values of all records that consumers see."""
        found = await side.broker.read_all(*_place(command.words[0]))
        return [", ".join(f"{record.offset} {(record.value or b'').decode()}" for record in found)]

    # -- coordinators -----------------------------------------------------------------------

    @on_each
    async def do_coordinator(self, side: Side, command: Command) -> None:
        """coordinator group|transaction ...: have the topic of these coordinators created."""
        for word in command.words:
            kind = ["group", "transaction"].index(word)
            answer = await side.broker.ask("FindCoordinator", 1, key="g", key_type=kind)
            assert answer.error_code == 0

    @on_each
    async def do_transaction(self, side: Side, command: Command) -> None:
        """transaction ID [TOPIC-PARTITION ...]: a producer of this transactional id, and a
        transaction with these partitions."""
        name, *places = command.words
        await transaction_requests.find(side.broker, name)
        producer = await transaction_requests.begun(side.broker, name)
        for topic, partition in map(_place, places):
            added = {topic: [partition]}
            codes = await transaction_requests.add(side.broker, producer, added, name)
            assert set(codes.values()) == {0}

    @on_each
    async def do_member(self, side: Side, command: Command) -> None:
        """The classic group "g" with one member, `member-1`, in generation 1, with its assignment
        "all"; or, with `member joined`, before its SyncGroup."""
        join = group_requests.join if command.words else group_requests.stable
        joined = await join(side.broker)
        side.names.of_member(joined.member_id)

    @on_each
    async def do_consumer(self, side: Side, command: Command) -> None:
        """consumer GROUP MEMBER TOPIC ...: a member joins a group of the consumer protocol."""
        group_id, member_id, *topics = command.words
        text = f"group_id: {group_id}, member_id: {member_id}, rebalance_timeout_ms: 60000, "
        text += f"subscribed_topic_names: [{', '.join(topics)}], topic_partitions: []"
        await side.send("ConsumerGroupHeartbeat", 1, text, {})

    @on_each
    async def do_commit(self, side: Side, command: Command) -> None:
        """commit GROUP TOPIC-PARTITION=OFFSET ...: committed offsets of one who is in no group."""
        (group_id,) = command.words
        offsets = {_place(key): command.number(key) for key in command.options}
        codes = await offset_requests.commit(side.broker, offsets, group_id=group_id)
        assert set(codes.values()) == {0}
