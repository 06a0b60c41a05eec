"""`kavka storage`: as Apache Kafka's kafka-storage, option by option, and two commands that move
what a cluster knows from and to Apache Kafka."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from typing import Final

from kavka.log.dir_names import new_directory_id
from kavka.log.fs import OsFs
from kavka.server.config import BrokerSettings, ConfigError, gather
from kavka.server.config import Given as Setting
from kavka.tools.admin.cluster_client import ClusterClient
from kavka.tools.admin.command import Tool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.features import print_dependencies, print_mapping
from kavka.tools.admin.options import Given, Option, SubCommand
from kavka.tools.admin.printing import print_csv
from kavka.tools.storage.command import OpenSession, main
from kavka.tools.storage.formatting import FormatOptions, format_directories, levels_of
from kavka.tools.storage.owners import look, print_info

CONFIG: Final = Option(
    "config", "A server.properties file, as Apache Kafka reads it.", "FILE", short="c"
)
OVERRIDE: Final = Option(
    "override",
    "One setting, over file and environment; may be given many times.",
    "KEY=VALUE",
    is_repeated=True,
)
FORMAT: Final = (
    CONFIG,
    OVERRIDE,
    Option("cluster-id", "The id of the cluster.", "ID", short="t", is_required=True),
    Option("add-scram", "Refused: Kavka keeps no SCRAM credentials yet.", "TEXT", short="S"),
    Option("ignore-formatted", "Skip directories that are formatted already.", short="g"),
    Option(
        "release-version",
        "The release of Apache Kafka whose levels features get; metadata.version is always the "
        "newest.",
        "RELEASE",
        short="r",
    ),
    Option(
        "feature",
        "FEATURE=LEVEL, as group.version=0; may be given many times.",
        "TEXT",
        short="f",
        is_repeated=True,
    ),
    Option("standalone", "Without effect: Kavka's controller is in the broker.", short="s"),
    Option("no-initial-controllers", "Without effect.", short="N"),
    Option("initial-controllers", "Refused: there is no KRaft quorum.", "TEXT", short="I"),
)
MOVE: Final = (
    Option(
        "zookeeper",
        "The other place, as zookeeper.connect of Apache Kafka 3.9 has it.",
        "HOST:PORT[/PATH]",
    ),
    Option("file", "The other place, a file of JSON.", "FILE"),
    Option("replace", "Remove what is at the destination already."),
    CONFIG,
    OVERRIDE,
)


def storage_tool(open_session: OpenSession) -> Tool:
    """The tool; `open_session` opens one with ZooKeeper."""

    def move(given: Given) -> int:
        assert given.command is not None
        return main(
            given.last("file"),
            given.last("zookeeper"),
            open_session,
            is_import=given.command.name == "import",
            replace=given.has("replace"),
            config=given.last("config"),
            overrides=list(given.texts("override")),
        )

    return Tool(
        "storage",
        "Look at log directories, format them, and move them from and to Apache Kafka.",
        (),
        check,
        _no_cluster,
        commands=(
            SubCommand("info", "Print whose the log directories are.", (CONFIG, OVERRIDE), _info),
            SubCommand(
                "format",
                "Make log directories a broker's, before its first start.",
                FORMAT,
                _format,
                text_only=True,
            ),
            SubCommand("random-uuid", "Print a random id.", (), _random_uuid),
            SubCommand(
                "version-mapping",
                "Print the levels of features that belong to a release of Apache Kafka.",
                (Option("release-version", "The newest if left out.", "RELEASE", short="r"),),
                print_mapping,
            ),
            SubCommand(
                "feature-dependencies",
                "Print what levels of features need.",
                (
                    Option(
                        "feature",
                        "FEATURE=LEVEL; may be given many times.",
                        "TEXT",
                        short="f",
                        is_required=True,
                        is_repeated=True,
                    ),
                ),
                print_dependencies,
            ),
            SubCommand(
                "export",
                "Move what Kavka knows of topics and settings to ZooKeeper, or copy it to a file.",
                MOVE,
                move,
                text_only=True,
            ),
            SubCommand(
                "import",
                "Copy what ZooKeeper or a file knows of topics and settings to log directories.",
                MOVE,
                move,
                text_only=True,
            ),
        ),
    )


def check(given: Given) -> None:
    """Refuse what does not go together."""
    name = "" if given.command is None else given.command.name
    if name in ("info", "format") and not given.has("config") and not given.has("override"):
        raise Misused("argument --config is required")
    if name in ("export", "import"):
        given.excludes("file", ["zookeeper"])
        if not given.has("file") and not given.has("zookeeper"):
            raise Misused("one of the arguments --zookeeper --file is required")
    for text in given.texts("override"):
        if "=" not in text.lstrip("="):
            raise Misused(f"{text!r} is not of the form key=value")
    quorum = ("standalone", "no-initial-controllers", "initial-controllers")
    for option in quorum:
        given.excludes(option, [other for other in quorum if other != option])


async def _no_cluster(_: ClusterClient, __: Given) -> int:
    raise AssertionError("each command runs alone")


def _info(given: Given) -> int:
    return print_info(look(OsFs(), _settings(given).log_dirs), given.last("output"))


def _format(given: Given) -> int:
    if given.has("add-scram"):
        raise Failed("Kavka keeps no SCRAM credentials yet: leave --add-scram out")
    if given.has("initial-controllers"):
        raise Failed("Kavka has no KRaft quorum: leave --initial-controllers out")
    settings = _settings(given)
    levels = levels_of(given.last("release-version"), given.texts("feature"))
    if settings.in_cluster and levels:
        raise Failed("features of a cluster are set while it runs: kavka features upgrade")
    if settings.broker_id < 0:
        raise Failed("node.id must be set: the directories become those of that broker")
    cluster_id = given.last("cluster-id") or ""
    options = FormatOptions(cluster_id, settings.broker_id, levels, given.has("ignore-formatted"))
    try:
        format_directories(
            settings, OsFs(), options, random.SystemRandom(), time.time_ns() // 1_000_000
        )
    except OSError as failed:
        raise Failed(f"{failed.filename or ''} can't be written: {failed.strerror}") from failed
    return 0


def _random_uuid(given: Given) -> int:
    text = new_directory_id(random.SystemRandom())
    form = given.last("output")
    if form == "json":
        print(json.dumps({"uuid": text}))
    elif form == "csv":
        print_csv(["uuid"], [[text]])
    else:
        print(text)
    return 0


def _settings(given: Given) -> BrokerSettings:
    """The broker's. Failed."""
    path = given.last("config")
    try:
        content = b"" if path is None else OsFs().read_bytes(path)
        found: Mapping[str, Setting] = gather(
            content, path or "", os.environ, given.texts("override")
        )
        return BrokerSettings.of(dict(found))
    except ConfigError as failed:
        raise Failed(str(failed)) from failed
    except OSError as failed:
        raise Failed(f"{path} can't be read: {failed.strerror}") from failed
