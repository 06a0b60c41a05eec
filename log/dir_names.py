"""Names and small files in a log directory, as Apache Kafka 3.9 writes them.

`<topic>-<partition>` holds a log, `<topic>-<partition>.<id>-delete` one marked for deletion,
`<topic>-<partition>.<id>-future` a future log, which is being moved here. `meta.properties` names
the owner of the directory, `partition.metadata` the topic id of a log.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final, NamedTuple
from uuid import UUID

from kavka.log.checkpoint import TopicPartition
from kavka.log.errors import CorruptFileError, StorageError
from kavka.seams import Random

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
META_FILE: Final = "meta.properties"
PARTITION_FILE: Final = "partition.metadata"
MOVED_FILE: Final = "moved-here"
"""Marks a log that has replaced the one in another log directory, until that one is deleted
durably. Kavka's own; Apache Kafka ignores it."""

RECOVERY_POINTS_FILE: Final = "recovery-point-offset-checkpoint"
START_OFFSETS_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS_FILE: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS_FILE: Final = "cleaner-offset-checkpoint"

CLEAN_SHUTDOWN: Final = b'{"version":0,"brokerEpoch":-1}'

NAME_BYTES_MAX: Final = 255
"""The usual limit of file systems."""

_DIRECTORY_ID: Final = "directory.id"
_DELETE: Final = "-delete"
_FUTURE: Final = "-future"
_STRAY: Final = "-stray"
"""Suffix of stray partitions: they are ignored."""

NOT_OURS: Final = "coordination."
"""Prefix of the coordination service's files beside the logs, which may be written during
loading."""

_NOT_LOGS: Final = ("__cluster_metadata-0", "remote-log-index-cache")
_LOG_NAME: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>[0-9]+)")


class MetaProperties(NamedTuple):
    """The owner of a log directory."""

    cluster_id: str
    broker_id: int


def log_name(topic: str, partition: int) -> str:
    """The directory of a log."""
    return f"{topic}-{partition}"


def delete_name(topic: str, partition: int, unique: str) -> str:
    """The directory of a log marked for deletion; a topic's name is shortened if too long."""
    suffix = f"-{partition}.{unique}{_DELETE}"
    return topic[: NAME_BYTES_MAX - len(suffix)] + suffix


def future_name(topic: str, partition: int, unique: str) -> str:
    """The directory of a future log; see `NAME_BYTES_MAX`."""
    return f"{log_name(topic, partition)}.{unique}{_FUTURE}"


def parse_future_name(name: str) -> TopicPartition | None:
    """The partition of a future log's directory; None for another name."""
    if not name.endswith(_FUTURE):
        return None
    match = _LOG_NAME.fullmatch(name.rpartition(".")[0])
    return None if match is None else (match["topic"], int(match["partition"]))


def is_deleted(name: str) -> bool:
    """Whether a directory holds a log marked for deletion."""
    return name.endswith(_DELETE) and "." in name


def parse_log_name(name: str, parent: str) -> TopicPartition | None:
    """The partition of a log's directory; None for other names that are allowed.

    StorageError for a name that does not belong in a log directory: it may be the wrong one.
    """
    if name in _NOT_LOGS:
        return None
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        if name.startswith(".") or name.endswith((_FUTURE, _STRAY)):
            return None
        raise StorageError(
            f"{parent}/{name} is not named <topic>-<partition>: a log directory may hold nothing "
            "else, so it is the wrong directory or this entry has to be removed"
        )
    return match["topic"], int(match["partition"])


def encode_meta(meta: MetaProperties) -> bytes:
    """The content of `meta.properties`, before the directory has an id."""
    lines = [f"cluster.id={meta.cluster_id}", "version=0", f"broker.id={meta.broker_id}", ""]
    return "\n".join(lines).encode()


def add_directory_id(data: bytes, directory_id: str) -> bytes:
    """Add a directory id to the content of a `meta.properties`."""
    separator = b"" if data.endswith(b"\n") else b"\n"
    return data + separator + f"{_DIRECTORY_ID}={directory_id}\n".encode()


def decode_directory_id(data: bytes) -> str | None:
    """The directory id in `meta.properties` (KIP-858); None: it has none."""
    return _decode_properties(data).get(_DIRECTORY_ID) or None


def new_directory_id(random: Random) -> str:
    """A random id as Apache Kafka generates them: version 4 UUID, base64, no leading '-'."""
    while True:
        drawn = UUID(int=random.getrandbits(128), version=4)
        text = base64.urlsafe_b64encode(drawn.bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _decode_properties(data: bytes) -> dict[str, str]:
    lines = data.decode(errors="replace").splitlines()
    pairs = [line.partition("=") for line in lines if not line.lstrip().startswith(("#", "!"))]
    return {key.strip(): value.strip() for key, _, value in pairs}


def decode_meta(data: bytes, path: str) -> MetaProperties:
    """What `meta.properties` says; CorruptFileError when something is missing from it."""
    values = _decode_properties(data)
    cluster_id = values.get("cluster.id")
    broker_id = values.get("broker.id", values.get("node.id", ""))
    if not cluster_id or not broker_id.isdecimal():
        raise CorruptFileError(path, "it has no cluster.id or no broker.id")
    return MetaProperties(cluster_id.replace("\\", ""), int(broker_id))


def encode_partition(topic_id: UUID) -> bytes:
    """The content of `partition.metadata`."""
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"version: 0\ntopic_id: {text}".encode()


def decode_partition(data: bytes, path: str) -> UUID:
    """The topic id in `partition.metadata`."""
    lines = data.decode(errors="replace").splitlines()
    if len(lines) != 2 or not lines[0].startswith("version: "):
        raise CorruptFileError(path, "it does not consist of a version and a topic_id")
    key, _, text = lines[1].partition(": ")
    try:
        topic_id = UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (ValueError, binascii.Error) as error:
        raise CorruptFileError(
            path, f"its {key or 'topic_id'} {text[:40]!r} is not an id"
        ) from error
    if key != "topic_id" or not topic_id.int:
        raise CorruptFileError(path, "it has no topic_id")
    return topic_id
