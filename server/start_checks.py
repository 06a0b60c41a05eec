"""What must be so before a broker may use its log directories: they belong to it and to its
cluster, whose metadata is there, on its own disk or in ZooKeeper."""

from __future__ import annotations

from kavka.log.dir_names import MetaProperties
from kavka.log.fs import FileSystem
from kavka.log.manager import LogManager
from kavka.server.config import BrokerSettings
from kavka.zktree.api import Coordination
from kavka.zktree.paths import CLUSTER_ID
from kavka.zktree.storage import has_metadata


class StartError(Exception):
    """The broker can't start; the message says why and what to do."""


def check_metadata_directory(settings: BrokerSettings, logs: LogManager, fs: FileSystem) -> None:
    """StartError if the first log directory, which has a standalone broker's metadata, has failed;
    or if a broker of a cluster finds a standalone broker's metadata there."""
    first = settings.log_dirs[0]
    failure = logs.failed_directories.get(logs.directories[0])
    if not settings.in_cluster:
        if failure is not None:
            raise StartError(
                f"{first}, the first in log.dirs, holds the cluster's metadata and can't be used: "
                f"{failure}"
            )
    elif failure is None and has_metadata(fs, first):
        raise StartError(
            f"{first} has the metadata of a broker without ZooKeeper: carry it to ZooKeeper with "
            f"`kavka storage export --zookeeper {settings.zookeeper_connect}`, or remove "
            "zookeeper.connect"
        )


def refuse_foreign_directories(
    settings: BrokerSettings, logs: LogManager, fs: FileSystem, meta: MetaProperties | None
) -> None:
    """Of a broker that keeps the metadata itself: StartError if the directories belong to a cluster
    whose metadata is not in the first of them. Nothing has been written there yet: its disk may not
    be mounted."""
    if meta is None or has_metadata(fs, settings.log_dirs[0]):
        return
    raise _no_metadata(settings, logs, meta)


async def refuse_foreign_logs(
    settings: BrokerSettings,
    logs: LogManager,
    coordination: Coordination,
    meta: MetaProperties | None,
) -> None:
    """StartError if the directories belong to a cluster whose metadata is not here, such as Apache
    Kafka's."""
    if meta is None or await coordination.exists(CLUSTER_ID) is not None:
        return
    if settings.in_cluster:
        raise StartError(
            f"{settings.log_dirs[0]} belongs to cluster {meta.cluster_id}, but ZooKeeper at "
            f"{settings.zookeeper_connect} has none: correct zookeeper.connect, or use another "
            "directory in log.dirs"
        )
    raise _no_metadata(settings, logs, meta)


def _no_metadata(settings: BrokerSettings, logs: LogManager, meta: MetaProperties) -> StartError:
    first = settings.log_dirs[0]
    if logs.absolute(first) in logs.unclaimed_directories:
        return StartError(
            f"{first}, the first in log.dirs, has neither meta.properties nor metadata, but "
            f"others in log.dirs belong to cluster {meta.cluster_id}: is a disk not mounted? "
            "Mount it or restore the directory, or make the previous first directory the first "
            "in log.dirs again"
        )
    return StartError(
        f"{first} belongs to cluster {meta.cluster_id}, but has no metadata of its topics. "
        "Kavka keeps the metadata in the first of log.dirs: was another one first before? "
        "Apache Kafka keeps it in ZooKeeper: set zookeeper.connect, or import it from there with "
        "`kavka storage import`. Logs of a KRaft broker can't be used: choose another directory"
    )


def check_meta(
    settings: BrokerSettings, found: MetaProperties | None, ours: MetaProperties
) -> None:
    """StartError unless the directories, whose meta.properties are `found`, are this broker's."""
    if found is None or found == ours:
        return
    remedy = "set broker.id, or use another directory in log.dirs"
    if settings.in_cluster and found.cluster_id != ours.cluster_id:
        remedy = "correct zookeeper.connect, or use another directory in log.dirs"
    raise StartError(
        f"{settings.log_dirs[0]} belongs to broker {found.broker_id} of cluster "
        f"{found.cluster_id}, this is broker {ours.broker_id} of cluster {ours.cluster_id}; "
        f"{remedy}"
    )
