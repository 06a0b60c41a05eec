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

from admin.cells import Client, Failed, cells
from admin.place import Place
from admin.settings import BROKER_SETTING, READ_ONLY_SETTING, chosen
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS

Returned = Any
"""What the library returns, as plain values."""

TIMEOUT_S = 60.0


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
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    found = vars(value) if hasattr(value, "__dict__") else {}
    if not found:
        return str(value)
    return {name: plain(item) for name, item in found.items() if not name.startswith("_")}


# -- topics ---------------------------------------------------------------------------------


@cells
def create(admin: AdminClient, place: Place, /, label: str, **options: Any) -> Returned:
    only = options.pop("validate_only", False)
    result(admin.create_topics([NewTopic(place.topic(label), **options)], validate_only=only))
    place.wait_until_applied()
    return names(admin, place)


def names(admin: AdminClient, place: Place) -> list[str]:
    return place.own(list(admin.list_topics(timeout=TIMEOUT_S).topics))


does("create a topic")(create("a", num_partitions=2, replication_factor=1))

SETTINGS = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
does("create a topic with settings")(create("set", num_partitions=1, config=SETTINGS))


@does("create a topic with an assignment")
def _(admin: AdminClient, place: Place) -> Returned:
    here = [[place.broker_id], [place.broker_id]]
    return create("assigned", num_partitions=2, replica_assignment=here)(admin, place)


does("create a topic with the broker's defaults")(create("default"))
does("create a topic, only to validate")(create("never", num_partitions=3, validate_only=True))
does("create a topic that is there")(create("a", num_partitions=2))
does("create a topic with a bad name")(create("bad /name"))
does("create a topic with too many replicas")(create("never", replication_factor=2))
does("create a topic on an unknown broker")(
    create("never", num_partitions=1, replica_assignment=[[99]])
)
does("create a topic with an unknown setting")(create("never", config={"no.such": "1"}))
does("create a topic with a bad value")(create("never", config={"retention.ms": "soon"}))
does("list topics")(names)


@cells
def described(admin: AdminClient, place: Place, label: str) -> Returned:
    topics = TopicCollection([place.topic(label)])
    return plain(result(admin.describe_topics(topics, include_authorized_operations=True)))


does("describe a topic")(described("a"))
does("describe a missing topic")(described("none"))


@cells
def add(admin: AdminClient, place: Place, /, label: str, count: int, **options: Any) -> Returned:
    only = options.pop("validate_only", False)
    new = NewPartitions(place.topic(label), count, **options)
    result(admin.create_partitions([new], validate_only=only))
    place.wait_until_applied()
    return len(described(label)(admin, place)["partitions"])


does("add partitions")(add("a", 4))
does("add partitions with an assignment")(
    lambda admin, place: add("a", 5, replica_assignment=[[place.broker_id]])(admin, place)
)
does("add partitions, only to validate")(add("a", 7, validate_only=True))
does("add fewer partitions than there are")(add("a", 2))
does("add partitions to a missing topic")(add("none", 2))


# -- settings -------------------------------------------------------------------------------


def settings(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, Any]:
    found = result(admin.describe_configs([ConfigResource(kind, name)]))
    return {key: entry(config) for key, config in found.items()}


def entry(config: Any) -> Returned:
    synonyms = [(key, same.value, same.source) for key, same in config.synonyms.items()]
    flags = (config.is_read_only, config.is_default, config.is_sensitive)
    return {"value": config.value, "source": config.source, "flags": flags, "synonyms": synonyms}


def alter(
    admin: AdminClient, place: Place, kind: ResourceType, name: str, *changes: ConfigEntry
) -> Returned:
    """What the settings are afterwards."""
    resource = ConfigResource(kind, name, incremental_configs=list(changes))
    result(admin.incremental_alter_configs([resource]))
    place.wait_until_applied()
    found = settings(admin, kind, name)
    return {change.name: found.get(change.name) for change in changes}


def change(
    key: str, value: str | None, operation: AlterConfigOpType = AlterConfigOpType.SET
) -> ConfigEntry:
    return ConfigEntry(key, value, incremental_operation=operation)


def of_topic(label: str, *changes: ConfigEntry) -> Callable[[AdminClient, Place], Returned]:
    return lambda admin, place: alter(
        admin, place, ResourceType.TOPIC, place.topic(label), *changes
    )


def of_broker(*changes: ConfigEntry) -> Callable[[AdminClient, Place], Returned]:
    return lambda admin, place: alter(
        admin, place, ResourceType.BROKER, str(place.broker_id), *changes
    )


does("describe a topic's settings")(
    lambda admin, place: settings(admin, ResourceType.TOPIC, place.topic("set"))
)
does("describe a missing topic's settings")(
    lambda admin, place: settings(admin, ResourceType.TOPIC, place.topic("none"))
)


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
def _(admin: AdminClient, place: Place) -> Returned:
    changes = [change("retention.ms", "5")]
    resource = ConfigResource(ResourceType.TOPIC, place.topic("a"), incremental_configs=changes)
    result(admin.incremental_alter_configs([resource], validate_only=True))
    place.wait_until_applied()
    return settings(admin, ResourceType.TOPIC, place.topic("a"))["retention.ms"]


@does("replace a topic's settings")
def _(admin: AdminClient, place: Place) -> Returned:
    resource = ConfigResource(ResourceType.TOPIC, place.topic("set"))
    resource.set_config("segment.ms", "70000")
    result(admin.alter_configs([resource]))
    place.wait_until_applied()
    return settings(admin, ResourceType.TOPIC, place.topic("set"))


@does("describe a broker's settings")
def _(admin: AdminClient, place: Place) -> Returned:
    found = settings(admin, ResourceType.BROKER, str(place.broker_id))
    return chosen(found)


# -- partitions -----------------------------------------------------------------------------


def data(place: Place, partition: int) -> TopicPartition:
    return TopicPartition(place.topic("data"), partition)


def offset(admin: AdminClient, partition: TopicPartition, spec: OffsetSpec) -> Returned:
    found = result(admin.list_offsets({partition: spec}))
    return {"offset": found.offset, "timestamp": found.timestamp, "epoch": found.leader_epoch}


@does("first and last offsets")
def _(admin: AdminClient, place: Place) -> Returned:
    specs = (OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp())
    return [offset(admin, data(place, index), spec) for index in (0, 1) for spec in specs]


@does("offsets by time")
def _(admin: AdminClient, place: Place) -> Returned:
    times = (BASE_TIMESTAMP_MS + delta for delta in (0, 5, 20, 21))
    return [offset(admin, data(place, 0), OffsetSpec.for_timestamp(time)) for time in times]


@does("offsets of a missing topic")
def _(admin: AdminClient, place: Place) -> Returned:
    missing = TopicPartition(place.topic("none"), 0)
    return offset(admin, missing, OffsetSpec.latest())


@cells
def elect(admin: AdminClient, place: Place, kind: ElectionType, *indexes: int) -> Returned:
    """Results by partition, of all if none is named; Failed for what the library only returns."""
    partitions = [data(place, index) for index in indexes] or None
    results = admin.elect_leaders(kind, partitions).result(TIMEOUT_S)
    errors = {str(key): named(error) for key, error in results.items() if error is not None}
    if errors:
        raise Failed(next(iter(errors.values()))[0], errors)
    return [str(key) for key in results]


does("elect preferred leaders")(elect(ElectionType.PREFERRED, 0, 1))
does("elect preferred leaders of all partitions")(elect(ElectionType.PREFERRED))
does("elect leaders uncleanly")(elect(ElectionType.UNCLEAN, 0))
does("elect a missing partition's leader")(elect(ElectionType.PREFERRED, 99))


@does("delete records")
def _(admin: AdminClient, place: Place) -> Returned:
    partition = TopicPartition(place.topic("data"), 0, 1)
    return result(admin.delete_records([partition])).low_watermark


# -- cluster --------------------------------------------------------------------------------


does("describe the cluster")(
    lambda admin, place: plain(result(admin.describe_cluster(include_authorized_operations=True)))
)


@does("describe access rules")
def _(admin: AdminClient, place: Place) -> Returned:
    kind, pattern = ResourceType.TOPIC, ResourcePatternType.ANY
    operation, permission = AclOperation.ANY, AclPermissionType.ANY
    acl_filter = AclBindingFilter(kind, None, pattern, None, None, operation, permission)
    return plain(result(admin.describe_acls(acl_filter)))


does("describe SCRAM users")(
    lambda admin, place: plain(result(admin.describe_user_scram_credentials()))
)


# -- the end --------------------------------------------------------------------------------


@does("delete a topic")
def _(admin: AdminClient, place: Place) -> Returned:
    result(admin.delete_topics([place.topic("a")]))
    place.wait_until_applied()
    return names(admin, place)


does("delete a missing topic")(
    lambda admin, place: result(admin.delete_topics([place.topic("none")]))
)
