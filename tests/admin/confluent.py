"""confluent-kafka's AdminClient, which is librdkafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    ElectionType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from admin.cells import Client, Failed
from admin.place import Place
from admin.settings import BROKER_SETTING, READ_ONLY_SETTING, chosen
from support.batches import BASE_TIMESTAMP_MS

Told = Any
"""What the library returns, as plain values."""

TIMEOUT_S = 20.0


@contextmanager
def opened(place: Place) -> Iterator[AdminClient]:
    yield AdminClient({"bootstrap.servers": place.bootstrap, "log_level": 0})


def named(failure: Exception) -> tuple[str, Any]:
    error = failure.args[0] if isinstance(failure, KafkaException) else failure
    if isinstance(error, KafkaError):
        return error.name(), error.str()
    return type(failure).__name__, str(failure)


CLIENT = Client("confluent-kafka", "ck", opened, named)
does = CLIENT.does


def result(futures: Any) -> Any:
    """The result of one future, or of the only one in a dict."""
    if isinstance(futures, Mapping):
        (futures,) = futures.values()
    return futures.result(TIMEOUT_S)


def plain(value: Any) -> Any:
    """One of the library's objects by its public attributes."""
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    found = vars(value) if hasattr(value, "__dict__") else {}
    if not found:
        return str(value)
    return {name: plain(one) for name, one in found.items() if not name.startswith("_")}


# -- topics ---------------------------------------------------------------------------------


def create(admin: AdminClient, place: Place, name: str, **options: Any) -> Told:
    only = options.pop("validate_only", False)
    result(admin.create_topics([NewTopic(name, **options)], validate_only=only))
    place.settle()
    return names(admin, place)


def names(admin: AdminClient, place: Place) -> list[str]:
    return place.own(list(admin.list_topics(timeout=TIMEOUT_S).topics))


@does("create a topic")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("a"), num_partitions=2, replication_factor=1)


@does("create a topic with settings")
def _(admin: AdminClient, place: Place) -> Told:
    settings = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
    return create(admin, place, place.topic("set"), num_partitions=1, config=settings)


@does("create a topic with an assignment")
def _(admin: AdminClient, place: Place) -> Told:
    here = [[place.broker_id], [place.broker_id]]
    return create(admin, place, place.topic("assigned"), num_partitions=2, replica_assignment=here)


@does("create a topic with the broker's defaults")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("default"))


@does("create a topic, only to validate")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("never"), num_partitions=3, validate_only=True)


@does("create a topic that is there")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("a"), num_partitions=2)


@does("create a topic with a bad name")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, "ck bad/name")


@does("create a topic with too many replicas")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("never"), replication_factor=2)


@does("create a topic on an unknown broker")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("never"), num_partitions=1, replica_assignment=[[99]])


@does("create a topic with an unknown setting")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("never"), config={"no.such": "1"})


@does("create a topic with a bad value")
def _(admin: AdminClient, place: Place) -> Told:
    return create(admin, place, place.topic("never"), config={"retention.ms": "soon"})


@does("list topics")
def _(admin: AdminClient, place: Place) -> Told:
    return names(admin, place)


def described(admin: AdminClient, place: Place, label: str) -> Told:
    asked = TopicCollection([place.topic(label)])
    return plain(result(admin.describe_topics(asked, include_authorized_operations=True)))


@does("describe a topic")
def _(admin: AdminClient, place: Place) -> Told:
    return described(admin, place, "a")


@does("describe a missing topic")
def _(admin: AdminClient, place: Place) -> Told:
    return described(admin, place, "none")


def add(admin: AdminClient, place: Place, label: str, count: int, **options: Any) -> Told:
    only = options.pop("validate_only", False)
    new = NewPartitions(place.topic(label), count, **options)
    result(admin.create_partitions([new], validate_only=only))
    place.settle()
    return len(described(admin, place, label)["partitions"])


@does("add partitions")
def _(admin: AdminClient, place: Place) -> Told:
    return add(admin, place, "a", 4)


@does("add partitions with an assignment")
def _(admin: AdminClient, place: Place) -> Told:
    return add(admin, place, "a", 5, replica_assignment=[[place.broker_id]])


@does("add partitions, only to validate")
def _(admin: AdminClient, place: Place) -> Told:
    return add(admin, place, "a", 7, validate_only=True)


@does("add fewer partitions than there are")
def _(admin: AdminClient, place: Place) -> Told:
    return add(admin, place, "a", 2)


@does("add partitions to a missing topic")
def _(admin: AdminClient, place: Place) -> Told:
    return add(admin, place, "none", 2)


# -- settings -------------------------------------------------------------------------------


def settings(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, Any]:
    found = result(admin.describe_configs([ConfigResource(kind, name)]))
    return {key: entry(one) for key, one in found.items()}


def entry(one: Any) -> Told:
    synonyms = [(key, same.value, same.source) for key, same in one.synonyms.items()]
    flags = (one.is_read_only, one.is_default, one.is_sensitive)
    return {"value": one.value, "source": one.source, "flags": flags, "synonyms": synonyms}


def alter(
    admin: AdminClient, place: Place, kind: ResourceType, name: str, *changes: ConfigEntry
) -> Told:
    """What the settings are afterwards."""
    resource = ConfigResource(kind, name, incremental_configs=list(changes))
    result(admin.incremental_alter_configs([resource]))
    place.settle()
    found = settings(admin, kind, name)
    return {one.name: found.get(one.name) for one in changes}


def change(
    key: str, value: str | None, operation: AlterConfigOpType = AlterConfigOpType.SET
) -> ConfigEntry:
    return ConfigEntry(key, value, incremental_operation=operation)


def of_topic(label: str, *changes: ConfigEntry) -> Callable[[AdminClient, Place], Told]:
    return lambda admin, place: alter(
        admin, place, ResourceType.TOPIC, place.topic(label), *changes
    )


def of_broker(*changes: ConfigEntry) -> Callable[[AdminClient, Place], Told]:
    return lambda admin, place: alter(
        admin, place, ResourceType.BROKER, str(place.broker_id), *changes
    )


@does("describe a topic's settings")
def _(admin: AdminClient, place: Place) -> Told:
    return settings(admin, ResourceType.TOPIC, place.topic("set"))


@does("describe a missing topic's settings")
def _(admin: AdminClient, place: Place) -> Told:
    return settings(admin, ResourceType.TOPIC, place.topic("none"))


APPEND, SUBTRACT = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT
DELETE = AlterConfigOpType.DELETE

does("set a topic's settings")(
    of_topic("a", change("retention.ms", "1000"), change("max.message.bytes", "2000"))
)
does("append to a topic's list")(of_topic("a", change("cleanup.policy", "compact", APPEND)))
does("subtract from a topic's list")(of_topic("a", change("cleanup.policy", "delete", SUBTRACT)))
does("delete a topic's setting")(of_topic("a", change("retention.ms", None, DELETE)))
does("set an unknown setting")(of_topic("a", change("no.such", "1")))
does("set a bad value")(of_topic("a", change("retention.ms", "soon")))
does("set a missing topic's settings")(of_topic("none", change("retention.ms", "1")))
does("set a broker's setting")(of_broker(change(BROKER_SETTING, "1500000")))
does("delete a broker's setting")(of_broker(change(BROKER_SETTING, None, DELETE)))
does("set a broker's read-only setting")(of_broker(change(READ_ONLY_SETTING, "7")))


@does("set a topic's settings, only to validate")
def _(admin: AdminClient, place: Place) -> Told:
    changes = [change("retention.ms", "5")]
    resource = ConfigResource(ResourceType.TOPIC, place.topic("a"), incremental_configs=changes)
    result(admin.incremental_alter_configs([resource], validate_only=True))
    place.settle()
    return settings(admin, ResourceType.TOPIC, place.topic("a"))["retention.ms"]


@does("replace a topic's settings")
def _(admin: AdminClient, place: Place) -> Told:
    resource = ConfigResource(ResourceType.TOPIC, place.topic("set"))
    resource.set_config("segment.ms", "70000")
    result(admin.alter_configs([resource]))
    place.settle()
    return settings(admin, ResourceType.TOPIC, place.topic("set"))


@does("describe a broker's settings")
def _(admin: AdminClient, place: Place) -> Told:
    found = settings(admin, ResourceType.BROKER, str(place.broker_id))
    return chosen(found)


# -- partitions -----------------------------------------------------------------------------


def data(place: Place, partition: int) -> TopicPartition:
    return TopicPartition(place.topic("data"), partition)


def offset(admin: AdminClient, asked: TopicPartition, spec: OffsetSpec) -> Told:
    found = result(admin.list_offsets({asked: spec}))
    return {"offset": found.offset, "timestamp": found.timestamp, "epoch": found.leader_epoch}


@does("first and last offsets")
def _(admin: AdminClient, place: Place) -> Told:
    specs = (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
    return [offset(admin, data(place, index), spec) for index in (0, 1) for spec in specs]


@does("offsets by time")
def _(admin: AdminClient, place: Place) -> Told:
    times = (BASE_TIMESTAMP_MS + delta for delta in (0, 5, 20, 21))
    return [offset(admin, data(place, 0), OffsetSpec.for_timestamp(time)) for time in times]


@does("offsets of a missing topic")
def _(admin: AdminClient, place: Place) -> Told:
    missing = TopicPartition(place.topic("none"), 0)
    return offset(admin, missing, OffsetSpec.latest())


def elected(
    admin: AdminClient, kind: ElectionType, partitions: list[TopicPartition] | None
) -> Told:
    """What is told for each partition; Failed for what the library only returns."""
    told = admin.elect_leaders(kind, partitions).result(TIMEOUT_S)
    errors = {str(key): named(error) for key, error in told.items() if error is not None}
    if errors:
        raise Failed(next(iter(errors.values()))[0], errors)
    return [str(key) for key in told]


@does("elect preferred leaders")
def _(admin: AdminClient, place: Place) -> Told:
    return elected(admin, ElectionType.PREFERRED, [data(place, 0), data(place, 1)])


@does("elect preferred leaders of all partitions")
def _(admin: AdminClient, place: Place) -> Told:
    return elected(admin, ElectionType.PREFERRED, None)


@does("elect leaders uncleanly")
def _(admin: AdminClient, place: Place) -> Told:
    return elected(admin, ElectionType.UNCLEAN, [data(place, 0)])


@does("elect a missing partition's leader")
def _(admin: AdminClient, place: Place) -> Told:
    return elected(admin, ElectionType.PREFERRED, [data(place, 99)])


@does("delete records")
def _(admin: AdminClient, place: Place) -> Told:
    asked = TopicPartition(place.topic("data"), 0, 1)
    return result(admin.delete_records([asked])).low_watermark


# -- cluster --------------------------------------------------------------------------------


@does("describe the cluster")
def _(admin: AdminClient, place: Place) -> Told:
    return plain(result(admin.describe_cluster(include_authorized_operations=True)))


@does("describe access rules")
def _(admin: AdminClient, place: Place) -> Told:
    kind, pattern = ResourceType.TOPIC, ResourcePatternType.ANY
    operation, permission = AclOperation.ANY, AclPermissionType.ANY
    asked = AclBindingFilter(kind, None, pattern, None, None, operation, permission)
    return plain(result(admin.describe_acls(asked)))


@does("describe SCRAM users")
def _(admin: AdminClient, place: Place) -> Told:
    return plain(result(admin.describe_user_scram_credentials()))


# -- the end --------------------------------------------------------------------------------


@does("delete a topic")
def _(admin: AdminClient, place: Place) -> Told:
    result(admin.delete_topics([place.topic("a")]))
    place.settle()
    return names(admin, place)


@does("delete a missing topic")
def _(admin: AdminClient, place: Place) -> Told:
    return result(admin.delete_topics([place.topic("none")]))
