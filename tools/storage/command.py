"""`kavka storage export` and `kavka storage import`.

They copy the cluster's metadata between Kavka's node tree in the log directories and ZooKeeper or
a file. The records do not move: Kavka and Apache Kafka 3.9 read and write the same log files.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, NamedTuple

from kavka.log.errors import StorageError
from kavka.log.fs import FileSystem, OsFs
from kavka.server.config import (
    BadValue,
    BrokerSettings,
    ConfigError,
    Given,
    gather,
    log_settings,
)
from kavka.tools.storage import document
from kavka.tools.storage.directories import Directories
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ClusterMetadata, check, summary, topic_configs
from kavka.tools.storage.zookeeper import ZooKeeper, ZooKeeperFailed
from kavka.zktree.api import Coordination

WARNINGS_MAX: Final = 20
"""Warnings that are printed; the rest are only counted."""

ZOOKEEPER_SETTINGS: Final = "zookeeper."
"""Prefix of the settings that say how to talk with ZooKeeper: with them the log directories would
be a cluster's."""

OpenSession = Callable[[Mapping[str, Given], str], AbstractAsyncContextManager[Coordination]]
"""Opens a session with ZooKeeper: takes the settings of a broker by key, and what to use as
`zookeeper.connect`. ConfigError; OSError if no server lets it in."""


class ExternalStore(NamedTuple):
    """The file or ZooKeeper that is imported from or exported to; one of the two is None."""

    file: str | None
    zookeeper: ZooKeeper | None

    def __str__(self) -> str:
        if self.zookeeper is not None:
            return f"ZooKeeper at {self.zookeeper.connect}"
        return self.file or ""


def export_tree(
    settings: BrokerSettings, fs: FileSystem, store: ExternalStore, *, replace: bool
) -> tuple[ClusterMetadata, list[str]]:
    """Export the nodes of the log directories; what was exported, and warnings.

    A file gets a copy. After an export to ZooKeeper, Kavka no longer starts on these log
    directories. Refused, ZooKeeperFailed.
    """
    with Directories(fs, settings.log_dirs) as directories:
        metadata = directories.read()
        warnings = check(metadata, directories.state())
        if store.zookeeper is not None:
            asyncio.run(store.zookeeper.write(metadata, replace=replace))
            directories.mark_exported()
        else:
            assert store.file is not None
            if fs.exists(store.file) and not replace:
                raise Refused(f"{store.file} is there already; --replace it, or take another name")
            try:
                fs.write_atomic(store.file, document.encode(metadata), sync=True)
            except OSError as error:
                raise Refused(f"{store.file} can't be written: {error.strerror}") from error
    return metadata, warnings


def import_tree(
    settings: BrokerSettings, fs: FileSystem, store: ExternalStore, now_ms: int, *, replace: bool
) -> tuple[ClusterMetadata, list[str]]:
    """Import the nodes into the log directories; what was imported, and warnings.

    Refused, ZooKeeperFailed.
    """
    with Directories(fs, settings.log_dirs) as directories:
        if directories.has_tree and not replace:
            raise Refused(
                f"{settings.log_dirs[0]} has metadata already; --replace it if "
                "what is to be imported is newer"
            )
        if store.zookeeper is not None:
            metadata = asyncio.run(store.zookeeper.read())
        else:
            assert store.file is not None
            metadata = document.decode(_read(fs, store.file), store.file)
        warnings = check(metadata, directories.state())
        check_configs(settings, metadata)
        directories.check_formats()
        directories.write(metadata, now_ms)
    return metadata, warnings


def check_configs(settings: BrokerSettings, metadata: ClusterMetadata) -> None:
    """Refused for a topic with configs that Kavka would not start with."""
    for name, configs in topic_configs(metadata.nodes):
        try:
            log_settings(settings, configs)
        except BadValue as error:
            raise Refused(
                f"the configs of topic {name} are not valid in Kavka: {error}. Change them with "
                "kafka-configs while Apache Kafka serves the topic"
            ) from error


def main(
    file: str | None,
    zookeeper: str | None,
    open_session: OpenSession,
    *,
    is_import: bool,
    replace: bool,
    config: str | None,
    overrides: Sequence[str],
) -> int:
    """Run the import or export and print a summary; the exit code, 1 on failure.

    One of `file` and `zookeeper` (as `zookeeper.connect`) is given. `config` and `overrides` are
    those of the broker that owns the log directories.
    """
    fs = OsFs()
    try:
        content = b"" if config is None else _read(fs, config)
        given = gather(content, config or "server.properties", os.environ, overrides)
        settings = _without_zookeeper(given)
        store = ExternalStore(file, None)
        if zookeeper is not None:
            store = ExternalStore(None, ZooKeeper(zookeeper, partial(open_session, given)))
        if is_import:
            now_ms = time.time_ns() // 1_000_000
            moved = import_tree(settings, fs, store, now_ms, replace=replace)
        else:
            moved = export_tree(settings, fs, store, replace=replace)
    except (Refused, ZooKeeperFailed, ConfigError, StorageError, OSError) as failure:
        print(f"kavka: {failure}", file=sys.stderr)
        return 1
    metadata, warnings = moved
    _print_warnings(warnings)
    here = ", ".join(settings.log_dirs)
    source, target = (str(store), here) if is_import else (here, str(store))
    print(f"{summary(metadata)}: from {source} to {target}")
    return 0


def _read(fs: FileSystem, path: str) -> bytes:
    """The file's content. Refused, naming it."""
    try:
        return fs.read_bytes(path)
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from error


def _without_zookeeper(given: Mapping[str, Given]) -> BrokerSettings:
    """The settings of a broker that keeps its metadata itself. ConfigError."""
    return BrokerSettings.of(
        {key: value for key, value in given.items() if not key.startswith(ZOOKEEPER_SETTINGS)}
    )


def _print_warnings(warnings: Iterable[str]) -> None:
    lines = list(warnings)
    for line in lines[:WARNINGS_MAX]:
        print(f"kavka: {line}", file=sys.stderr)
    if len(lines) > WARNINGS_MAX:
        print(f"kavka: and {len(lines) - WARNINGS_MAX} more like this", file=sys.stderr)
