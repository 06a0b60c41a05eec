"""The `kavka` command: one table of commands, of which only the chosen one's code is imported.

So `kavka --help` costs little more than the interpreter's own start. What a command does lives in
its own module; here are its name, its options and the call.

Exit codes: 0 done, 1 the command failed, 2 it was called wrongly (with a line that says how). Where
that is found out by other code than argparse it is 1: by tools, as Apache Kafka's, by pipelines,
whose options stand in files too, and by `completion`.
"""

from __future__ import annotations

import argparse
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka import __version__

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from kavka.server.config import Given
    from kavka.tools.doctor.at_rest.rehearsal import Kind
    from kavka.zktree.api import Coordination


class Command(NamedTuple):
    """One row of the table."""

    name: str
    summary: str
    """One line for `kavka --help`, lower case, without a full stop."""
    description: str
    """What `kavka NAME --help` prints above the options."""
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int] | None = None
    """Imports the command's module, calls it, returns the exit code."""
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


FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a disk says that takes no more."""

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


def _storage(arguments: Sequence[str]) -> int:
    from kavka.tools.admin.command import main
    from kavka.tools.storage.tool import storage_tool

    def open_session(
        given: Mapping[str, Given], connect: str
    ) -> AbstractAsyncContextManager[Coordination]:
        from kavka.server.zookeeper_session import zookeeper_session

        return zookeeper_session(given, connect)

    return main(storage_tool(open_session), arguments)


def _no_options(_: argparse.ArgumentParser) -> None:
    """For a command without options."""


def _pipeline(arguments: Sequence[str]) -> int:
    from kavka.spark_it.commands import pipeline

    return pipeline(arguments)


def _spark(arguments: Sequence[str]) -> int:
    from kavka.spark_it.commands import spark

    return spark(arguments)


def _compat(arguments: Sequence[str]) -> int:
    from kavka.compat_tests.command import main

    return main(arguments)


def _doctor(arguments: Sequence[str]) -> int:
    from kavka.tools.doctor.command import main

    return main(arguments, _broker_kind)


def _broker_kind() -> Kind:
    from kavka.server.instance import Instance
    from kavka.server.start_checks import StartError
    from kavka.tools.doctor.at_rest.rehearsal import Kind

    return Kind(Instance, StartError)


def _tool(module: str) -> Callable[[Sequence[str]], int]:
    """Runs the tool of a module of kavka.tools."""

    def run(arguments: Sequence[str]) -> int:
        from importlib import import_module

        from kavka.tools.admin.command import main

        return main(import_module(f"kavka.tools.{module}").TOOL, arguments)

    return run


def _tap(arguments: Sequence[str]) -> int:
    from kavka.tools.tap.command import main

    return main(arguments)


def _completion(arguments: Sequence[str]) -> int:
    from kavka.tools.completion.command import main as complete

    names = [*(name for name, *_ in _modules()), "storage"]
    return complete(arguments, main, [f"kavka-{name}" for name in names])


def _modules() -> Iterator[tuple[str, str, str]]:
    """The tools with their modules."""
    for name, summary in TOOLS:
        yield name, summary, f"admin.{name.replace('-', '_')}"
    for name, summary in FILE_TOOLS:
        yield name, summary, f"{name.replace('-', '_')}.command"
    for package, name, summary in CLIENT_TOOLS:
        yield name, summary, f"{package}.{name.replace('-', '_')}"


def _version(_: argparse.Namespace) -> int:
    print(f"kavka {__version__}")
    return 0


TOOLS: Final = (
    ("configs", "Describe or change configs of topics, brokers, users and others."),
    ("topics", "Create, delete, describe or change topics."),
    ("consumer-groups", "List, describe or delete consumer groups, or change their offsets."),
    ("groups", "List groups of all types."),
    ("get-offsets", "Print offsets of partitions."),
    ("log-dirs", "Print the log directories of brokers, as JSON."),
    ("reassign-partitions", "Move partitions to other brokers, or to other log directories."),
    ("replica-verification", "Compare the replicas of partitions with each other."),
    ("cluster", "Print a cluster's id and the addresses of its brokers."),
    ("broker-api-versions", "Print the versions of APIs that brokers serve."),
    ("delete-records", "Delete records of partitions up to an offset."),
    ("features", "Print and change the levels of a cluster's features."),
    ("acls", "List ACLs, add and remove them."),
    ("delegation-tokens", "Create, renew, expire and list delegation tokens."),
    ("leader-election", "Let preferred replicas lead, or any where none leads."),
    ("transactions", "List transactions, and find and abort those that hang."),
)
"""Those with the names of Apache Kafka's that ask brokers; their modules have the same."""

FILE_TOOLS: Final = (("dump-log", "Print what segments, indexes, snapshots and checkpoints hold."),)
"""Those that read files."""

CLIENT_TOOLS: Final = (
    ("console", "console-producer", "Write lines of standard input to a topic, as records."),
    ("console", "console-consumer", "Print the records of topics."),
    ("perf", "producer-perf-test", "Measure how fast records are produced."),
    ("perf", "consumer-perf-test", "Measure how fast records are consumed."),
    ("perf", "e2e-latency", "Measure how long records take from producer to consumer."),
    ("perf", "verifiable-producer", "Produce increasing numbers, and print what became of each."),
    ("perf", "verifiable-consumer", "Consume a topic, and print what happens as JSON."),
    ("mirror", "mirror", "Copy topics and offsets of groups to another cluster."),
)
"""The same, for those that bring a client of their own: each with its package."""

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
        summary="look at log directories, format them, and move them from and to Apache Kafka",
        description="Look at log directories, format them, and move them from and to Apache Kafka.",
        add_options=_no_options,
        parse=_storage,
    ),
    *(
        Command(
            name=name,
            summary=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            add_options=_no_options,
            parse=_tool(module),
        )
        for name, summary, module in _modules()
    ),
    Command(
        name="tap",
        summary="show what passes between clients and brokers",
        description="Show what passes between clients and brokers, as a proxy between them.",
        add_options=_no_options,
        parse=_tap,
    ),
    Command(
        name="doctor",
        summary="find out why clients can't work with a cluster",
        description=(
            "Find out why clients can't work with a cluster, or what is wrong in a directory."
        ),
        add_options=_no_options,
        parse=_doctor,
    ),
    Command(
        name="compat",
        summary="try with real clients what works against a broker",
        description="Try with real clients what works against a broker.",
        add_options=_no_options,
        parse=_compat,
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
        name="completion",
        summary="print what bash, zsh or fish needs to complete command lines",
        description="Print what bash, zsh or fish needs to complete command lines.",
        add_options=_no_options,
        parse=_completion,
    ),
    Command(
        name="version",
        summary="print the version",
        description="Print the version.",
        add_options=_no_options,
        run=_version,
    ),
)


class _Parser(argparse.ArgumentParser):
    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Argparse keeps silent where help can't be written."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kavka",
        description="A Kafka broker in Python.",
        epilog="`kavka COMMAND --help` explains a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kavka {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        options = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add_options(options)
        options.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` names (the process's own arguments by default).

    Returns the exit code. Raises SystemExit, as argparse does: 0 after --help and --version,
    2 after a line on standard error when the arguments make no sense.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    _prepare_output()
    try:
        for command in COMMANDS:
            if command.parse is not None and words[:1] == [command.name]:
                exit_code = command.parse(words[1:])
                sys.stdout.flush()
                return exit_code
        arguments = _parse(words)
    except KeyboardInterrupt:  # while a tool's code is imported
        return 128 + signal.SIGINT
    except BrokenPipeError:  # as of `kavka topics --list | head`, which does not read the rest
        from kavka.tools.admin.command import discard_output  # only then

        discard_output()
        return 1
    except OSError as failure:
        if failure.errno not in FULL or failure.filename is not None or "--debug" in words:
            raise
        from kavka.tools.admin.command import discard_output  # only then

        print(f"kavka: what it prints can't be written: {failure.strerror}", file=sys.stderr)
        discard_output()
        return 1
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


def _prepare_output() -> None:
    """Standard output takes every text: what it has no letters for is a question mark, as Java's.
    Where it, or standard error, is closed, what is written to it is lost."""
    if sys.stdout is None or sys.stderr is None:
        from kavka.tools.admin.command import nowhere  # only then

        sys.stdout = sys.stdout or nowhere()
        sys.stderr = sys.stderr or nowhere()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """The command and its options. SystemExit: see `main`."""
    parser = _parser()
    if words and not words[0].startswith("-"):
        _check_command(words[0], parser)
    try:
        arguments, unknown = parser.parse_known_args(words)
    except SystemExit:  # after --help and --version
        sys.stdout.flush()
        raise
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{_hint(arguments, unknown[0])}")
    return arguments


def _check_command(name: str, parser: argparse.ArgumentParser) -> None:
    """As argparse does, which would list all commands."""
    names = [command.name for command in COMMANDS]
    if name not in names:
        from kavka.tools.admin.options import meant  # only then

        parser.error(f"there is no command {name}{meant(name, names)}: `kavka --help` lists them")


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
