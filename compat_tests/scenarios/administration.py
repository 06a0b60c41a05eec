"""Admin clients: topics, configs and groups."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.records import Partition, Record
from kavka.compat_tests.scenario import (
    Scenario,
    Trial,
    becomes,
    equal,
    read,
    refused,
    stored,
)

UNKNOWN_TOPIC: Final = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PART")
"""The error's name, and librdkafka's for it."""

NO_OFFSET: Final = -1
"""What some libraries say of a partition for which nothing was committed."""


async def run_topics(trial: Trial) -> None:
    admin, topic = await trial.driver(), trial.name()
    with trial.step("create a topic", "CreateTopics"):
        await admin.ask("create_topic", topic=topic, partitions=3, replicas=1)
    with trial.step("see it in the list", "Metadata"):

        async def is_listed() -> bool:
            return topic in (await admin.ask("list_topics"))["topics"]

        await becomes(is_listed, True, "whether it is listed")
    with trial.step("have it refused a second time", "CreateTopics"):
        request = admin.ask("create_topic", topic=topic, partitions=3, replicas=1)
        await refused(request, "TOPIC_ALREADY_EXISTS")
    with trial.step("have a bad name refused", "CreateTopics"):
        request = admin.ask("create_topic", topic="not/a/topic", partitions=1, replicas=1)
        await refused(request, "INVALID_TOPIC_EXCEPTION", "TOPIC_EXCEPTION", "INVALID_TOPIC")
    with trial.step("have more replicas than brokers refused", "CreateTopics"):
        request = admin.ask("create_topic", topic=trial.name(), partitions=1, replicas=99)
        await refused(request, "INVALID_REPLICATION_FACTOR")
    with trial.step("delete it", "DeleteTopics"):
        await admin.ask("delete_topic", topic=topic)
        await becomes(is_listed, False, "whether it is listed")
    with trial.step("have it refused to be deleted again", "DeleteTopics"):
        request = admin.ask("delete_topic", topic=topic)
        await refused(request, *UNKNOWN_TOPIC)


async def run_describe(trial: Trial) -> None:
    topic, admin = await trial.topic(3), await trial.driver()
    with trial.step("describe a topic", "Metadata", "DescribeTopicPartitions"):
        found = (await admin.ask("describe_topic", topic=topic))["partitions"]
        equal([partition["partition"] for partition in found], [0, 1, 2], "partitions")
        for partition in found:
            equal(partition["leader"] in partition["isr"], True, "whether the leader is in the ISR")
            equal(
                set(partition["isr"]) <= set(partition["replicas"]),
                True,
                "whether the ISR has replicas",
            )
    with trial.step("have one refused that is not there", "Metadata", "DescribeTopicPartitions"):
        request = admin.ask("describe_topic", topic=trial.name())
        # @platformatic/kafka's own; and of a broker that creates it, as some clients ask for
        others = ("PLT_KFK_USER", "LEADER_NOT_AVAILABLE")
        await refused(request, *UNKNOWN_TOPIC, *others)


async def run_cluster(trial: Trial) -> None:
    admin = await trial.driver()
    with trial.step("describe the cluster", "Metadata", "DescribeCluster"):
        found = await admin.ask("describe_cluster")
        brokers = sorted(broker.node_id for broker in trial.broker.admin.brokers)
        equal(sorted(found["brokers"]), brokers, "brokers")
        equal(found["cluster_id"], trial.broker.admin.cluster_id, "cluster id")


async def run_more_partitions(trial: Trial) -> None:
    topic, admin = await trial.topic(2), await trial.driver()
    with trial.step("add partitions", "CreatePartitions"):
        await admin.ask("create_partitions", topic=topic, total=5)
    with trial.step("write to a new one", "Metadata", "Produce"):
        producer = await trial.producer()

        async def partitions() -> list[int]:
            return sorted((await producer.ask("partitions", topic=topic))["partitions"])

        await becomes(partitions, [*range(5)], "partitions")
        await trial.broker.await_leader(topic, 4)  # some clients do not retry
        (placed,) = await stored(producer, topic, [Record(b"value", partition=4)])
        equal(placed[:2], (4, 0), "partition and offset")
    with trial.step("have fewer partitions refused", "CreatePartitions"):
        request = admin.ask("create_partitions", topic=topic, total=3)
        await refused(request, "INVALID_PARTITIONS")


async def run_configs(trial: Trial) -> None:
    topic = await trial.topic(retention_ms="1234567")
    admin = await trial.driver()

    async def config(name: str) -> str | None:
        found = (await admin.ask("describe_configs", topic=topic))["configs"]
        value: str | None = found.get(name)
        return value

    with trial.step("describe a topic's configs", "DescribeConfigs"):
        equal(await config("retention.ms"), "1234567", "retention.ms")
        equal(await config("cleanup.policy"), "delete", "cleanup.policy")
    with trial.step("change one, and leave the other", "IncrementalAlterConfigs", "AlterConfigs"):
        await admin.ask("alter_configs", topic=topic, set={"cleanup.policy": "compact"})
        await becomes(lambda: config("cleanup.policy"), "compact", "cleanup.policy")
        equal(await config("retention.ms"), "1234567", "retention.ms")
    with trial.step("remove one", "IncrementalAlterConfigs", "AlterConfigs"):
        await admin.ask("alter_configs", topic=topic, remove=["cleanup.policy"])
        await becomes(lambda: config("cleanup.policy"), "delete", "cleanup.policy")
    with trial.step("have a bad value refused", "IncrementalAlterConfigs", "AlterConfigs"):
        request = admin.ask("alter_configs", topic=topic, set={"retention.ms": "soon"})
        await refused(request, "INVALID_CONFIG")


async def run_groups(trial: Trial) -> None:
    topic, group = await trial.topic(2), trial.name("group")
    partitions = [Partition(topic, 0), Partition(topic, 1)]
    await stored(await trial.producer(), topic, [Record(b"value", partition=n) for n in (0, 1)])
    member, admin = await trial.member(group, [topic]), await trial.driver()
    await read(member, 2)
    await member.commit(dict.fromkeys(partitions, 1))
    with trial.step("list groups", "ListGroups"):
        equal(group in (await admin.ask("list_groups"))["groups"], True, "whether it is listed")
    with trial.step("describe a group with a member", "DescribeGroups", "ConsumerGroupDescribe"):
        found = await admin.ask("describe_group", group=group)
        equal(found["state"], "Stable", "state")
        equal(len(found["members"]), 1, "number of members")
        (described,) = found["members"]
        has = sorted((at["topic"], at["partition"]) for at in described["partitions"])
        equal(has, [tuple(at) for at in partitions], "the member's partitions")
    with trial.step("have it refused to be deleted while it has a member", "DeleteGroups"):
        await refused(admin.ask("delete_group", group=group), "NON_EMPTY_GROUP")
    with trial.step("delete it when it is empty", "LeaveGroup", "DeleteGroups"):
        await member.ask("close_consumer")

        async def state() -> object:
            return (await admin.ask("describe_group", group=group))["state"]

        await becomes(state, "Empty", "state")
        await admin.ask("delete_group", group=group)
        equal(group in (await admin.ask("list_groups"))["groups"], False, "whether it is listed")
    with trial.step("have a group refused that is not there", "DeleteGroups"):
        request = admin.ask("delete_group", group=trial.name("group"))
        await refused(request, "GROUP_ID_NOT_FOUND")


async def run_group_offsets(trial: Trial) -> None:
    topic, group = await trial.topic(2), trial.name("group")
    member, admin = await trial.member(group, [topic]), await trial.driver()
    await becomes(member.assignment, {Partition(topic, index) for index in (0, 1)}, "assignment")
    await member.commit({Partition(topic, 1): 0})
    with trial.step("see a group's offsets", "OffsetFetch"):
        found = (await admin.ask("group_offsets", group=group))["offsets"]
        known = [
            (committed["topic"], committed["partition"], committed["offset"])
            for committed in found
            if committed["offset"] not in (None, NO_OFFSET)
        ]
        equal(known, [(topic, 1, 0)], "offsets")


ALL: Final = (
    Scenario(
        "topic-admin",
        "Creating, listing and deleting topics",
        run_topics,
        frozenset({"create_topic", "delete_topic", "list_topics"}),
        quick=True,
    ),
    Scenario("describe-topic", "Describing a topic", run_describe, frozenset({"describe_topic"})),
    Scenario(
        "describe-cluster", "Describing the cluster", run_cluster, frozenset({"describe_cluster"})
    ),
    Scenario(
        "create-partitions",
        "Adding partitions to a topic",
        run_more_partitions,
        frozenset({"create_partitions", "produce"}),
    ),
    Scenario(
        "config-admin",
        "A topic's configs",
        run_configs,
        frozenset({"describe_configs", "alter_configs"}),
    ),
    Scenario(
        "group-admin",
        "Listing, describing and deleting groups",
        run_groups,
        frozenset({"consume", "group", "list_groups", "describe_group", "delete_group"}),
    ),
    Scenario(
        "group-offsets",
        "A group's offsets",
        run_group_offsets,
        frozenset({"consume", "group", "group_offsets"}),
    ),
)
