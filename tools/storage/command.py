"""`kavka storage export` and `kavka storage import`.

Between them lies what is carried: Kavka's tree of nodes on one side, ZooKeeper or a file on the
other. The records do not move: Kavka and Apache Kafka 3.9 read and write the same files.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kavka.log.errors import StorageError
from kavka.log.fs import FileSystem, OsFs
from kavka.server.config import BadValue, BrokerSettings, ConfigError, gather, log_settings
from kavka.tools.storage import document
from kavka.tools.storage.directories import Directories
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import Carried, check, summary, topic_configs
from kavka.tools.storage.zookeeper import Broken, ZooKeeper

WARNINGS_MAX: Final = 20
"""Lines of warnings that are printed; the rest is counted."""

ZOOKEEPER_SETTINGS: Final = "zookeeper."
"""Prefix of settings that Apache Kafka's file has and Kavka does not start with."""


class Place(NamedTuple):
    """Where nodes come from or go to besides the log directories; one of the two is None."""

    file: str | None
    zookeeper: str | None

    def __str__(self) -> str:
        return f"ZooKeeper at {self.zookeeper}" if self.file is None else self.file


def export_tree(
    settings: BrokerSettings, fs: FileSystem, place: Place, *, replace: bool
) -> tuple[Carried, list[str]]:
    """Carry the nodes from the log directories; what it was, and warnings. Refused, Broken.

    A file gets a copy. ZooKeeper gets the nodes for good: no Kavka starts there any more.
    """
    with Directories(fs, settings.log_dirs) as directories:
        carried = directories.read()
        warnings = check(carried, directories.held())
        if place.zookeeper is not None:
            with ZooKeeper(place.zookeeper) as zookeeper:
                zookeeper.write(carried, replace=replace)
            directories.retire()
        else:
            assert place.file is not None
            if fs.exists(place.file) and not replace:
                raise Refused(f"{place.file} is there already; --replace it, or take another name")
            try:
                fs.write_atomic(place.file, document.encode(carried), sync=True)
            except OSError as error:
                raise Refused(f"{place.file} can't be written: {error.strerror}") from error
    return carried, warnings


def import_tree(
    settings: BrokerSettings, fs: FileSystem, place: Place, now_ms: int, *, replace: bool
) -> tuple[Carried, list[str]]:
    """Carry the nodes into the log directories; what it was, and warnings. Refused, Broken."""
    with Directories(fs, settings.log_dirs) as directories:
        if directories.has_tree and not replace:
            raise Refused(
                f"{settings.log_dirs[0]} has metadata already; --replace it if "
                "what is to be imported is newer"
            )
        if place.zookeeper is not None:
            with ZooKeeper(place.zookeeper) as zookeeper:
                carried = zookeeper.read()
        else:
            assert place.file is not None
            carried = document.decode(_read(fs, place.file), place.file)
        warnings = check(carried, directories.held())
        check_configs(settings, carried)
        directories.check_formats()
        directories.write(carried, now_ms)
    return carried, warnings


def check_configs(settings: BrokerSettings, carried: Carried) -> None:
    """Refused for a topic with settings that Kavka would not start with."""
    for name, configs in topic_configs(carried.nodes):
        try:
            log_settings(settings, configs)
        except BadValue as error:
            raise Refused(
                f"the configs of topic {name} are not valid in Kavka: {error}. Change them with "
                "kafka-configs while Apache Kafka serves the topic"
            ) from error


def main(
    place: Place,
    *,
    is_import: bool,
    replace: bool,
    config: str | None,
    overrides: Sequence[str],
) -> int:
    """Do it and say so; 1 when it could not be done. `config` and `overrides` are those of the
    broker whose log directories are meant."""
    fs = OsFs()
    try:
        content = b"" if config is None else _read(fs, config)
        settings = _settings(content, config or "server.properties", overrides)
        if is_import:
            now_ms = time.time_ns() // 1_000_000
            moved = import_tree(settings, fs, place, now_ms, replace=replace)
        else:
            moved = export_tree(settings, fs, place, replace=replace)
    except (Refused, Broken, ConfigError, StorageError, OSError) as failure:
        print(f"kavka: {failure}", file=sys.stderr)
        return 1
    carried, warnings = moved
    _print_warnings(warnings)
    here = ", ".join(settings.log_dirs)
    source, target = (str(place), here) if is_import else (here, str(place))
    print(f"{summary(carried)}: from {source} to {target}")
    return 0


def _read(fs: FileSystem, path: str) -> bytes:
    """The file's content. Refused, naming it."""
    try:
        return fs.read_bytes(path)
    except OSError as error:
        raise Refused(f"{path} can't be read: {error.strerror}") from error


def _settings(content: bytes, path: str, overrides: Sequence[str]) -> BrokerSettings:
    """Those of the file, but for what tells Apache Kafka where its ZooKeeper is. ConfigError."""
    given = gather(content, path, os.environ, overrides)
    return BrokerSettings.of(
        {key: one for key, one in given.items() if not key.startswith(ZOOKEEPER_SETTINGS)}
    )


def _print_warnings(warnings: Iterable[str]) -> None:
    lines = list(warnings)
    for line in lines[:WARNINGS_MAX]:
        print(f"kavka: {line}", file=sys.stderr)
    if len(lines) > WARNINGS_MAX:
        print(f"kavka: and {len(lines) - WARNINGS_MAX} more like this", file=sys.stderr)
