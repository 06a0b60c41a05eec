"""Goes through the log directories of a broker that does not run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.log.checkpoint import TopicPartition
from kavka.log.scan import BatchScanner
from kavka.server.config import BrokerSettings, ConfigError, Given
from kavka.tools.admin.errors import Failed
from kavka.tools.doctor.at_rest.directory import Directory, read_directory
from kavka.tools.doctor.at_rest.fit import judge_directories
from kavka.tools.doctor.at_rest.metadata import judge_metadata
from kavka.tools.doctor.at_rest.partition import STEP as LOGS
from kavka.tools.doctor.at_rest.partition import Partition
from kavka.tools.doctor.at_rest.reading import ReadOnlyFs
from kavka.tools.doctor.at_rest.rehearsal import Kind, rehearse
from kavka.tools.doctor.at_rest.shadow import ShadowFs
from kavka.tools.doctor.at_rest.starts import STEP as START
from kavka.tools.doctor.at_rest.starts import judge_start
from kavka.tools.doctor.findings import Finding, note, ok
from kavka.tools.storage.directories import Directories
from kavka.tools.storage.nodes import ClusterMetadata
from kavka.zktree import paths
from kavka.zktree.storage import has_metadata

ZOOKEEPER: Final = "zookeeper."
"""Prefix of settings without which a start in memory keeps the metadata itself."""
HTTP: Final = "kavka.http.listener"


class Broker(NamedTuple):
    """Whose directories these are."""

    given: Mapping[str, Given]
    """Its settings; only log.dirs, if the directories were given alone."""
    directories: Sequence[str]
    """Absolute paths; first the one with its metadata."""
    is_configured: bool
    """Whether its settings were given."""


def broker_of(fs: ReadOnlyFs, directories: Sequence[str]) -> Broker:
    """The broker of some directories, with the default settings. Failed."""
    found = [fs.absolute(directory).rstrip("/") or "/" for directory in directories]
    for path in found:
        if not fs.is_dir(path):
            raise Failed(f"there is no directory {path}")
        if "," in path:
            raise Failed(f"{path} has a comma in its name: log.dirs can't name it")
    found.sort(key=lambda path: not has_metadata(fs, path))
    found = list(dict.fromkeys(found))
    return Broker({"log.dirs": Given(",".join(found), "")}, found, False)


def configured_broker(fs: ReadOnlyFs, given: Mapping[str, Given]) -> Broker:
    """The broker with these settings. Failed."""
    settings = _settings(given)
    found = [fs.absolute(directory).rstrip("/") or "/" for directory in settings.log_dirs]
    return Broker(given, found, True)


def examine(fs: ReadOnlyFs, broker: Broker, kind: Kind) -> Iterator[Finding]:
    """All findings, as they come. Failed."""
    scanner = BatchScanner()
    found: list[Directory] = []
    for path in broker.directories:
        if not fs.is_dir(path):
            yield note("directory", "new", path, "does not exist: a start makes it")
            continue
        directory = _read(fs, scanner, path)
        found.append(directory)
        yield from directory.findings
        for partition in directory.partitions.values():
            yield from partition.findings
        yield ok(LOGS, path, _summary(directory))
    if not found:
        return
    yield from judge_directories(found)
    first, is_live = found[0].path, any(directory.is_live for directory in found)
    if has_metadata(fs, first):
        logs: dict[TopicPartition, Partition] = {}
        for directory in found:
            logs |= directory.partitions
        yield from judge_metadata(fs, first, logs, is_live=is_live)
    if not is_live:
        yield from _start(fs, broker, found, kind)


def _read(fs: ReadOnlyFs, scanner: BatchScanner, path: str) -> Directory:
    try:
        return read_directory(fs, scanner, path)
    except OSError as failure:
        raise Failed(f"{failure.filename or path} can't be read: {failure.strerror}") from failure


def _summary(directory: Directory) -> str:
    partitions = directory.partitions.values()
    segments = [segment for partition in partitions for segment in partition.segments]
    batches = sum(segment.batches for segment in segments)
    size = sum(segment.size for segment in segments)
    return (
        f"has {len(partitions)} logs with {len(segments)} segments: {batches} whole batches in "
        f"{size / 1e6:.1f} MB"
    )


def _start(
    fs: ReadOnlyFs, broker: Broker, found: Sequence[Directory], kind: Kind
) -> Iterator[Finding]:
    given = {key: value for key, value in broker.given.items() if key != HTTP}
    settings = _settings(given)
    alone = _settings({k: value for k, value in given.items() if not k.startswith(ZOOKEEPER)})
    first = found[0].path
    owner = next((directory.owner for directory in found if directory.owner is not None), None)
    has_own = has_metadata(fs, first)
    shadow = ShadowFs(fs, _now_ms)
    if settings.in_cluster and has_own:  # a start refuses that before it asks ZooKeeper
        yield from judge_start(rehearse(settings, shadow, kind, only_load=True), found)
        return
    if not has_own and owner is not None:
        if not settings.in_cluster:
            refused = rehearse(alone, shadow, kind)
            if refused.failure is None or broker.is_configured:
                yield from judge_start(refused, found)
                return
            shadow = ShadowFs(fs, _now_ms)
            text = f"needs the metadata of its cluster. Alone, a start says: {refused.failure}"
            yield note(START, "other-metadata", first, text)
        _plant(shadow, first, owner.cluster_id)
        yield from judge_start(rehearse(alone, shadow, kind, only_load=True), found)
        return
    yield from judge_start(rehearse(alone, shadow, kind), found)


def _plant(shadow: ShadowFs, path: str, cluster_id: str) -> None:
    """Give a start in memory the metadata of a cluster that has this id and no topic: the logs are
    loaded without knowing of topics."""
    nodes = {"/cluster": None, paths.CLUSTER_ID: paths.encode_cluster_id(cluster_id)}
    with Directories(shadow, [path]) as directories:
        directories.write(ClusterMetadata(nodes, 0), _now_ms())


def _settings(given: Mapping[str, Given]) -> BrokerSettings:
    try:
        return BrokerSettings.of(dict(given))
    except ConfigError as failed:
        raise Failed(str(failed)) from failed


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
