"""`kavka storage format`: makes log directories a broker's, with a cluster's id, before its start.

A standalone broker's metadata begins with that id, and with the levels of features. In a cluster
both are in ZooKeeper, so that only the directories are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kavka.log.dir_names import META_FILE, MetaProperties
from kavka.log.errors import StorageError
from kavka.log.fs import FileSystem
from kavka.log.log_dir import LogDirectory
from kavka.seams import Random
from kavka.server.config import BrokerSettings
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.feature_levels import (
    FEATURES,
    LATEST,
    METADATA,
    METADATA_VERSIONS,
    metadata_level,
)
from kavka.tools.admin.features import name_and_level
from kavka.tools.admin.java_order import hash_order
from kavka.tools.storage.directories import Directories
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ClusterMetadata
from kavka.tools.storage.owners import KRAFT, Owner, read_owner
from kavka.zktree import paths

KEPT: Final = ("group.version", "transaction.version")
"""The features whose levels Kavka keeps."""

RELEASE: Final = METADATA_VERSIONS[LATEST]


class FormatOptions(NamedTuple):
    """What the directories are to become."""

    cluster_id: str
    broker_id: int
    levels: Mapping[str, int]
    """Of the features that were named, of those that Kavka keeps."""
    skips_formatted: bool


def levels_of(release: str | None, features: Sequence[str]) -> dict[str, int]:
    """The levels that a command line asks for, of the features that Kavka keeps. Failed."""
    requested: dict[str, int] = dict(map(name_and_level, features))
    if METADATA in requested and release is not None:
        raise Failed(f"Use --release-version instead of --feature {METADATA}=X to avoid ambiguity.")
    metadata = requested.pop(METADATA, LATEST)
    if metadata not in METADATA_VERSIONS:
        raise Failed(f"No MetadataVersion with feature level {metadata}.")
    if release is not None:
        metadata = metadata_level(release)
    if metadata > LATEST:
        raise Failed(f"{METADATA} {METADATA_VERSIONS[metadata]} is not yet stable.")
    known = {feature.name: feature for feature in FEATURES}
    for name, level in requested.items():
        if name not in known:
            raise Failed(f"Unsupported feature: {name}. Supported features are: {', '.join(KEPT)}")
        if not 0 <= level < len(known[name].since):
            raise Failed(f"No feature:{name} with feature level {level}")
        if level and name not in KEPT:
            raise Failed(f"Kavka does not have {name}: leave --feature {name}={level} out.")
    named = {name: level for name, level in requested.items() if name in KEPT}
    if metadata == LATEST:
        return named
    return {name: known[name].default(metadata) for name in KEPT} | named


def format_directories(
    settings: BrokerSettings, fs: FileSystem, options: FormatOptions, random: Random, now_ms: int
) -> None:
    """Format those that are not formatted yet, and say so. Failed, OSError."""
    owners: dict[str, Owner | None] = {}
    for directory in sorted(set(settings.log_dirs)):
        if fs.exists(directory) and not fs.is_dir(directory):
            print(f"I/O error trying to read log directory {directory}. Ignoring...")
        else:
            owners[directory] = read_owner(fs, directory)
    _check(owners, options)
    if not owners:
        raise Failed("No available log directories to format.")
    empty = [directory for directory, owner in owners.items() if owner is None]
    if not empty:
        print("All of the log directories are already formatted.")
        return
    first = settings.log_dirs[0]
    is_alone = not settings.in_cluster
    if is_alone and first not in owners:
        raise Failed(f"{first}, the first in log.dirs, is to have the metadata: correct log.dirs")
    if is_alone:
        print(_bootstrap({**_defaults(settings), **options.levels}))
    for directory in hash_order(empty):
        kind = "metadata directory" if is_alone and directory == first else "data directory"
        print(f"Formatting {kind} {directory} with {METADATA} {RELEASE}.")
        _format(fs, directory, options, random, now_ms if kind == "metadata directory" else None)


def _check(owners: Mapping[str, Owner | None], options: FormatOptions) -> None:
    """Failed for a directory of somebody else's, or one that is formatted already."""
    for directory, owner in owners.items():
        path = f"{directory}/{META_FILE}"
        if owner is None:
            continue
        if owner.cluster_id != options.cluster_id:
            raise Failed(
                f"Invalid cluster.id in: {path}. Expected {options.cluster_id}, but read "
                f"{owner.cluster_id}"
            )
        if owner.node_id != str(options.broker_id):
            raise Failed(
                f"Stored node id {owner.node_id} doesn't match previous node id "
                f"{options.broker_id} in {path}: correct node.id, or use other directories"
            )
        if owner.version == KRAFT:
            raise Failed(
                f"{directory} is formatted for a cluster in KRaft mode, which Kavka can't use: "
                "name another directory in log.dirs"
            )
    taken = [directory for directory, owner in owners.items() if owner is not None]
    if taken and not options.skips_formatted:
        raise Failed(
            f"Log directory {taken[0]} is already formatted. Use --ignore-formatted to ignore "
            "this directory and format the others."
        )


def _format(
    fs: FileSystem, path: str, options: FormatOptions, random: Random, now_ms: int | None
) -> None:
    """Make a directory the broker's; `now_ms`: its metadata begins there, at this time."""
    directory = LogDirectory(fs, path)
    try:
        directory.open()
        directory.unlock()
        if now_ms is not None:  # first, as `meta.properties` alone would be of another broker
            _begin_metadata(fs, path, options, now_ms)
        directory.claim(MetaProperties(options.cluster_id, options.broker_id), random)
    except (StorageError, Refused) as failed:
        raise Failed(str(failed)) from failed
    finally:
        directory.unlock()


def _begin_metadata(fs: FileSystem, path: str, options: FormatOptions, now_ms: int) -> None:
    nodes: dict[str, bytes | None] = {"/cluster": None}
    nodes[paths.CLUSTER_ID] = paths.encode_cluster_id(options.cluster_id)
    if options.levels:
        nodes[paths.FEATURE] = paths.encode_features(options.levels)
    with Directories(fs, [path]) as directories:
        if directories.has_tree:
            raise Failed(
                f"{path} has the metadata of a Kavka broker, though no {META_FILE}: restore that "
                "file from a copy, or use another directory"
            )
        directories.write(ClusterMetadata(nodes, 0), now_ms)


def _defaults(settings: BrokerSettings) -> dict[str, int]:
    levels = (settings.group_version, settings.kavka_transaction_version)
    return dict(zip(KEPT, levels, strict=True))


def _bootstrap(levels: Mapping[str, int]) -> str:
    """The metadata that a broker begins with, as Apache Kafka prints its own."""
    records = ", ".join(_records({METADATA: LATEST} | dict(sorted(levels.items()))))
    return (
        f"Bootstrap metadata: BootstrapMetadata(records=[{records}], "
        f"metadataVersionLevel={LATEST}, source=format command)"
    )


def _records(levels: Mapping[str, int]) -> Iterable[str]:
    return (
        f"ApiMessageAndVersion(FeatureLevelRecord(name='{name}', featureLevel={level}) at version "
        "0)"
        for name, level in levels.items()
        if level
    )
