"""`kavka topics`: as Apache Kafka's kafka-topics, option by option."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from kavka.tools.admin import topic_reports
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Given, Option, is_whole
from kavka.tools.admin.printing import print_failure
from kavka.tools.admin.topic_descriptions import describe, parse_id
from kavka.tools.admin.topic_names import matching
from kavka.wire.api import Api
from kavka.wire.apis import create_partitions, create_topics, delete_topics, metadata
from kavka.wire.apis.create_topics import Assignment, CreateTopicsRequest, NewConfig, NewTopic
from kavka.wire.errors import ErrorCode
from kavka.wire.message import message

TIMEOUT_MS: Final = 60_000
FACTOR_MAX: Final = 32767
DEFAULT: Final = -1
ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
OVERRIDES: Final = "topics-with-overrides"
COLLISION: Final = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)
FAILURE: Final = "Error while executing topic command : "

OPTIONS: Final = (
    Option("list", "Print the names of all topics, or of those that --topic names."),
    Option("create", "Create a topic.", text_only=True),
    Option("delete", "Delete topics.", text_only=True),
    Option(
        "alter",
        "Give topics more partitions. Configs are changed by `kavka configs`.",
        text_only=True,
    ),
    Option("describe", "Print topics with their partitions, replicas and configs."),
    Option(
        "topic",
        "A topic's name; but for --create a regular expression, or several with commas.",
        "TOPIC",
    ),
    Option("topic-id", "The id of the topic to describe, in place of its name.", "ID"),
    Option("config", "A config of the new topic; may be given many times.", "NAME=VALUE"),
    Option("delete-config", "Has no effect any more (deprecated).", "NAME"),
    Option("partitions", "How many partitions the topic has from then on.", "N", is_number=True),
    Option("replication-factor", "How many replicas each partition has.", "N", is_number=True),
    Option(
        "replica-assignment",
        "The brokers of each partition; 1:2,2:3 are two partitions of two replicas each.",
        "ID:ID,..",
    ),
    Option(
        "under-replicated-partitions",
        "Describe partitions only that have fewer replicas in sync than replicas.",
    ),
    Option("unavailable-partitions", "Describe partitions only that have no live leader."),
    Option(
        "under-min-isr-partitions",
        "Describe partitions only with too few replicas in sync (min.insync.replicas).",
    ),
    Option(
        "at-min-isr-partitions",
        "Describe partitions only with min.insync.replicas replicas in sync and no more.",
    ),
    Option(OVERRIDES, "Describe topics only that have configs of their own, without partitions."),
    Option("if-exists", "It is no error if there is no such topic."),
    Option("if-not-exists", "It is no error if the topic exists."),
    Option("exclude-internal", "Leave internal topics out."),
    Option(
        "partition-size-limit-per-response",
        "How many partitions to ask for at a time.",
        "N",
        is_number=True,
    ),
)


@message
class DeleteTopicState:
    name: str | None
    topic_id: UUID | None = None


@message
class DeleteTopicsRequest:
    topics: Sequence[DeleteTopicState]
    topic_names: Sequence[str]
    timeout_ms: int = TIMEOUT_MS


@message
class MorePartitionsAssignment:
    broker_ids: Sequence[int]


@message
class MorePartitions:
    name: str
    count: int
    assignments: Sequence[MorePartitionsAssignment] | None


@message
class CreatePartitionsRequest:
    topics: Sequence[MorePartitions]
    timeout_ms: int = TIMEOUT_MS
    validate_only: bool = False


def check(given: Given) -> None:
    """Refuse what does not go together, with Apache Kafka's words."""
    actions = [action for action in ACTIONS if given.has(action)]
    if len(actions) != 1:
        raise Misused(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete"
        )
    (action,) = actions
    if not given.has("bootstrap-server"):
        raise Misused("--bootstrap-server must be specified")
    if action not in ("list", "describe"):
        given.needs("topic")
    if action == "describe" and given.has("if-exists"):
        if not given.has("topic") and not given.has("topic-id"):
            raise Misused("--topic or --topic-id is required to describe a topic")
    if action == "alter":
        if given.has("config"):
            raise Misused(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option '
                '"[alter]" (To alter topic configurations, the kafka-configs tool can be used.)'
            )
        given.needs("partitions")
    for name, allowed in (
        ("config", ("alter", "create")),
        ("partitions", ("alter", "create")),
        ("replication-factor", ("create",)),
        ("replica-assignment", ("alter", "create")),
        *((report, ("describe",)) for report in (*REPORTS, OVERRIDES)),
        ("if-exists", ("alter", "delete", "describe")),
        ("if-not-exists", ("create",)),
        ("exclude-internal", ("list", "describe")),
    ):
        given.excludes(name, [option for option in ACTIONS if option not in allowed])
    if action == "create":
        given.excludes("replica-assignment", ("partitions", "replication-factor"))
    for report in REPORTS:
        given.excludes(report, (OVERRIDES,))


async def run(cluster: ClusterClient, given: Given) -> int:
    """Do the one action. What the cluster refuses is printed, as Apache Kafka does, on standard
    output, unless a program reads that."""
    actions: Mapping[str, Callable[[ClusterClient, Given], Awaitable[None]]] = {
        "list": _list,
        "describe": _describe,
        "create": _create,
        "alter": _alter,
        "delete": _delete,
    }
    (action,) = (option for option in ACTIONS if given.has(option))
    try:
        await actions[action](cluster, given)
    except Refused as refused:
        print_failure(f"{FAILURE}{refused}", given.text("output"))
        return 1
    return 0


TOOL: Final = Tool("topics", "Create, delete, describe or change topics.", OPTIONS, check, run)


class Refused(Exception):
    """The cluster, or the state that it is in, does not allow it."""


async def _chosen(cluster: ClusterClient, given: Given) -> list[metadata.TopicResponse]:
    """The topics that --topic and --exclude-internal leave, by name."""
    pattern = given.text("topic")
    found = await cluster.topics(with_internal=not given.has("exclude-internal"))
    return found if pattern is None else matching(found, pattern)


def _existing(given: Given, found: Sequence[Any]) -> None:
    name = given.text("topic")
    if name and not found and not given.has("if-exists"):
        raise Refused(f"Topic '{name}' does not exist as expected")


async def _list(cluster: ClusterClient, given: Given) -> None:
    found = await _chosen(cluster, given)
    topic_reports.print_names([topic.name or "" for topic in found], given.text("output"))


async def _describe(cluster: ClusterClient, given: Given) -> None:
    if given.has("topic") and given.has("topic-id") and given.has("if-exists"):
        print(
            "Only topic id will be used when both --topic and --topic-id are specified and "
            "topicId is not Uuid.ZERO_UUID"
        )
    topic_id = parse_id(given.text("topic-id"))
    if topic_id is not None:
        found = [topic for topic in await cluster.topics() if topic.topic_id == topic_id]
        if not found and not given.has("if-exists"):
            raise Refused(f"TopicId '{given.text('topic-id')}' does not exist as expected")
    else:
        found = await _chosen(cluster, given)
        _existing(given, found)
    limit = given.number("partition-size-limit-per-response")
    topics = await describe(cluster, found, limit)
    chosen = topic_reports.Chosen(
        given.has(OVERRIDES), frozenset(report for report in REPORTS if given.has(report))
    )
    live = {broker.node_id for broker in cluster.brokers}
    topic_reports.print_topics(topics, chosen, live, given.text("output"))


async def _create(cluster: ClusterClient, given: Given) -> None:
    name = given.text("topic") or ""
    assignment = _assignment(given.text("replica-assignment"))
    configs = [_config(text) for text in given.texts("config")]
    code = ErrorCode.NONE
    try:
        results = await _created(cluster, given, name, configs, assignment)
        code = results[0].error_code
    finally:
        # Apache Kafka's tool knows the names of configs: it finds those first that are none
        if ("." in name or "_" in name) and code != ErrorCode.INVALID_CONFIG:
            print(COLLISION)
    if code == ErrorCode.TOPIC_ALREADY_EXISTS and given.has("if-not-exists"):
        return
    _check_results(results)
    print(f"Created topic {name}.")


async def _created(
    cluster: ClusterClient,
    given: Given,
    name: str,
    configs: Sequence[NewConfig],
    assignment: Sequence[Sequence[int]],
) -> Sequence[Any]:
    """What becomes of the topic. Refused, Failed."""
    factor, partitions = given.number("replication-factor"), given.number("partitions")
    if factor is not None and not 1 <= factor <= FACTOR_MAX:
        raise Refused(f"The replication factor must be between 1 and {FACTOR_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise Refused("The partitions must be greater than 0")
    topic = NewTopic(
        name,
        DEFAULT if partitions is None else partitions,
        DEFAULT if factor is None else factor,
        [Assignment(index, replicas) for index, replicas in enumerate(assignment)],
        configs,
    )
    request = CreateTopicsRequest([topic], TIMEOUT_MS)
    response = await _ask_controller(cluster, create_topics.API, request, lambda it: it.topics)
    results: Sequence[Any] = response.topics
    return results


async def _alter(cluster: ClusterClient, given: Given) -> None:
    found = await _chosen(cluster, given)
    _existing(given, found)
    count = given.number("partitions") or 0
    assignment = _assignment(given.text("replica-assignment"))
    if not found:
        return
    topics = [
        MorePartitions(
            topic.name or "",
            count,
            [MorePartitionsAssignment(replicas) for replicas in assignment[len(topic.partitions) :]]
            if assignment
            else None,
        )
        for topic in found
    ]
    request = CreatePartitionsRequest(topics)
    response = await _ask_controller(cluster, create_partitions.API, request, lambda it: it.results)
    _check_results(response.results)


async def _delete(cluster: ClusterClient, given: Given) -> None:
    found = await _chosen(cluster, given)
    _existing(given, found)
    names = [topic.name or "" for topic in found]
    request = DeleteTopicsRequest([DeleteTopicState(name) for name in names], names)
    response = await _ask_controller(cluster, delete_topics.API, request, lambda it: it.responses)
    _check_results(response.responses)


async def _ask_controller(
    cluster: ClusterClient, api: Api, request: Any, results: Callable[[Any], Sequence[Any]]
) -> Any:
    return await cluster.ask_controller(
        api, request, lambda response: [result.error_code for result in results(response)]
    )


def _check_results(results: Sequence[Any]) -> None:
    for result in results:
        if result.error_code:
            raise Refused(result.error_message or ErrorCode(result.error_code).name)


def _config(text: str) -> NewConfig:
    name, equals, value = text.partition("=")
    if not equals or not value.strip() or "=" in value:
        raise Refused(
            "requirement failed: Invalid topic config: all configs to be added must be in the "
            'format "key=val".'
        )
    return NewConfig(name.strip(), value.strip())


def _assignment(text: str | None) -> list[list[int]]:
    """The replicas of each partition."""
    if not text:
        return []
    found: list[list[int]] = []
    for index, part in enumerate(text.split(",")):
        texts = [broker_id.strip() for broker_id in part.split(":")]
        if not all(is_whole(broker_id, 32) for broker_id in texts):
            raise Refused(f"{part!r} in --replica-assignment is not ID:ID:..")
        replicas = list(map(int, texts))
        twice = sorted({replica for replica in replicas if replicas.count(replica) > 1})
        if twice:
            raise Refused(
                "Partition replica lists may not contain duplicate entries: "
                + ",".join(map(str, twice))
            )
        found.append(replicas)
        if len(replicas) != len(found[0]):
            raise Refused(f"Partition {index} has different replication factor: {replicas}")
    return found
