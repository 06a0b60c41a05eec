"""Administrators: each has a topic of its own, which it creates, writes, grows, configures, deletes
records of and deletes, again and again, and knows what must be in it.

An answer that is lost leaves two possibilities, and the request is sent again until it is answered
for good, as the stock AdminClient does (clients 3.9, `KafkaAdminClient.Call`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from kavka.compat_tests.raw.codec.wire_client import new_topic
from kavka.server.cluster.logger_levels import LEVELS
from kavka.wire.errors import ErrorCode as Code
from sim.actors import Actor
from sim.client import BACKOFF_S, Client, Lost
from sim.history import History, Reading
from sim.producers import RETRIABLE
from sim.readers import Reader, earliest
from support.logs import batch
from support.memory_broker import producing

BROKER_ID: Final = "1"
TIMEOUT_MS: Final = 10_000
TRIES_MAX: Final = 300
"""So often, BACKOFF_S apart, a request may be answered by the same error before that is judged; not
counted while the disk is stuck or ZooKeeper out of reach, as a topic that is being created stays
unknown until then."""

CONFIGS: Final[Mapping[str, tuple[str, ...]]] = {
    "segment.ms": ("100", "604800000"),
    "segment.bytes": ("1048576", "1073741824"),
    "compression.type": ("producer", "gzip", "zstd"),
    "max.message.bytes": ("500000", "1048588"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "retention.bytes": ("-1", "2000"),
    "retention.ms": ("-1", "1000"),
}
UNFINISHED: Final = {Code.REQUEST_TIMED_OUT, Code.NOT_CONTROLLER}
"""What waits is answered so at a stop; it may go on nevertheless."""

AGAIN: Final = RETRIABLE | UNFINISHED | {Code.PREFERRED_LEADER_NOT_AVAILABLE}

RETENTION: Final = ("retention.bytes", "retention.ms")


AGAIN_IN_CLUSTERS: Final = AGAIN | {
    Code.INVALID_REPLICATION_FACTOR,
    Code.REASSIGNMENT_IN_PROGRESS,
    Code.OFFSET_OUT_OF_RANGE,
}
"""There may be too few brokers for the moment, and a new leader may not know yet what is below the
high watermark."""

LAGS_TRIES_MAX: Final = 300
"""So often, BACKOFF_S apart, any brokers are asked for a config until one knows of its change; not
counted before all is healed, as each that is asked may be cut off from ZooKeeper."""


class Lives(Protocol):
    """What an administrator has to know of the brokers, not to ask too much of them."""

    @property
    def lives(self) -> int:
        """How often they were started."""
        ...

    @property
    def failures(self) -> int:
        """How often one could not go on."""
        ...

    @property
    def held_up_until_s(self) -> float:
        """Until then requests may wait without end."""
        ...


class Administrator(Actor):
    """One topic, for so many steps."""

    def __init__(
        self,
        client: Client,
        history: History,
        chance: random.Random,
        machine: Lives,
        *,
        steps: int,
        pause_s: float,
        replicas: int = 1,
        in_cluster: bool = False,
    ) -> None:
        """`machine`: the broker's, or what stands for those of all brokers `in_cluster`."""
        super().__init__(client, history, chance)
        self._machine = machine
        self._replicas = replicas
        self._in_cluster = in_cluster
        self._steps = steps
        self._pause_s = pause_s
        self._loggers = random.Random(f"loggers {self.name} {pause_s}")
        self._topic = f"of-{self.name}"
        self._life = 0
        """Counts the topics of this name."""
        self._number = 0
        self._configs: dict[str, str] = {}
        self._may_expire = False
        """Whether retention may have deleted records of this topic."""
        self._may_remain = False
        """Whether the topic before it may still be there: the response to its deletion was lost,
        and to the retry it was unknown, as it is to a broker that has not seen its creation."""
        self._partitions: list[_Partition] = []

    async def run(self) -> None:
        """All steps, each on the topic as the one before has left it."""
        kinds = (
            *(self._write, self._write, self._write, self._read),
            *(self._delete_records, self._grow, self._alter, self._describe, self._elect),
        )
        for _ in range(self._steps):
            if not self._partitions:
                await self._create()
            elif self.chance.random() < 0.1:
                await self._delete()
            else:
                await self.chance.choice(kinds)()
            if self._loggers.random() < 0.1 and not self._in_cluster:
                await self._set_logger()
            await asyncio.sleep(self._pause_s * 2 * self.chance.random())
        if self._partitions:
            await self._read()
            await self._describe()
        self.is_done = True

    # -- the topic ------------------------------------------------------------------------

    async def _create(self) -> None:
        count = 1 + self.chance.randrange(3)
        self._configs = self._some_configs()
        while True:
            answer = await self._until_done(
                "CreateTopics",
                7,
                lambda answer: answer.topics[0].error_code,
                also=Code.TOPIC_ALREADY_EXISTS,
                may_be_done=self._may_remain,
                topics=[new_topic(self._topic, count, self._replicas, configs=self._configs)],
                timeout_ms=TIMEOUT_MS,
            )
            if answer.topics[0].error_code == Code.NONE or not self._may_remain:
                break
            await self._delete()  # which of the two it is can't be known
            await asyncio.sleep(BACKOFF_S)
        self._may_remain = False
        self._life += 1
        self._may_expire = False
        self._partitions = [_Partition() for _ in range(count)]
        self._configured()

    async def _delete(self) -> None:
        if self.chance.random() < 0.5:
            await self._begin_to_grow()
        answer = await self._until_done(
            "DeleteTopics",
            5,
            lambda answer: answer.responses[0].error_code,
            also=Code.UNKNOWN_TOPIC_OR_PARTITION,
            may_be_done=self._may_remain,
            topic_names=[self._topic],
            timeout_ms=TIMEOUT_MS,
        )
        self._may_remain = answer.responses[0].error_code != Code.NONE
        self._partitions = []

    async def _begin_to_grow(self) -> None:
        """Without waiting for it: its deletion then meets the writes for the new partition."""
        await self.client.ask_until_answered("CreatePartitions", 3, **self._growth(timeout_ms=1))

    async def _grow(self) -> None:
        await self._until_done(
            "CreatePartitions",
            3,
            lambda answer: answer.results[0].error_code,
            also=Code.INVALID_PARTITIONS,
            **self._growth(timeout_ms=TIMEOUT_MS),
        )
        self._partitions.append(_Partition())

    def _growth(self, *, timeout_ms: int) -> dict[str, Any]:
        count = len(self._partitions) + 1
        return {
            "topics": [{"name": self._topic, "count": count, "assignments": None}],
            "timeout_ms": timeout_ms,
            "validate_only": False,
        }

    async def _elect(self) -> None:
        index = self.chance.randrange(len(self._partitions))

        def code_of(answer: Any) -> int:
            if answer.error_code:
                return int(answer.error_code)
            (result,) = answer.replica_election_results[0].partition_result
            return int(result.error_code)

        await self._until_done(
            "ElectLeaders",
            2,
            code_of,
            also=Code.ELECTION_NOT_NEEDED,
            may_be_done=True,
            election_type=0,
            topic_partitions=[{"topic": self._topic, "partitions": [index]}],
            timeout_ms=TIMEOUT_MS,
        )

    # -- configs --------------------------------------------------------------------------

    async def _alter(self) -> None:
        configs = self._some_configs()
        resource = {
            "resource_type": 2,
            "resource_name": self._topic,
            "configs": [
                {"name": name, "config_operation": 0, "value": value}
                for name, value in configs.items()
            ],
        }
        self._configs |= configs
        self._configured()  # perhaps before the answer
        await self._until_done(
            "IncrementalAlterConfigs",
            1,
            lambda answer: answer.responses[0].error_code,
            resources=[resource],
            validate_only=False,
        )

    async def _describe(self) -> None:
        """They are as they were set; in a cluster as soon as the broker that is asked has heard."""
        found = await self._described()
        tries = LAGS_TRIES_MAX if self._in_cluster else 0
        while tries and any(found.get(name) != value for name, value in self._configs.items()):
            await asyncio.sleep(BACKOFF_S)
            found = await self._described()
            tries -= self.history.now_s() >= self._machine.held_up_until_s
        for name, value in self._configs.items():
            if found.get(name) != value:
                self._violation(f"its config {name} is {found.get(name)}, not {value}")

    async def _described(self) -> dict[str, str | None]:
        resource = {"resource_type": 2, "resource_name": self._topic, "configuration_keys": None}
        answer = await self._until_done(
            "DescribeConfigs", 4, lambda answer: answer.results[0].error_code, resources=[resource]
        )
        return {config.name: config.value for config in answer.results[0].configs or ()}

    async def _set_logger(self) -> None:
        """A level stays until it is altered again, or the broker starts again."""
        name, level = f"kavka.{self.name}", self._loggers.choice(list(LEVELS))
        life = self._machine.lives
        broker = {"resource_type": 8, "resource_name": BROKER_ID}
        configs = [{"name": name, "config_operation": 0, "value": level}]
        await self._until_done(
            "IncrementalAlterConfigs",
            1,
            lambda answer: answer.responses[0].error_code,
            resources=[{**broker, "configs": configs}],
            validate_only=False,
        )
        answer = await self._until_done(
            "DescribeConfigs",
            4,
            lambda answer: answer.results[0].error_code,
            resources=[{**broker, "configuration_keys": [name]}],
        )
        found = [config.value for config in answer.results[0].configs or ()]
        if self._machine.lives == life and found != [level]:
            self._violation(f"the level of {name} is {found}, not {level}")

    def _some_configs(self) -> dict[str, str]:
        chance = self.chance
        return {
            name: chance.choice(values) for name, values in CONFIGS.items() if chance.random() < 0.3
        }

    def _configured(self) -> None:
        if any(self._configs.get(name, "-1") != "-1" for name in RETENTION):
            self._may_expire = True

    # -- records --------------------------------------------------------------------------

    async def _write(self) -> None:
        """A batch, once: without an answer it may be there or not."""
        index = self.chance.randrange(len(self._partitions))
        partition, values = self._partitions[index], self._new_values()
        for value in values:
            partition.sent[value] = None
        data = bytes(batch(values, timestamps=self.client.process.now_ms()))
        try:
            answer = await self.client.ask("Produce", 9, **producing({(self._topic, index): data}))
        except Lost:
            self.client.hang_up()
            return
        (response,) = answer.responses[0].partition_responses
        code = Code(response.error_code)
        if code is Code.NONE:
            end = max(partition.end, partition.start)
            if response.base_offset < end and not self.history.may_lose:
                self._violation(f"partition {index}: appended at {response.base_offset} < {end}")
            for delta, value in enumerate(values):
                partition.acknowledged[response.base_offset + delta] = value
            partition.end = response.base_offset + len(values)
        elif code not in RETRIABLE:
            self._violation(f"Produce answered {code.name}")

    def _new_values(self) -> list[bytes]:
        values = []
        for _ in range(1 + self.chance.randrange(4)):
            filler = b"." * self.chance.choice((0, 10, 1000))
            values.append(f"{self.name}:{self._life}.{self._number}:".encode() + filler)
            self._number += 1
        return values

    async def _delete_records(self) -> None:
        index = self.chance.randrange(len(self._partitions))
        partition = self._partitions[index]
        offset = self.chance.choice((-1, self.chance.randrange(partition.end + 1)))
        places = [{"partition_index": index, "offset": offset}]
        partition.deletable = max(partition.deletable, partition.end if offset < 0 else offset)
        partition.all_deletable = partition.all_deletable or offset < 0

        def code_of(answer: Any) -> int:
            code: int = answer.topics[0].partitions[0].error_code
            is_gone = self._may_expire or self.history.may_lose
            return Code.NONE if code == Code.OFFSET_OUT_OF_RANGE and is_gone else code

        partition.life = self._machine.lives
        answer = await self._until_done(
            "DeleteRecords",
            2,
            code_of,
            topics=[{"name": self._topic, "partitions": places}],
            timeout_ms=TIMEOUT_MS,
        )
        partition.start = answer.topics[0].partitions[0].low_watermark

    async def _read(self) -> None:
        """All that is there, from the first offset to the last."""
        for index, partition in enumerate(self._partitions):
            place = (self._topic, index)
            start = await earliest(self.client, place)
            # another topic of this name has other records
            own = History(self.history.now_s, part_of=self.history)
            if self._may_expire:
                own.loses()
            reader = Reader(self.client, own, place, compacted=self._may_expire, start=start)
            await reader.run(until_end=True, at_least=partial(self._known_end, partition))
            self.history.violations += own.violations
            self._check(index, partition, reader.reading, start)

    def _known_end(self, partition: _Partition) -> int:
        return 0 if self.history.may_lose else partition.end

    def _check(self, index: int, partition: _Partition, reading: Reading, start: int) -> None:
        found = {offset: value for offset, value, _ in reading.records}
        begins = min(found, default=reading.position) if self._may_expire else start
        where = f"partition {index}, from {start}"
        for offset, value in found.items():
            if value not in partition.sent:
                self._violation(f"I2 foreign: {where}: {value!r} at {offset}")
        if self.history.may_lose:
            return
        for offset, value in partition.acknowledged.items():
            if offset >= begins and found.get(offset) != value:
                self._violation(f"I1 lost: {where}: {value!r} at {offset}, {found.get(offset)!r}")
        if start > partition.deletable and not (self._may_expire or partition.all_deletable):
            self._violation(f"I1 lost: {where}: only {partition.deletable} may be deleted")
        # another life may begin without it: log.flush.start.offset.checkpoint.interval.ms
        same_life = partition.life == self._machine.lives and not self._in_cluster
        if start < partition.start and same_life:
            self._violation(f"{where}: all before {partition.start} was deleted")

    # -- asking ---------------------------------------------------------------------------

    async def _until_done(
        self,
        name: str,
        version: int,
        code_of: Callable[[Any], int],
        *,
        also: Code | None = None,
        may_be_done: bool = False,
        **values: Any,
    ) -> Any:
        """Ask until it is done, and return the last response. `also` is the error by which one
        learns that it was done before; another error that stays is a violation."""
        answer: Any = None
        code = Code.NONE
        again = AGAIN_IN_CLUSTERS if self._in_cluster else AGAIN
        tries = 0
        while tries < TRIES_MAX:
            failures = self._machine.failures
            answer, was_lost = await self.client.ask_until_answered(name, version, **values)
            code = Code(code_of(answer))
            has_failed = code is Code.UNKNOWN_SERVER_ERROR and self._machine.failures > failures
            may_be_done |= was_lost or has_failed or code in UNFINISHED
            if code is Code.NONE or (code is also and may_be_done):
                return answer
            if not (code in again or code is also or has_failed):
                break
            await asyncio.sleep(BACKOFF_S)
            tries += self.history.now_s() >= self._machine.held_up_until_s
        self._violation(f"{name} answered {code.name}")
        return answer

    def _violation(self, complaint: str) -> None:
        self.history.violation(f"{self._topic}: {complaint}")


class _Partition:
    """What its administrator knows of a partition."""

    def __init__(self) -> None:
        self.sent: dict[bytes, None] = {}
        """All that may be in it."""
        self.acknowledged: dict[int, bytes] = {}
        """By offset."""
        self.end = 0
        """The offset behind the last acknowledged record."""
        self.start = 0
        """Everything before it was deleted, as was acknowledged."""
        self.life = 0
        """In which life of the broker that was, or in an earlier one."""
        self.deletable = 0
        """Nothing behind it was ever asked to be deleted, but for `all_deletable`."""
        self.all_deletable = False
