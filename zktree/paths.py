"""Apache Kafka 3.9's paths in ZooKeeper, and the JSON of their nodes.

Pure. Paths, versions and keys are those of `kafka.zk.ZkData`, so that Apache Kafka's own brokers
and tools can read and share the tree. A decoder accepts what Kafka's accepts and raises ValueError
(or KeyError for a missing key) otherwise.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from kavka.seams import Random

BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = f"{CONFIG_CHANGES}/config_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = f"{LOG_DIR_EVENTS}/log_dir_event_"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"
LOG_DIRECTORIES: Final = "/kavka/log_dirs"
"""Kavka's own node: the log directories of each broker."""

TOPIC_CONFIGS: Final = "topics"
BROKER_CONFIGS: Final = "brokers"
GROUP_CONFIGS: Final = "groups"
"""Settings of consumer groups. Apache Kafka has none with ZooKeeper, so the node is created on
demand."""
SUBSCRIPTION_CONFIGS: Final = "client-metrics"
"""Client metrics subscriptions (KIP-714); created on demand too."""
_OF_ANY_NAME: Final = (GROUP_CONFIGS, SUBSCRIPTION_CONFIGS)
CONFIG_TYPES: Final = (TOPIC_CONFIGS, "clients", "users", BROKER_CONFIGS, "ips")
DEFAULT_ENTITY: Final = "<default>"
"""Name of the default entity, whose settings apply to all of its type without own ones."""

OLD_CONSUMERS: Final = "/consumers"
SECRET: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""What nodes with secrets begin with."""

PERSISTENT: Final = (
    OLD_CONSUMERS,
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    "/isr_change_notification",
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"/config/{kind}" for kind in CONFIG_TYPES),
)
"""Nodes that every broker creates at its start if they are missing."""

NO_KRAFT_EPOCH: Final = -1


def broker(broker_id: int) -> str:
    """Registration of a broker; ephemeral."""
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    """A topic's id and replica assignment."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Parent of a topic's partitions."""
    return f"{TOPICS}/{name}/partitions"


def partition(name: str, index: int) -> str:
    """Parent of a partition's state."""
    return f"{TOPICS}/{name}/partitions/{index}"


def partition_state(name: str, index: int) -> str:
    """Leader and in-sync replicas; the node's version is the partition epoch."""
    return f"{TOPICS}/{name}/partitions/{index}/state"


def _below(parent: str, path: str) -> list[str]:
    """The names from `parent` down to `path`; none if `path` is not below it."""
    return path.removeprefix(f"{parent}/").split("/") if path.startswith(f"{parent}/") else []


def topic_at(path: str) -> str | None:
    """The inverse of `topic`; None for any other path."""
    names = _below(TOPICS, path)
    return names[0] if len(names) == 1 else None


def partition_state_at(path: str) -> tuple[str, int] | None:
    """The inverse of `partition_state`; None for any other path."""
    match _below(TOPICS, path):
        case [name, "partitions", index, "state"] if index.isascii() and index.isdecimal():
            return name, int(index)
    return None


def config_at(path: str) -> tuple[str, str] | None:
    """The inverse of `config`; None for any other path."""
    match _below("/config", path):
        case [kind, node_name] if node_name:
            return kind, config_entity(kind, node_name)
    return None


def config(kind: str, entity: str) -> str:
    """Settings of an entity; `kind` is one of `CONFIG_TYPES`, `GROUP_CONFIGS` or
    `SUBSCRIPTION_CONFIGS`."""
    return f"/config/{kind}/{_node_name(kind, entity)}"


def _node_name(kind: str, entity: str) -> str:
    """Names of groups and subscriptions are arbitrary text, encoded as Apache Kafka encodes those
    of clients and users."""
    if kind not in _OF_ANY_NAME:
        return entity
    name = quote(entity, safe="").replace("~", "%7E")
    return name.replace(".", "%2E") if not name.strip(".") else name


def config_entity(kind: str, node_name: str) -> str:
    """The entity of a node's name; the inverse of `_node_name`."""
    return unquote(node_name) if kind in _OF_ANY_NAME else node_name


def topic_deletion(name: str) -> str:
    """Marks a topic for deletion."""
    return f"{DELETE_TOPICS}/{name}"


def consumer_offset(group_id: str, topic: str, partition: int) -> str:
    """A group's committed offset as the oldest consumers stored it; a decimal number."""
    return f"/consumers/{group_id}/offsets/{topic}/{partition}"


def log_directories(broker_id: int) -> str:
    """The log directories of a broker; Kavka's own node."""
    return f"{LOG_DIRECTORIES}/{broker_id}"


def ancestors(path: str) -> list[str]:
    """The nodes above `path` without the root, from the top down."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]


def uuid_text(value: uuid.UUID) -> str:
    """Kafka's text form: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> uuid.UUID:
    """The inverse of `uuid_text`."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def random_uuid(random: Random) -> uuid.UUID:
    """A new id as Apache Kafka draws it: version 4, not reserved, no leading '-'.

    0 and 1 are reserved, which version 4 excludes; a text with a leading '-' looks like an option
    to the tools.
    """
    while True:
        drawn = uuid.UUID(int=random.getrandbits(128), version=4)
        if not uuid_text(drawn).startswith("-"):
            return drawn


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _load(data: bytes | None) -> dict[str, Any]:
    value = json.loads(data or b"")
    if not isinstance(value, dict):
        raise ValueError(f"not a JSON object: {value!r}")
    return value


class Endpoint(NamedTuple):
    """One advertised listener of a broker."""

    listener: str
    security_protocol: str
    host: str
    port: int


class BrokerInfo(NamedTuple):
    """What a broker registers about itself. Kafka's JSON version 5; without JMX."""

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


def encode_broker(info: BrokerInfo, now_ms: int) -> bytes:
    """`host` and `port` are those of the first PLAINTEXT listener, for very old clients."""
    plain = [end for end in info.endpoints if end.security_protocol == "PLAINTEXT"]
    protocols = {end.listener: end.security_protocol for end in info.endpoints}
    fields: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": protocols,
        "endpoints": [_endpoint_text(end) for end in info.endpoints],
    }
    if info.rack is not None:
        fields["rack"] = info.rack
    return _dump(
        fields
        | {
            "jmx_port": -1,
            "port": plain[0].port if plain else -1,
            "host": plain[0].host if plain else None,
            "version": 5,
            "timestamp": str(now_ms),
        }
    )


def _endpoint_text(end: Endpoint) -> str:
    host = f"[{end.host}]" if ":" in end.host else end.host
    return f"{end.listener}://{host}:{end.port}"


def decode_broker(data: bytes | None) -> BrokerInfo:
    """Any version from 2 on; without a map a listener's name is its protocol."""
    fields = _load(data)
    protocols = fields.get("listener_security_protocol_map") or {}
    endpoints = []
    for text in fields["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        protocol = protocols.get(listener, listener)
        endpoints.append(Endpoint(listener, protocol, host.strip("[]"), int(port)))
    return BrokerInfo(tuple(endpoints), fields.get("rack"))


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """A topic's id and the replicas of each partition, the preferred leader first."""

    topic_id: uuid.UUID | None
    """None for a topic from before Kafka 2.8 that no controller has handled since (KIP-516)."""
    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]]
    """Partitions under reassignment (KIP-455) only, and so `removing`."""
    removing: Mapping[int, tuple[int, ...]]


def encode_topic(assignment: TopicAssignment) -> bytes:
    """Version 3 of the JSON."""
    fields: dict[str, Any] = {"partitions": _lists(assignment.replicas)}
    if assignment.topic_id is not None:
        fields["topic_id"] = uuid_text(assignment.topic_id)
    return _dump(
        fields
        | {
            "adding_replicas": _lists(assignment.adding),
            "removing_replicas": _lists(assignment.removing),
            "version": 3,
        }
    )


def decode_topic(data: bytes | None) -> TopicAssignment:
    """Any version; the older ones have no id and no reassignments."""
    fields = _load(data)
    topic_id = fields.get("topic_id")
    return TopicAssignment(
        None if topic_id is None else uuid_from_text(topic_id),
        _tuples(fields.get("partitions", {})),
        _tuples(fields.get("adding_replicas", {})),
        _tuples(fields.get("removing_replicas", {})),
    )


def _lists(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(index): list(brokers) for index, brokers in replicas.items()}


def _tuples(replicas: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {index: tuple(replicas[str(index)]) for index in sorted(map(int, replicas))}


class StoredPartitionState(NamedTuple):
    """Leader and in-sync replicas of a partition as a controller wrote them."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0
    """1 from an unclean election until the leader has recovered (KIP-704)."""


def encode_partition_state(state: StoredPartitionState) -> bytes:
    """Version 1 of the JSON; the recovery state is omitted when it is 0."""
    isr = ",".join(map(str, state.isr))
    recovery = state.leader_recovery_state
    more = f',"leader_recovery_state":{recovery}' if recovery else ""
    return (
        f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":1,'
        f'"leader_epoch":{state.leader_epoch},"isr":[{isr}]{more}}}'
    ).encode()


def decode_partition_state(data: bytes | None) -> StoredPartitionState:
    fields = _load(data)
    return StoredPartitionState(
        fields["leader"],
        fields["leader_epoch"],
        tuple(fields["isr"]),
        fields["controller_epoch"],
        fields.get("leader_recovery_state", 0),
    )


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    return _dump(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(now_ms),
            "kraftControllerEpoch": NO_KRAFT_EPOCH,
        }
    )


def decode_controller(data: bytes | None) -> int:
    """The controller's broker id."""
    return int(_load(data)["brokerid"])


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes | None) -> int:
    return int(data or b"")


def encode_features(levels: Mapping[str, int] | None = None) -> bytes:
    """Finalised features (KIP-584): none, in version 2 of the JSON, switched on.

    `levels` are the levels of Kavka's features that were set. Apache Kafka 3.9 does not know these
    features, and its brokers shut down if one is finalised; nor does its format allow level 0. So
    they are stored in a field beside `features`, in the same format, which it ignores.
    """
    fields: dict[str, Any] = {"features": {}, "version": 2, "status": 1}
    if levels:
        fields["levels"] = {name: {"max_version_level": at} for name, at in levels.items()}
    return _dump(fields)


def decode_features(data: bytes | None) -> dict[str, int]:
    """The levels of Kavka's features that were set."""
    levels = _load(data).get("levels", {})
    return {str(name): int(feature["max_version_level"]) for name, feature in levels.items()}


def encode_reassignments(reassignments: Iterable[tuple[str, int, Sequence[int]]]) -> bytes:
    """What tools before KIP-455 ask the controller for: topics, partitions, and their new
    replicas."""
    entries = [
        {"topic": name, "partition": index, "replicas": list(replicas)}
        for name, index, replicas in reassignments
    ]
    return _dump({"version": 1, "partitions": entries})


def decode_reassignments(data: bytes | None) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """The inverse of `encode_reassignments`, one partition after the other: there may be
    thousands. ValueError."""
    for name, index, fields in _asked_for(data):
        replicas = fields.get("replicas")
        if not isinstance(replicas, list) or not all(type(replica) is int for replica in replicas):
            raise ValueError(f"{name}-{index} has no list of replicas")
        yield name, index, tuple(replicas)


def decode_elections(data: bytes | None) -> list[tuple[str, int]]:
    """The partitions for which tools before KIP-460 ask the controller to elect the preferred
    replica, each once. ValueError."""
    return list(dict.fromkeys((name, index) for name, index, _ in _asked_for(data)))


def _asked_for(data: bytes | None) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Topics and partitions in a node of a tool's, each with all its fields."""
    entries = _load(data).get("partitions")
    if not isinstance(entries, list):
        raise ValueError("no list of partitions")
    for fields in entries:
        match fields:
            case {"topic": str(name), "partition": int(index)} if type(index) is int:
                yield name, index, fields
            case _:
                raise ValueError(f"not a partition: {fields!r:.100}")


def encode_log_dir_event(broker_id: int) -> bytes:
    """A failed log directory of a broker (KIP-112); 1 is the only event type."""
    return _dump({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes | None) -> int:
    """The broker with the failed log directory."""
    return int(_load(data)["broker"])


def encode_log_directories(directories: Mapping[str, str]) -> bytes:
    """Absolute paths by directory id."""
    return _dump({"version": 1, "directories": dict(sorted(directories.items()))})


def decode_log_directories(data: bytes | None) -> dict[str, str]:
    """The inverse of `encode_log_directories`."""
    return {str(key): str(path) for key, path in _load(data)["directories"].items()}


def encode_cluster_id(cluster_id: str) -> bytes:
    return _dump({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    return str(_load(data)["id"])


def encode_config(settings: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(settings)})


def decode_config(data: bytes | None) -> dict[str, str]:
    """A node without data has no settings."""
    if not data:
        return {}
    return {str(key): str(value) for key, value in _load(data).get("config", {}).items()}


def encode_config_change(kind: str, entity: str) -> bytes:
    """Version 2 of the notification."""
    return _dump({"version": 2, "entity_path": f"{kind}/{_node_name(kind, entity)}"})


def decode_config_change(data: bytes | None) -> tuple[str, str]:
    """Kind and entity that changed; version 1 spells them in two fields."""
    fields = _load(data)
    if fields["version"] == 1:
        return str(fields["entity_type"]), str(fields["entity_name"])
    if fields["version"] != 2:
        raise ValueError(f"config change of version {fields['version']}")
    kind, slash, entity = str(fields["entity_path"]).partition("/")
    if not slash:
        raise ValueError(f"no entity in the config change {fields!r}")
    return kind, config_entity(kind, entity)


class ProducerIdBlock(NamedTuple):
    """Producer ids that one broker reserved; `first` and `last` are inclusive."""

    broker_id: int
    first: int
    last: int


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _dump(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(data: bytes | None) -> ProducerIdBlock:
    fields = _load(data)
    return ProducerIdBlock(
        int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"])
    )
