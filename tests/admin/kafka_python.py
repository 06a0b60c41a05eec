"""kafka-python's KafkaAdminClient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from uuid import UUID

from kafka import KafkaAdminClient as Admin
from kafka import TopicPartition
from kafka.admin import (
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    OffsetSpec,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.admin import ACLResourcePatternType as PatternType
from kafka.errors import for_code

from admin.cells import Client, Failed
from admin.place import Place
from admin.settings import BROKER_SETTING, LOGGER, READ_ONLY_SETTING, chosen, served
from support.batches import BASE_TIMESTAMP_MS

Told = Any
"""What the library returns: dicts and objects of its own."""

PREFERRED, UNCLEAN = 0, 1
REQUEST_TIMEOUT_MS = 20_000


@contextmanager
def opened(place: Place) -> Iterator[Admin]:
    client = Admin(bootstrap_servers=place.bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS)
    with closing(client):
        yield client


def named(failure: Exception) -> tuple[str, Any]:
    return type(failure).__name__, str(failure)


CLIENT = Client("kafka-python", "kp", opened, named)
does = CLIENT.does


# -- topics ---------------------------------------------------------------------------------


def create(admin: Admin, place: Place, name: str, *, only: bool = False, **options: Any) -> Told:
    told = admin.create_topics({name: options}, validate_only=only)
    place.settle()
    return told


@does("create a topic")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("a"), num_partitions=2, replication_factor=1)


@does("create a topic with settings")
def _(admin: Admin, place: Place) -> Told:
    settings = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
    return create(admin, place, place.topic("set"), num_partitions=1, configs=settings)


@does("create a topic with an assignment")
def _(admin: Admin, place: Place) -> Told:
    here = [place.broker_id]
    return create(admin, place, place.topic("assigned"), assignments={0: here, 1: here})


@does("create a topic with the broker's defaults")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("default"))


@does("create a topic, only to validate")
def _(admin: Admin, place: Place) -> Told:
    told = create(admin, place, place.topic("never"), num_partitions=3, only=True)
    return told, place.own(admin.list_topics())


@does("create a topic that is there")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("a"), num_partitions=2)


@does("create a topic with a bad name")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, "kp bad/name")


@does("create a topic with too many replicas")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("never"), replication_factor=2)


@does("create a topic without partitions")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("never"), num_partitions=0)


@does("create a topic on an unknown broker")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("never"), assignments={0: [99]})


@does("create a topic with an unknown setting")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("never"), configs={"no.such": "1"})


@does("create a topic with a bad value")
def _(admin: Admin, place: Place) -> Told:
    return create(admin, place, place.topic("never"), configs={"retention.ms": "soon"})


@does("list topics")
def _(admin: Admin, place: Place) -> Told:
    return place.own(admin.list_topics())


@does("describe a topic")
def _(admin: Admin, place: Place) -> Told:
    return admin.describe_topics([place.topic("a")])


@does("describe a topic by its id")
def _(admin: Admin, place: Place) -> Told:
    return admin.describe_topics([topic_id(admin, place, "a")])


def topic_id(admin: Admin, place: Place, label: str) -> UUID:
    (topic,) = admin.describe_topics([place.topic(label)])
    return UUID(str(topic["topic_id"]))


@does("describe topics page by page")
def _(admin: Admin, place: Place) -> Told:
    names = [place.topic(label) for label in ("a", "assigned", "none", "set")]
    pages: list[Told] = []
    cursor = None
    while cursor is not None or not pages:
        asked = [name for name in names if cursor is None or name >= cursor["topic_name"]]
        page = admin.describe_topic_partitions(asked, response_partition_limit=2, cursor=cursor)
        pages.append(page)
        cursor = page["next_cursor"]
    return pages


@does("describe a missing topic")
def _(admin: Admin, place: Place) -> Told:
    return admin.describe_topics([place.topic("none")])


def add(admin: Admin, place: Place, label: str, new: Any, *, only: bool = False) -> Told:
    answer = admin.create_partitions({place.topic(label): new}, validate_only=only)
    place.settle()
    (topic,) = admin.describe_topics([place.topic(label)])
    return answer.to_dict(), len(topic["partitions"])


@does("add partitions")
def _(admin: Admin, place: Place) -> Told:
    return add(admin, place, "a", 4)


@does("add partitions with an assignment")
def _(admin: Admin, place: Place) -> Told:
    return add(admin, place, "a", {"count": 5, "assignments": [[place.broker_id]]})


@does("add partitions, only to validate")
def _(admin: Admin, place: Place) -> Told:
    return add(admin, place, "a", 7, only=True)


@does("add fewer partitions than there are")
def _(admin: Admin, place: Place) -> Told:
    return add(admin, place, "a", 2)


@does("add partitions to a missing topic")
def _(admin: Admin, place: Place) -> Told:
    return add(admin, place, "none", 2)


# -- settings -------------------------------------------------------------------------------


def described(admin: Admin, kind: str, name: str, keys: list[str] | None = None) -> Told:
    resource = ConfigResource(kind, name, keys)
    return admin.describe_configs([resource], include_synonyms=True, config_filter="all")


def alter(
    admin: Admin, place: Place, kind: str, name: str, changes: dict[str, Any], **options: Any
) -> Told:
    """What is told, and what the settings are then; Failed for what the library only returns."""
    resource = ConfigResource(kind, name, changes)
    told = admin.alter_configs([resource], raise_on_unknown=False, **options)
    place.settle()
    if any(result != "OK" for names in told.values() for result in names.values()):
        raise Failed(error_in(told), told)
    return told, described(admin, kind, name, list(changes))


def error_in(told: Any) -> str:
    """The class of an error that is told as `[Error 40] InvalidConfigurationError: ...`."""
    (text,) = (result for names in told.values() for result in names.values())
    return type(for_code(int(text.partition("]")[0].removeprefix("[Error ")))()).__name__


def alter_topic(admin: Admin, place: Place, label: str, **changes: Any) -> Told:
    options = {key: changes.pop(key) for key in ("validate_only", "incremental") if key in changes}
    named_changes = {key.replace("_", "."): value for key, value in changes.items()}
    return alter(admin, place, "TOPIC", place.topic(label), named_changes, **options)


@does("describe a topic's settings")
def _(admin: Admin, place: Place) -> Told:
    return described(admin, "TOPIC", place.topic("set"))


@does("describe a missing topic's settings")
def _(admin: Admin, place: Place) -> Told:
    return described(admin, "TOPIC", place.topic("none"))


@does("set a topic's settings")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "a", retention_ms="1000", max_message_bytes=("SET", "2000"))


@does("set a topic's settings, only to validate")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "a", retention_ms="5", validate_only=True)


@does("append to a topic's list")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "a", cleanup_policy=("APPEND", "compact"))


@does("subtract from a topic's list")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "a", cleanup_policy=("SUBTRACT", "delete"))


@does("delete a topic's setting")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "a", retention_ms=("DELETE", None))


@does("set an unknown setting")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "a", no_such="1")


@does("set a bad value")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "a", retention_ms="soon")


@does("set a missing topic's settings")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "none", retention_ms="1")


@does("replace a topic's settings")
def _(admin: Admin, place: Place) -> Told:
    return alter_topic(admin, place, "set", segment_ms="70000", incremental=False)


@does("reset a topic's settings")
def _(admin: Admin, place: Place) -> Told:
    told = admin.reset_configs([ConfigResource("TOPIC", place.topic("set"), ["segment.ms"])])
    place.settle()
    return told, described(admin, "TOPIC", place.topic("set"), ["segment.ms"])


@does("describe a broker's settings")
def _(admin: Admin, place: Place) -> Told:
    told = described(admin, "BROKER", str(place.broker_id))
    return chosen(told["broker"][str(place.broker_id)])


@does("set a broker's setting")
def _(admin: Admin, place: Place) -> Told:
    return alter(admin, place, "BROKER", str(place.broker_id), {BROKER_SETTING: "1500000"})


@does("delete a broker's setting")
def _(admin: Admin, place: Place) -> Told:
    return alter(admin, place, "BROKER", str(place.broker_id), {BROKER_SETTING: ("DELETE", None)})


@does("set a broker's read-only setting")
def _(admin: Admin, place: Place) -> Told:
    return alter(admin, place, "BROKER", str(place.broker_id), {READ_ONLY_SETTING: "7"})


@does("describe a broker's loggers")
def _(admin: Admin, place: Place) -> Told:
    told = described(admin, "BROKER_LOGGER", str(place.broker_id))
    return bool(told["broker_logger"][str(place.broker_id)])


@does("set a logger's level")
def _(admin: Admin, place: Place) -> Told:
    return alter(admin, place, "BROKER_LOGGER", str(place.broker_id), {LOGGER: "ERROR"})


@does("list what has settings")
def _(admin: Admin, place: Place) -> Told:
    told = admin.list_config_resources()
    return told | {"topic": place.own(told.get("topic", []))}


# -- partitions -----------------------------------------------------------------------------


def data(place: Place, *partitions: int) -> list[TopicPartition]:
    return [TopicPartition(place.topic("data"), partition) for partition in partitions]


@does("first and last offsets")
def _(admin: Admin, place: Place) -> Told:
    specs = (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP)
    return [
        sorted(admin.list_partition_offsets(dict.fromkeys(data(place, 0, 1), spec)).items())
        for spec in specs
    ]


@does("offsets by time")
def _(admin: Admin, place: Place) -> Told:
    (first, _) = data(place, 0, 1)
    times = (BASE_TIMESTAMP_MS + delta for delta in (0, 5, 20, 21))
    return [list(admin.list_partition_offsets({first: time}).values()) for time in times]


@does("offsets of a missing topic")
def _(admin: Admin, place: Place) -> Told:
    missing = TopicPartition(place.topic("none"), 0)
    return list(admin.list_partition_offsets({missing: OffsetSpec.LATEST}).values())


@does("describe log directories")
def _(admin: Admin, place: Place) -> Told:
    (broker,) = admin.describe_log_dirs([place.topic("data")])
    for directory in broker["log_dirs"]:
        for topic in directory["topics"]:
            topic["partitions"].sort(key=lambda one: one["partition_index"])
    return broker


@does("move a replica to another directory")
def _(admin: Admin, place: Place) -> Told:
    replica = (place.topic("data"), 0, place.broker_id)
    (refusal,) = admin.alter_replica_log_dirs({replica: "/no/such"}).values()
    raise Failed(refusal.__name__, None)


@does("elect preferred leaders")
def _(admin: Admin, place: Place) -> Told:
    return admin.elect_leaders(PREFERRED, {place.topic("a"): [0, 1]}).to_dict()


@does("elect preferred leaders of all partitions")
def _(admin: Admin, place: Place) -> Told:
    return admin.elect_leaders(PREFERRED, [place.topic("a")]).to_dict()


@does("elect leaders uncleanly")
def _(admin: Admin, place: Place) -> Told:
    return admin.elect_leaders(UNCLEAN, {place.topic("a"): [0]}).to_dict()


@does("elect a missing partition's leader")
def _(admin: Admin, place: Place) -> Told:
    return admin.elect_leaders(PREFERRED, {place.topic("a"): [99]}).to_dict()


def reassigned(admin: Admin, place: Place, replicas: list[int] | None) -> Told:
    (first, _) = data(place, 0, 1)
    told = admin.alter_partition_reassignments({first: replicas})
    place.settle()
    if told[first] is not None:
        raise Failed(told[first].__name__, None)
    return list(told)


@does("reassign a partition to where it is")
def _(admin: Admin, place: Place) -> Told:
    return reassigned(admin, place, [place.broker_id])


@does("reassign a partition to an unknown broker")
def _(admin: Admin, place: Place) -> Told:
    return reassigned(admin, place, [99])


@does("list reassignments")
def _(admin: Admin, place: Place) -> Told:
    return admin.list_partition_reassignments()


@does("cancel a reassignment")
def _(admin: Admin, place: Place) -> Told:
    return reassigned(admin, place, None)


@does("describe producers")
def _(admin: Admin, place: Place) -> Told:
    return [str(one) for one in admin.describe_producers(data(place, 0, 1)).values()]


@does("describe a missing topic's producers")
def _(admin: Admin, place: Place) -> Told:
    missing = TopicPartition(place.topic("none"), 0)
    return admin.describe_producers([missing], broker_id=place.broker_id)


@does("delete records")
def _(admin: Admin, place: Place) -> Told:
    (first, _) = data(place, 0, 1)
    return list(admin.delete_records({first: 1}).values())


# -- cluster --------------------------------------------------------------------------------


@does("describe the cluster")
def _(admin: Admin, place: Place) -> Told:
    return admin.describe_cluster()


@does("API versions")
def _(admin: Admin, place: Place) -> Told:
    return served({key.name: most for key, (_, most) in admin.api_versions().items()})


@does("describe access rules")
def _(admin: Admin, place: Place) -> Told:
    pattern = ResourcePatternFilter(ResourceType.TOPIC, None, PatternType.ANY)
    rules = ACLFilter(None, "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    return str(admin.describe_acls(rules))


@does("describe SCRAM users")
def _(admin: Admin, place: Place) -> Told:
    return admin.describe_user_scram_credentials()


# -- the end --------------------------------------------------------------------------------


@does("delete a topic")
def _(admin: Admin, place: Place) -> Told:
    told = admin.delete_topics([place.topic("a")])
    place.settle()
    return told, place.own(admin.list_topics())


@does("delete a topic by its id")
def _(admin: Admin, place: Place) -> Told:
    told = admin.delete_topics([topic_id(admin, place, "assigned")])
    place.settle()
    return told, place.own(admin.list_topics())


@does("delete a missing topic")
def _(admin: Admin, place: Place) -> Told:
    return admin.delete_topics([place.topic("none")])
