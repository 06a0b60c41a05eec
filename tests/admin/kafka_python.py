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

from admin.cells import Client, Failed, cells
from admin.place import Place
from admin.settings import BROKER_SETTING, LOGGER, READ_ONLY_SETTING, chosen, served
from kavka.compat_tests.raw.codec.batches import BASE_TIMESTAMP_MS

Returned = Any
"""What the library returns: dicts and objects of its own."""

PREFERRED, UNCLEAN = 0, 1
REQUEST_TIMEOUT_MS = 60_000


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


@cells
def create(
    admin: Admin, place: Place, /, label: str, *, only: bool = False, **options: Any
) -> Returned:
    created = admin.create_topics({place.topic(label): options}, validate_only=only)
    place.wait_until_applied()
    return created


does("create a topic")(create("a", num_partitions=2, replication_factor=1))

SETTINGS = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
does("create a topic with settings")(create("set", num_partitions=1, configs=SETTINGS))


@does("create a topic with an assignment")
def _(admin: Admin, place: Place) -> Returned:
    here = [place.broker_id]
    return create("assigned", assignments={0: here, 1: here})(admin, place)


does("create a topic with the broker's defaults")(create("default"))


@does("create a topic, only to validate")
def _(admin: Admin, place: Place) -> Returned:
    created = create("never", num_partitions=3, only=True)(admin, place)
    return created, place.own(admin.list_topics())


does("create a topic that is there")(create("a", num_partitions=2))
does("create a topic with a bad name")(create("bad /name"))
does("create a topic with too many replicas")(create("never", replication_factor=2))
does("create a topic without partitions")(create("never", num_partitions=0))
does("create a topic on an unknown broker")(create("never", assignments={0: [99]}))
does("create a topic with an unknown setting")(create("never", configs={"no.such": "1"}))
does("create a topic with a bad value")(create("never", configs={"retention.ms": "soon"}))
does("list topics")(lambda admin, place: place.own(admin.list_topics()))
does("describe a topic")(lambda admin, place: admin.describe_topics([place.topic("a")]))
does("describe a topic by its id")(
    lambda admin, place: admin.describe_topics([topic_id(admin, place, "a")])
)


def topic_id(admin: Admin, place: Place, label: str) -> UUID:
    (topic,) = admin.describe_topics([place.topic(label)])
    return UUID(str(topic["topic_id"]))


@does("describe topics page by page")
def _(admin: Admin, place: Place) -> Returned:
    names = [place.topic(label) for label in ("a", "assigned", "none", "set")]
    pages: list[Returned] = []
    cursor = None
    while cursor is not None or not pages:
        requested = [name for name in names if cursor is None or name >= cursor["topic_name"]]
        page = admin.describe_topic_partitions(requested, response_partition_limit=2, cursor=cursor)
        pages.append(page)
        cursor = page["next_cursor"]
    return pages


does("describe a missing topic")(lambda admin, place: admin.describe_topics([place.topic("none")]))


@cells
def add(admin: Admin, place: Place, label: str, new: Any, *, only: bool = False) -> Returned:
    answer = admin.create_partitions({place.topic(label): new}, validate_only=only)
    place.wait_until_applied()
    (topic,) = admin.describe_topics([place.topic(label)])
    return answer.to_dict(), len(topic["partitions"])


does("add partitions")(add("a", 4))


@does("add partitions with an assignment")
def _(admin: Admin, place: Place) -> Returned:
    return add("a", {"count": 5, "assignments": [[place.broker_id]]})(admin, place)


does("add partitions, only to validate")(add("a", 7, only=True))
does("add fewer partitions than there are")(add("a", 2))
does("add partitions to a missing topic")(add("none", 2))


# -- settings -------------------------------------------------------------------------------


def described(admin: Admin, kind: str, name: str, keys: list[str] | None = None) -> Returned:
    resource = ConfigResource(kind, name, keys)
    return admin.describe_configs([resource], include_synonyms=True, config_filter="all")


def alter(
    admin: Admin, place: Place, kind: str, name: str, changes: dict[str, Any], **options: Any
) -> Returned:
    """What is returned, and the settings afterwards; Failed for what the library only returns."""
    resource = ConfigResource(kind, name, changes)
    results = admin.alter_configs([resource], raise_on_unknown=False, **options)
    place.wait_until_applied()
    if any(result != "OK" for names in results.values() for result in names.values()):
        raise Failed(error_in(results), results)
    return results, described(admin, kind, name, list(changes))


def error_in(results: Any) -> str:
    """The class of an error that is returned as `[Error 40] InvalidConfigurationError: ...`."""
    (text,) = (result for names in results.values() for result in names.values())
    return type(for_code(int(text.partition("]")[0].removeprefix("[Error ")))()).__name__


@cells
def alter_topic(admin: Admin, place: Place, /, label: str, **changes: Any) -> Returned:
    options = {key: changes.pop(key) for key in ("validate_only", "incremental") if key in changes}
    named_changes = {key.replace("_", "."): value for key, value in changes.items()}
    return alter(admin, place, "TOPIC", place.topic(label), named_changes, **options)


does("describe a topic's settings")(
    lambda admin, place: described(admin, "TOPIC", place.topic("set"))
)
does("describe a missing topic's settings")(
    lambda admin, place: described(admin, "TOPIC", place.topic("none"))
)
does("set a topic's settings")(
    alter_topic("a", retention_ms="1000", max_message_bytes=("SET", "2000"))
)
does("set a topic's settings, only to validate")(
    alter_topic("a", retention_ms="5", validate_only=True)
)
does("append to a topic's list")(alter_topic("a", cleanup_policy=("APPEND", "compact")))
does("subtract from a topic's list")(alter_topic("a", cleanup_policy=("SUBTRACT", "delete")))
does("delete a topic's setting")(alter_topic("a", retention_ms=("DELETE", None)))
does("set an unknown setting")(alter_topic("a", no_such="1"))
does("set a bad value")(alter_topic("a", retention_ms="soon"))
does("set a missing topic's settings")(alter_topic("none", retention_ms="1"))
does("replace a topic's settings")(alter_topic("set", segment_ms="70000", incremental=False))


@does("reset a topic's settings")
def _(admin: Admin, place: Place) -> Returned:
    results = admin.reset_configs([ConfigResource("TOPIC", place.topic("set"), ["segment.ms"])])
    place.wait_until_applied()
    return results, described(admin, "TOPIC", place.topic("set"), ["segment.ms"])


@does("describe a broker's settings")
def _(admin: Admin, place: Place) -> Returned:
    results = described(admin, "BROKER", str(place.broker_id))
    return chosen(results["broker"][str(place.broker_id)])


@cells
def alter_broker(
    admin: Admin, place: Place, key: str, value: Any, kind: str = "BROKER"
) -> Returned:
    return alter(admin, place, kind, str(place.broker_id), {key: value})


does("set a broker's setting")(alter_broker(BROKER_SETTING, "1500000"))
does("delete a broker's setting")(alter_broker(BROKER_SETTING, ("DELETE", None)))
does("set a broker's read-only setting")(alter_broker(READ_ONLY_SETTING, "7"))


@does("describe a broker's loggers")
def _(admin: Admin, place: Place) -> Returned:
    results = described(admin, "BROKER_LOGGER", str(place.broker_id))
    return bool(results["broker_logger"][str(place.broker_id)])


does("set a logger's level")(alter_broker(LOGGER, "ERROR", kind="BROKER_LOGGER"))


@does("list what has settings")
def _(admin: Admin, place: Place) -> Returned:
    results = admin.list_config_resources()
    return results | {"topic": place.own(results.get("topic", []))}


# -- partitions -----------------------------------------------------------------------------


def data(place: Place, *partitions: int) -> list[TopicPartition]:
    return [TopicPartition(place.topic("data"), partition) for partition in partitions]


@does("first and last offsets")
def _(admin: Admin, place: Place) -> Returned:
    specs = (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP)
    return [
        sorted(admin.list_partition_offsets(dict.fromkeys(data(place, 0, 1), spec)).items())
        for spec in specs
    ]


@does("offsets by time")
def _(admin: Admin, place: Place) -> Returned:
    (first, _) = data(place, 0, 1)
    times = (BASE_TIMESTAMP_MS + delta for delta in (0, 5, 20, 21))
    return [list(admin.list_partition_offsets({first: time}).values()) for time in times]


@does("offsets of a missing topic")
def _(admin: Admin, place: Place) -> Returned:
    missing = TopicPartition(place.topic("none"), 0)
    return list(admin.list_partition_offsets({missing: OffsetSpec.LATEST}).values())


@does("describe log directories")
def _(admin: Admin, place: Place) -> Returned:
    (broker,) = admin.describe_log_dirs([place.topic("data")])
    for directory in broker["log_dirs"]:
        for topic in directory["topics"]:
            topic["partitions"].sort(key=lambda partition: partition["partition_index"])
    return broker


@does("move a replica to another directory")
def _(admin: Admin, place: Place) -> Returned:
    replica = (place.topic("data"), 0, place.broker_id)
    (error,) = admin.alter_replica_log_dirs({replica: "/no/such"}).values()
    raise Failed(error.__name__, None)


@cells
def elect(admin: Admin, place: Place, kind: int, *indexes: int) -> Returned:
    topic = place.topic("a")
    return admin.elect_leaders(kind, {topic: list(indexes)} if indexes else [topic]).to_dict()


does("elect preferred leaders")(elect(PREFERRED, 0, 1))
does("elect preferred leaders of all partitions")(elect(PREFERRED))
does("elect leaders uncleanly")(elect(UNCLEAN, 0))
does("elect a missing partition's leader")(elect(PREFERRED, 99))


@cells
def reassigned(admin: Admin, place: Place, replicas: list[int] | None) -> Returned:
    (first, _) = data(place, 0, 1)
    results = admin.alter_partition_reassignments({first: replicas})
    place.wait_until_applied()
    if results[first] is not None:
        raise Failed(results[first].__name__, None)
    return list(results)


does("reassign a partition to where it is")(
    lambda admin, place: reassigned([place.broker_id])(admin, place)
)
does("reassign a partition to an unknown broker")(reassigned([99]))
does("list reassignments")(lambda admin, place: admin.list_partition_reassignments())
does("cancel a reassignment")(reassigned(None))
does("describe producers")(
    lambda admin, place: [
        str(answer) for answer in admin.describe_producers(data(place, 0, 1)).values()
    ]
)


@does("describe a missing topic's producers")
def _(admin: Admin, place: Place) -> Returned:
    missing = TopicPartition(place.topic("none"), 0)
    return admin.describe_producers([missing], broker_id=place.broker_id)


@does("delete records")
def _(admin: Admin, place: Place) -> Returned:
    (first, _) = data(place, 0, 1)
    return list(admin.delete_records({first: 1}).values())


# -- cluster --------------------------------------------------------------------------------


does("describe the cluster")(lambda admin, place: admin.describe_cluster())
does("API versions")(
    lambda admin, place: served({key.name: most for key, (_, most) in admin.api_versions().items()})
)


@does("describe access rules")
def _(admin: Admin, place: Place) -> Returned:
    pattern = ResourcePatternFilter(ResourceType.TOPIC, None, PatternType.ANY)
    rules = ACLFilter(None, "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    return str(admin.describe_acls(rules))


does("describe SCRAM users")(lambda admin, place: admin.describe_user_scram_credentials())


# -- the end --------------------------------------------------------------------------------


@does("delete a topic")
def _(admin: Admin, place: Place) -> Returned:
    results = admin.delete_topics([place.topic("a")])
    place.wait_until_applied()
    return results, place.own(admin.list_topics())


@does("delete a topic by its id")
def _(admin: Admin, place: Place) -> Returned:
    results = admin.delete_topics([topic_id(admin, place, "assigned")])
    place.wait_until_applied()
    return results, place.own(admin.list_topics())


does("delete a missing topic")(lambda admin, place: admin.delete_topics([place.topic("none")]))
