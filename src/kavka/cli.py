"""The `kavka` command: one table of commands, of which only the chosen one's code is imported.

So `kavka --help` costs little more than the interpreter's own start. What a command does lives in
its own module; here are its name, its options and the call.

Exit codes: 0 done, 1 the command failed, 2 it was called wrongly (with a line that says how).
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kavka import __version__


class Command(NamedTuple):
    """One row of the table."""

    name: str
    summary: str
    """One line for `kavka --help`, lower case, without a full stop."""
    description: str
    """What `kavka NAME --help` prints above the options."""
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int] | None = None
    """Imports the command's module, calls it, returns the exit code. None if it has `commands`."""
    commands: tuple[Command, ...] = ()
    """The subcommands; one of them is required."""
    parse: Callable[[Sequence[str]], int] | None = None
    """Instead of `run`: parses what follows the name itself, with --help, and runs it. For options
    that come from code which other commands should not import."""


def _setting(text: str) -> str:
    """Check that an `--override` has the form key=value."""
    key, equals, _ = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return text


def _add_settings_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a server.properties file as Apache Kafka reads it",
    )
    _add_override_option(parser, "one setting, over file and environment; may be given many times")


def _add_override_option(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument(
        "--override", metavar="KEY=VALUE", type=_setting, action="append", default=[], help=text
    )


LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def _level(text: str) -> str:
    """Check that a `--log-level` has the form [LOGGER=]LEVEL."""
    if text.rpartition("=")[2].upper() not in LEVELS:
        raise argparse.ArgumentTypeError(f"{text!r} has none of the levels {', '.join(LEVELS)}")
    return text


def _add_level_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-level",
        metavar="[LOGGER=]LEVEL",
        type=_level,
        action="append",
        default=[],
        help=f"log from this level on ({', '.join(LEVELS)}; INFO by default), for all loggers or "
        "for one and those below it, as kavka.request=DEBUG; may be given many times",
    )


def _add_start_options(parser: argparse.ArgumentParser) -> None:
    _add_settings_options(parser)
    _add_level_option(parser)
    parser.add_argument(
        "--log-file",
        metavar="FILE",
        help="append log lines to this file instead of standard error; reopened if it is moved",
    )


def _missing(failure: ImportError) -> str:
    """The message for a missing dependency of Kavka, as after `pip install --no-deps`; "" for
    another error."""
    if failure.name == "kafka":  # the code that imports it has its own message
        return str(failure)
    own = (failure.name or "").partition(".")[0] == "kavka"
    if own or not isinstance(failure, ModuleNotFoundError):
        return ""
    return f"{failure}: install what Kavka depends on (`pip check` lists what is missing)"


def _start(arguments: argparse.Namespace) -> int:
    gc.disable()  # imported modules stay; the broker enables it
    try:
        from kavka.server.main import main as start_broker
    except ImportError as failure:
        missing = _missing(failure)
        if not missing:
            raise
        print(f"kavka: {missing}", file=sys.stderr)
        return 1

    return start_broker(
        arguments.config, arguments.override, arguments.log_level, arguments.log_file
    )


def _count(text: str) -> int:
    """A number from 1 on."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _add_dev_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--brokers", metavar="N", type=_count, default=3, help="how many brokers; 3 by default"
    )
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=_count,
        default=9092,
        help="the first broker's port, 9092 by default; the next ones are the others'",
    )
    _add_override_option(parser, "one setting of all brokers; may be given many times")
    _add_level_option(parser)


def _dev(arguments: argparse.Namespace) -> int:
    from kavka.testing.dev import main as run_cluster

    return run_cluster(
        arguments.brokers, arguments.port, arguments.override, arguments.log_level or ["WARN"]
    )


def _add_storage_options(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument(
        "--zookeeper",
        metavar="HOST:PORT[/PATH]",
        help="the other place, as zookeeper.connect of Apache Kafka 3.9 has it",
    )
    place.add_argument("--file", metavar="FILE", help="the other place, a file of JSON")
    parser.add_argument(
        "--replace", action="store_true", help="remove what is at the destination already"
    )
    _add_settings_options(parser)


def _export(arguments: argparse.Namespace) -> int:
    return _move(arguments, is_import=False)


def _import(arguments: argparse.Namespace) -> int:
    return _move(arguments, is_import=True)


def _move(arguments: argparse.Namespace, *, is_import: bool) -> int:
    from kavka.server.zookeeper_session import zookeeper_session
    from kavka.tools.storage.command import main

    return main(
        arguments.file,
        arguments.zookeeper,
        zookeeper_session,
        is_import=is_import,
        replace=arguments.replace,
        config=arguments.config,
        overrides=arguments.override,
    )


def _no_options(_: argparse.ArgumentParser) -> None:
    """For a command without options."""


def _pipeline(arguments: Sequence[str]) -> int:
    from kavka.spark_it.commands import pipeline

    return pipeline(arguments)


def _spark(arguments: Sequence[str]) -> int:
    from kavka.spark_it.commands import spark

    return spark(arguments)


def _tool(name: str) -> Callable[[Sequence[str]], int]:
    """Runs the tool of a module of kavka.tools.admin."""

    def run(arguments: Sequence[str]) -> int:
        from importlib import import_module

        from kavka.tools.admin.command import main

        return main(import_module(f"kavka.tools.admin.{name}").TOOL, arguments)

    return run


def _version(_: argparse.Namespace) -> int:
    print(f"kavka {__version__}")
    return 0


TOOLS: Final = (
    ("topics", "Create, delete, describe or change topics."),
    ("get-offsets", "Print offsets of partitions."),
    ("log-dirs", "Print the log directories of brokers, as JSON."),
)
"""Those with the names of Apache Kafka's; their modules have the same."""

COMMANDS: Final = (
    Command(
        name="start",
        summary="run a broker in the foreground",
        description=(
            "Run a broker in the foreground, until SIGTERM, SIGHUP or Ctrl-C.\n"
            "\n"
            "Settings have Apache Kafka's names and defaults. Where one is given more than once,\n"
            "--override wins over KAVKA_... environment variables (KAVKA_LOG_DIRS for log.dirs),\n"
            "and these win over the file. When the broker is ready it prints one line with its\n"
            "address. For example:\n"
            "\n"
            "  kavka start --override listeners=PLAINTEXT://127.0.0.1:9092 "
            "--override log.dirs=./data"
        ),
        add_options=_add_start_options,
        run=_start,
    ),
    Command(
        name="dev",
        summary="run a cluster of brokers on this machine that keeps nothing",
        description=(
            "Run a cluster of brokers in one process, in the foreground, until SIGTERM, SIGHUP or\n"
            "Ctrl-C. They replicate as on several machines. Their data are in temporary\n"
            "directories, which are removed at the end. Only warnings are logged, unless\n"
            "--log-level says otherwise. For example:\n"
            "\n"
            "  kavka dev --brokers 3 --override min.insync.replicas=2"
        ),
        add_options=_add_dev_options,
        run=_dev,
    ),
    Command(
        name="storage",
        summary="move a log directory from and to Apache Kafka",
        description=(
            "Move a log directory from and to Apache Kafka 3.9 with ZooKeeper.\n"
            "\n"
            "Both read and write the same files, but topics, their ids, settings and leaders are\n"
            "not in them: Kavka keeps these in coordination.log and coordination.snapshot in the\n"
            "first log directory, Apache Kafka in ZooKeeper. These commands carry them over,\n"
            "while no broker runs. docs/storage.md has the steps."
        ),
        add_options=_no_options,
        commands=(
            Command(
                name="export",
                summary="from Kavka's log directory to ZooKeeper or a file",
                description=(
                    "Move what Kavka knows of topics and settings to ZooKeeper, or copy it to a\n"
                    "file. For example:\n"
                    "\n"
                    "  kavka storage export --zookeeper localhost:2181 --override log.dirs=./data"
                ),
                add_options=_add_storage_options,
                run=_export,
            ),
            Command(
                name="import",
                summary="from ZooKeeper or a file to Kavka's log directory",
                description=(
                    "Copy what ZooKeeper or a file knows of topics and settings into Kavka's log\n"
                    "directory. For example:\n"
                    "\n"
                    "  kavka storage import --zookeeper localhost:2181 --config server.properties"
                ),
                add_options=_add_storage_options,
                run=_import,
            ),
        ),
    ),
    *(
        Command(
            name=name,
            summary=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            add_options=_no_options,
            parse=_tool(name.replace("-", "_")),
        )
        for name, summary in TOOLS
    ),
    Command(
        name="pipeline",
        summary="run a pipeline between topics and tables on Spark",
        description="Run a pipeline between topics and tables on Spark.",
        add_options=_no_options,
        parse=_pipeline,
    ),
    Command(
        name="spark",
        summary="fetch the jars of Spark's Kafka source and sink",
        description="Fetch the jars of Spark's Kafka source and sink.",
        add_options=_no_options,
        parse=_spark,
    ),
    Command(
        name="version",
        summary="print the version",
        description="Print the version.",
        add_options=_no_options,
        run=_version,
    ),
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kavka",
        description="A Kafka broker in Python.",
        epilog="`kavka COMMAND --help` explains a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kavka {__version__}")
    _add_commands(parser, COMMANDS)
    return parser


def _add_commands(parser: argparse.ArgumentParser, table: Sequence[Command]) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in table:
        options = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_options(options)
        if command.commands:
            _add_commands(options, command.commands)
        else:
            options.set_defaults(run=command.run)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names (the process's own arguments by default).

    Returns the exit code. Raises SystemExit, as argparse does: 0 after --help and --version,
    2 after a line on standard error when the arguments make no sense.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    for command in COMMANDS:
        if command.parse is not None and words[:1] == [command.name]:
            return command.parse(words[1:])
    parser = _parser()
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_hint(arguments, unknown[0])}")
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


def script() -> int:
    """`kavka NAME` under the name of Apache Kafka's script, as kafka-NAME: the exit code."""
    name = os.path.basename(sys.argv[0]).partition("-")[2]
    return main([name, *sys.argv[1:]])


def _hint(arguments: argparse.Namespace, unknown: str) -> str:
    """A hint: Apache Kafka's scripts take the settings file as a plain argument."""
    if unknown.startswith("-") or "config" not in arguments:
        return ""
    option = "--override" if "=" in unknown else "--config"
    return f" (did you mean {option} {unknown}?)"
