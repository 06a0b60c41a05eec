"""The `kavka` command: one table of commands, of which only the chosen one's code is imported.

So `kavka --help` costs little more than the interpreter's own start. What a command does lives in
its own module; here are its name, its options and the call.

Exit codes: 0 done, 1 the command failed, 2 it was called wrongly (with a line that says how).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kavka import __version__


class Command(NamedTuple):
    """One row of the table."""

    name: str
    summary: str
    """One line for `kavka --help`, lower case, without a full stop."""
    description: str
    """What `kavka NAME --help` says above the options."""
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    """Imports the command's module, calls it, and returns the exit code."""


def _setting(text: str) -> str:
    """An `--override` as it was given, once it has the form key=value."""
    key, equals, _ = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return text


def _add_start_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="a server.properties file as Apache Kafka reads it",
    )
    parser.add_argument(
        "--override",
        metavar="KEY=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="one setting, over file and environment; may be given many times",
    )


def _start(arguments: argparse.Namespace) -> int:
    from kavka.server.main import main as start_broker

    return start_broker(arguments.config, arguments.override)


def _no_options(_: argparse.ArgumentParser) -> None:
    """For a command that takes none."""


def _version(_: argparse.Namespace) -> int:
    print(f"kavka {__version__}")
    return 0


COMMANDS: Final = (
    Command(
        name="start",
        summary="run a broker in the foreground",
        description=(
            "Run a broker in the foreground, until SIGTERM or Ctrl-C.\n"
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
    arguments = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)
