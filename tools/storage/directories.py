"""A stopped broker's log directories: their owner, the logs in them, and Kavka's own node tree.

They are locked, so that no broker can use them meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from kavka.log import dir_names as names
from kavka.log.dir_names import MetaProperties
from kavka.log.errors import CorruptFileError
from kavka.log.fs import FileSystem, Lock
from kavka.log.segment import LOG
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ClusterMetadata, DirectoriesState, is_exported
from kavka.wire.record_batches import CURRENT_MAGIC
from kavka.zktree import paths, storage_format
from kavka.zktree.api import NO_SESSION, Create, MultiFailed
from kavka.zktree.storage import LOG_NAME, SNAPSHOT_NAME, Storage, has_metadata, read_tree
from kavka.zktree.storage_format import Corrupt
from kavka.zktree.tree import ROOT, MultiTransaction, Node, Tree

EXPORTED: Final = ".exported"
"""Suffix of the files of a tree that was exported and is no longer used."""

MAGIC_AT: Final = 16
"""Of a message in a segment, whatever its format."""


class Directories:
    """The log directories of one broker, as `log.dirs` lists them. A context manager."""

    def __init__(self, fs: FileSystem, directories: Sequence[str]) -> None:
        self._fs = fs
        self._directories = [directory.rstrip("/") or "/" for directory in directories]
        self._locks: list[Lock] = []

    def __enter__(self) -> Self:
        try:
            for directory in self._directories:
                self._lock(directory)
        except BaseException:
            self._unlock()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._unlock()

    def _lock(self, directory: str) -> None:
        if not self._fs.is_dir(directory):
            raise Refused(f"there is no directory {directory}; see log.dirs")
        try:
            self._locks.append(self._fs.lock(f"{directory}/{names.LOCK_FILE}"))
        except BlockingIOError as error:
            raise Refused(f"a broker is using {directory}: stop it first") from error

    def _unlock(self) -> None:
        while self._locks:
            self._locks.pop().release()

    # --- their content

    def state(self) -> DirectoriesState:
        """Their owner and the logs in them. Refused when that can't be determined."""
        try:
            metas = [meta for meta in map(self._meta, self._directories) if meta is not None]
        except CorruptFileError as error:
            raise Refused(str(error)) from error
        if any(meta != metas[0] for meta in metas):
            owners = dict.fromkeys(
                f"{meta.broker_id} of cluster {meta.cluster_id}" for meta in metas
            )
            raise Refused(f"the log directories belong to brokers {', '.join(owners)}")
        logs: dict[tuple[str, int], UUID | None] = {}
        for directory in self._directories:
            for name in self._fs.list_dir(directory):
                path = f"{directory}/{name}"
                if names.is_deleted(name) or not self._fs.is_dir(path):
                    continue
                key = names.parse_log_name(name, directory)
                if key is not None:
                    logs[key] = self._topic_id(path)
        if not metas:
            return DirectoriesState(None, None, logs)
        return DirectoriesState(metas[0].cluster_id, metas[0].broker_id, logs)

    def _meta(self, directory: str) -> MetaProperties | None:
        path = f"{directory}/{names.META_FILE}"
        if not self._fs.exists(path):
            return None
        return names.decode_meta(self._fs.read_bytes(path), path)

    def check_formats(self) -> None:
        """Refused when a segment begins with messages as Kafka before 0.11 wrote them.

        Newer formats can only follow older ones, so checking the first message is enough.
        """
        for directory in self._directories:
            for log in self._fs.list_dir(directory):
                path = f"{directory}/{log}"
                if names.is_deleted(log) or not self._fs.is_dir(path):
                    continue
                for name in self._fs.list_dir(path):
                    if name.endswith(LOG):
                        self._check_format(f"{path}/{name}")

    def _check_format(self, segment: str) -> None:
        start = self._fs.open(segment).pread(MAGIC_AT + 1, 0)
        if len(start) > MAGIC_AT and start[MAGIC_AT] < CURRENT_MAGIC:
            raise Refused(
                f"{segment} has messages of format {start[MAGIC_AT]}, of Kafka before 0.11: Kavka "
                "reads format 2. Copy the topic to a new one with Apache Kafka first"
            )

    def _topic_id(self, log: str) -> UUID | None:
        path = f"{log}/{names.PARTITION_FILE}"
        try:
            return names.decode_partition(self._fs.read_bytes(path), path)
        except (FileNotFoundError, CorruptFileError):  # a broker recreates it
            return None

    # --- Kavka's tree

    @property
    def has_tree(self) -> bool:
        """Whether there is metadata of a Kavka broker here. Refused when it is damaged."""
        return self._nodes() is not None

    def _nodes(self) -> dict[str, Node] | None:
        nodes = self._tree().copy_nodes() if self._has_files else {}
        return (
            nodes if len(nodes) > 1 else None
        )  # a broker that refused to start leaves only the root

    @property
    def _has_files(self) -> bool:
        return has_metadata(self._fs, self._directories[0])

    def read(self) -> ClusterMetadata:
        """The metadata to export. Refused when there is none, or it is damaged."""
        nodes = self._nodes()
        if nodes is None:
            raise Refused(
                f"there is no metadata in {self._directories[0]}, the first in log.dirs: no Kavka "
                "has used it, or it has been exported"
            )
        kept = {
            path: nodes[path].data
            for path in sorted(nodes)  # by name, a parent comes before its children
            if is_exported(path) and nodes[path].ephemeral_owner == NO_SESSION
        }
        sequence = nodes.get(paths.BROKER_SEQUENCE)
        return ClusterMetadata(kept, 0 if sequence is None else sequence.version)

    def _tree(self) -> Tree:
        storage = Storage(self._fs, self._directories[0])
        try:
            return read_tree(storage)
        except Corrupt as error:
            raise Refused(
                f"{error}; to import other metadata, remove the two files first"
            ) from error
        finally:
            storage.close()

    def mark_exported(self) -> None:
        """Rename the tree's files: from now on the metadata is maintained elsewhere, and a broker
        that used this copy would miss later changes."""
        first = self._directories[0]
        # the snapshot first: a log alone is not read as a tree
        for name in (SNAPSHOT_NAME, LOG_NAME):
            if self._fs.exists(f"{first}/{name}"):
                self._fs.rename(f"{first}/{name}", f"{first}/{name}{EXPORTED}")
                self._fs.sync_dir(first)

    def write(self, metadata: ClusterMetadata, now_ms: int) -> None:
        """Replace the tree by the imported nodes, atomically. Refused, OSError."""
        # Everything in the old log has a lower zxid, so it is skipped if the power fails before
        # the log is replaced.
        has_files = self._has_files
        zxid = self._tree().zxid + 1 if has_files else 1
        nodes = _new_nodes(metadata, zxid, now_ms)
        content = [storage_format.encode_snapshot_start(zxid, len(nodes))]
        content += [storage_format.encode_node(path, node) for path, node in nodes.items()]
        storage = Storage(self._fs, self._directories[0])
        if not has_files:
            storage.read()  # creates a log: a snapshot without one counts as damaged
        storage.replace_log(content)
        storage.close()


def _new_nodes(metadata: ClusterMetadata, zxid: int, now_ms: int) -> dict[str, Node]:
    creates = [Create(path, data) for path, data in metadata.nodes.items() if path != ROOT]
    tree = Tree()
    try:
        tree.execute(MultiTransaction(zxid, now_ms, NO_SESSION, creates))
    except MultiFailed as failed:
        path = creates[failed.index].path
        raise Refused(f"{path} can't be made: {failed.cause!r}") from failed
    nodes = tree.copy_nodes()
    if paths.BROKER_SEQUENCE in nodes:
        counted = nodes[paths.BROKER_SEQUENCE]._replace(version=metadata.broker_sequence)
        nodes[paths.BROKER_SEQUENCE] = counted
    return nodes
