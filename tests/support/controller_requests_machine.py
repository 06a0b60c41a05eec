"""A broker that is the controller, for scenario files.

Clients' requests and changes in the tree go in; responses, and requests to the broker, come out.

The broker has id 0. A result reads `t: NONE`, with the code and the message; an unfinished request
waits until `advance` or `release`.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from kavka.server.cluster.control_messages import NO_TOPIC_ID
from kavka.server.controller.partition_validation import NewPartitions
from kavka.server.controller.reassignment_requests import Reassignment
from kavka.server.controller.topic_validation import NewTopic, TopicResult
from kavka.wire.errors import ApiError, ErrorCode
from kavka.zktree import paths
from kavka.zktree.api import Create, Delete, Op, SetData
from support.async_scenarios import TURNS, AsyncMachine
from support.controlled_broker import ControlledCluster
from support.controller_text import ids, partition, sent
from support.embedded_coordination import all_nodes
from support.scenarios import Command
from support.virtual import run_until_idle


class ControllerRequestsMachine(AsyncMachine):
    """`Controller` of one broker, on a tree on a disk in memory."""

    async def start(self) -> None:
        self._cluster = ControlledCluster(heeds_legacy_nodes=True)
        self._topic_ids: dict[str, object] = {}
        await self._start()
        self._nodes = set(await all_nodes(self._cluster.session))
        self.out.clear()

    async def finish(self) -> None:
        self._cluster.broker.gate.set()
        await run_until_idle(TURNS)
        assert self._cluster.tasks.pending_timers == 0

    async def _start(self) -> None:
        await self._cluster.start()
        broker = self._cluster.broker
        self.out.extend(sent((0, request) for request in broker.requests))
        broker.on_request = lambda request: self.out.extend(sent([(0, request)]))

    def failure(self, failure: Exception) -> str:
        assert isinstance(failure, ApiError)
        return failure.code.name

    # Clients' requests

    async def do_topics(self, command: Command) -> None:
        """Topics that there are before the scenario begins, such as t:2 with two partitions."""
        for word in command.words:
            name, _, count = word.partition(":")
            topic = NewTopic(name, int(count or 1), 1)
            await self._cluster.controller.create_topics(
                [topic], timeout_ms=1000, validate_only=False
            )
        self.out.clear()

    async def do_create(self, command: Command) -> None:
        """Topics; `partitions`, and `configs` as name:value."""
        configs = dict(pair.split(":") for pair in command.list("configs"))
        topics = [
            NewTopic(name, command.number("partitions", 1), 1, configs=configs)
            for name in command.words
        ]
        validate_only = "validate" in command
        answer = self._cluster.controller.create_topics(
            topics, timeout_ms=command.ms("timeout", 1000), validate_only=validate_only
        )

        def text(results: Mapping[str, TopicResult]) -> str:
            return "; ".join(
                f"{name}: {self._created(name, validate_only, result)}"
                for name, result in results.items()
            )

        await self.request(f"create {' '.join(command.words)}", answer, text)

    def _created(self, name: str, validate_only: bool, result: TopicResult) -> str:
        assert (result.topic_id == NO_TOPIC_ID) == (
            result.code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
        )
        if result.code is not ErrorCode.NONE:
            if result.code is ErrorCode.REQUEST_TIMED_OUT:
                self._topic_ids[name] = result.topic_id
                assert result.num_partitions == -1
            return f"{result.code.name} {result.message or ''}".strip()
        if not validate_only:
            self._topic_ids[name] = result.topic_id
        return f"NONE partitions {result.num_partitions} replicas {result.replication_factor}"

    async def do_delete(self, command: Command) -> None:
        answer = self._cluster.controller.delete_topics(command.words, command.ms("timeout", 1000))
        await self.request(f"delete {' '.join(command.words)}", answer, _codes)

    async def do_extend(self, command: Command) -> None:
        """CreatePartitions: t:3, perhaps with a replica for each new partition, t:3:0."""
        new_partitions = []
        for word in command.words:
            name, count, *replicas = word.split(":")
            assignments = [(int(replica),) for replica in replicas] or None
            new_partitions.append(NewPartitions(name, int(count), assignments))
        answer = self._cluster.controller.create_partitions(
            new_partitions,
            timeout_ms=command.ms("timeout", 1000),
            validate_only="validate" in command,
        )
        await self.request(f"extend {' '.join(command.words)}", answer, _codes)

    async def do_elect(self, command: Command) -> None:
        """ElectLeaders, of all partitions if none is named."""
        answer = self._cluster.controller.elect_leaders(
            [partition(word) for word in command.words] or None,
            unclean="unclean" in command,
            timeout_ms=1000,
        )
        name = f"elect {' '.join(command.words)}".strip()
        await self.request(name, answer, _codes)

    async def do_reassign(self, command: Command) -> None:
        """AlterPartitionReassignments: t-0:0,9 with the new replicas; t-0 cancels."""

        async def results() -> Mapping[str, ApiError | None]:
            pairs = [word.partition(":")[::2] for word in command.words]
            reassignments = [
                Reassignment(
                    partition(name), [*map(int, broker_ids.split(","))] if broker_ids else None
                )
                for name, broker_ids in pairs
            ]
            reassigned = self._cluster.controller.reassign(
                reassignments, timeout_ms=command.ms("timeout", 1000)
            )
            return dict(zip(command.words, await reassigned, strict=True))

        await self.request("reassign", results(), _codes)

    async def do_reassignments(self, command: Command) -> None:
        async def results() -> object:
            return await self._cluster.controller.reassignments(None)

        await self.request("reassignments", results())

    async def do_producer_ids(self, command: Command) -> None:
        await self.request("producer ids", self._cluster.controller.allocate_producer_ids())

    async def do_cancel(self, command: Command) -> None:
        self.cancel(" ".join(command.words))

    # The broker and its disk

    async def do_hold(self, command: Command) -> None:
        """The broker does not handle the controller's requests for now."""
        self._cluster.broker.gate.clear()

    async def do_release(self, command: Command) -> None:
        self._cluster.broker.gate.set()
        await self._cluster.idle()

    async def do_errors(self, command: Command) -> None:
        """Error codes that the broker responds with for partitions."""
        for word in command.words:
            where, _, code = word.partition(":")
            self._cluster.broker.errors[partition(where)] = ErrorCode[code]

    async def do_advance(self, command: Command) -> None:
        await self._cluster.tasks.advance(command.ms("by"))

    async def do_restart(self, command: Command) -> None:
        """After a clean stop, SIGKILL or a power cut; perhaps with another broker id."""
        if "kill" in command.words:
            self._cluster.fs.kill()
        elif "power" in command.words:
            self._cluster.fs.crash(Random(1))
        else:
            await self._cluster.stop()
        self._cluster.broker_id = command.number("id", self._cluster.broker_id)
        await self._start()

    async def do_close(self, command: Command) -> None:
        self._cluster.controller.close()

    # The tree

    async def do_take_over(self, command: Command) -> None:
        """Broker 9 becomes the controller; or only raises the epoch."""
        session = self._cluster.session
        data, stat = await session.get(paths.CONTROLLER_EPOCH)
        epoch = paths.encode_controller_epoch(paths.decode_controller_epoch(data) + 1)
        ops: list[Op] = [SetData(paths.CONTROLLER_EPOCH, epoch, stat.version)]
        if "epoch" not in command.words:
            other = paths.encode_controller(9, 0)
            ops = [Delete(paths.CONTROLLER), Create(paths.CONTROLLER, other), *ops]
        await session.multi(ops)
        await run_until_idle(TURNS)

    async def do_remove(self, command: Command) -> None:
        """Another process deletes nodes; of a topic all that it has."""
        for path in command.words:
            if path.startswith(paths.TOPICS):
                await self._cluster.remove_nodes(path.rpartition("/")[2])
            else:
                await self._cluster.session.delete(path)
        await self._cluster.idle()

    async def do_node(self, command: Command) -> None:
        """Another process creates a node, with data if there is any."""
        path, *data = command.words
        await self._cluster.session.create(path, data[0].encode() if data else None)

    async def do_put(self, command: Command) -> None:
        """Another process changes a node's data."""
        path, data = command.words
        await self._cluster.session.set(path, data.encode())

    async def do_data(self, command: Command) -> None:
        """Another process reads nodes."""
        for path in command.words:
            if await self._cluster.session.exists(path) is None:
                self.out.append("no node")
            else:
                self.out.append(((await self._cluster.session.get(path)).data or b"").decode())

    async def do_state(self, command: Command) -> None:
        """Another controller has written a partition's state, and perhaps its replicas."""
        tp, session = partition(command.words[0]), self._cluster.session
        path = paths.partition_state(*tp)
        state = paths.decode_partition_state((await session.get(path)).data)
        isr = tuple(map(int, command.list("isr")))
        state = state._replace(leader=command.number("leader"), isr=isr)
        await session.set(path, paths.encode_partition_state(state))
        topic: Any = paths.decode_topic((await session.get(paths.topic(tp.topic))).data)
        topic.replicas[tp.partition] = tuple(map(int, command.list("replicas")))
        await session.set(paths.topic(tp.topic), paths.encode_topic(topic))
        await self._cluster.idle()

    # What is there

    async def do_metadata(self, command: Command) -> None:
        """What clients of the broker see."""
        image = self._cluster.broker.metadata.image
        assert image.names_by_id == {topic.topic_id: name for name, topic in image.topics.items()}
        for name, topic in image.topics.items():
            assert self._topic_ids.get(name, topic.topic_id) == topic.topic_id
            stored = (await self._cluster.session.get(paths.topic(name))).data
            assert paths.decode_topic(stored).topic_id == topic.topic_id
            leaders = {partition.leader for partition in topic.partitions}
            self.out.append(f"{name}: {len(topic.partitions)} partitions, leader {ids(leaders)}")
        if not image.topics:
            self.out.append("no topics")

    async def do_nodes(self, command: Command) -> None:
        """The nodes that were not there when the scenario began; those without children."""
        found = await all_nodes(self._cluster.session)
        assert self._nodes <= set(found)
        new = [
            path
            for path, node in found.items()
            if path not in self._nodes and not node.stat.num_children
        ]
        self.out.extend(new or ["no new nodes"])

    async def do_config(self, command: Command) -> None:
        data = (await self._cluster.session.get(f"/config/topics/{command.words[0]}")).data
        self.out.append(f"config {paths.decode_config(data)}")

    async def do_controller(self, command: Command) -> None:
        controller = self._cluster.controller
        active = f", active in epoch {controller.epoch}" * controller.is_active
        self.out.append(f"controller {controller.controller_id}{active}")
        assert controller.is_active or controller.epoch == 0


def _codes(results: Mapping[Any, ApiError | ErrorCode | None]) -> str:
    codes = {key: getattr(result, "code", result) for key, result in results.items()}
    return "; ".join(f"{key}: {getattr(code, 'name', 'NONE')}" for key, code in codes.items())
