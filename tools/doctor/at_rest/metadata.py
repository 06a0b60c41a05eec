"""Reads what Kavka's own coordination service has stored beside the logs, and compares it with
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

from kavka.log.checkpoint import TopicPartition
from kavka.log.fs import FileSystem
from kavka.tools.doctor.at_rest.partition import Partition
from kavka.tools.doctor.findings import Finding, error, note, ok, warning
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import topics
from kavka.wire.steps import run_at_once
from kavka.zktree import paths
from kavka.zktree.storage import LOG_NAME, SNAPSHOT_NAME, TreeLoading
from kavka.zktree.storage_format import Corrupt
from kavka.zktree.tree import Node

STEP: Final = "metadata"
RESTORE: Final = (
    "restore both files from a copy of the same moment; without one, `kavka storage import` takes "
    "the metadata from a file of `kavka storage export`"
)


def judge_metadata(
    fs: FileSystem, path: str, logs: Mapping[TopicPartition, Partition], *, is_live: bool
) -> Iterator[Finding]:
    """What is wrong with the metadata in a log directory, or does not fit the broker's logs."""
    snapshot_path, log_path = f"{path}/{SNAPSHOT_NAME}", f"{path}/{LOG_NAME}"
    has_snapshot = fs.exists(snapshot_path)
    if not fs.exists(log_path):
        found = f"is missing beside {SNAPSHOT_NAME}: the newest changes are lost"
        yield error(STEP, "damaged-metadata", log_path, found, RESTORE)
        return
    loading = TreeLoading(
        path, fs.read_bytes(snapshot_path) if has_snapshot else None, fs.read_bytes(log_path)
    )
    try:
        run_at_once(loading.steps())
    except Corrupt as damage:
        yield error(STEP, "damaged-metadata", log_path, f"can't be used: {damage}", RESTORE)
        return
    if loading.torn_bytes and not is_live:
        yield warning(
            STEP,
            "torn-metadata",
            log_path,
            f"ends with {loading.torn_bytes} bytes of a change that was not completed",
            "nothing, if its broker was killed: no client has had a response",
        )
    nodes = loading.tree.copy_nodes()
    yield ok(STEP, path, f"has {len(nodes)} nodes of metadata, up to change {loading.tree.zxid}")
    yield from _judge_topics(path, nodes, logs, is_live=is_live)


def _judge_topics(
    path: str,
    nodes: Mapping[str, Node],
    logs: Mapping[TopicPartition, Partition],
    *,
    is_live: bool,
) -> Iterator[Finding]:
    assigned: dict[TopicPartition, None] = {}
    try:
        for name, assignment in topics({at: node.data for at, node in nodes.items()}):
            for index in assignment.replicas:
                assigned[name, index] = None
                partition = logs.get((name, index))
                if partition is not None:
                    yield from _judge_id(partition, assignment.topic_id)
                elif not is_live and _was_used(nodes, name, index):
                    yield error(
                        STEP,
                        "missing-log",
                        f"{name}-{index}",
                        "has no directory: its records are lost, and a start begins it empty",
                        "mount or restore the directory before the start; give all of log.dirs "
                        "to this command",
                    )
    except Refused as failed:
        yield error(STEP, "damaged-metadata", path, f"has a topic that can't be read: {failed}", "")
        return
    for key, partition in logs.items():
        if key not in assigned and not is_live:
            found = "belongs to no topic of the metadata: a start leaves it alone"
            yield note(STEP, "log-without-topic", partition.path, found)


def _was_used(nodes: Mapping[str, Node], topic: str, index: int) -> bool:
    """Whether a leader was elected, so that there must be a log."""
    return paths.partition_state(topic, index) in nodes


def _judge_id(partition: Partition, topic_id: UUID | None) -> Iterator[Finding]:
    found = partition.topic_id
    if found is not None and topic_id is not None and found != topic_id:
        yield error(
            STEP,
            "wrong-topic-id",
            partition.path,
            f"is a log of another topic of that name: its id is {paths.uuid_text(found)}, not "
            f"{paths.uuid_text(topic_id)}",
            "move it away, if that topic was deleted: the partition begins empty",
        )
