"""`kavka pipeline …` and `kavka spark …`: their own command lines, below the table of cli.py.

A pipeline's options come from its options class, so its parser is built here, when it is chosen.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kavka.spark_it.errors import SparkError
from kavka.spark_it.example import example
from kavka.spark_it.options import Row, build, converted, nearest, read_file, rows

PIPELINES: Final = ("sink", "aggregate", "compact-history", "replay", "verify")
"""The pipelines by name; each is a module of `kavka.spark_it.pipelines`."""


PYSPARK_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def module_of(name: str) -> ModuleType:
    """The module of a pipeline."""
    return import_module(f"kavka.spark_it.pipelines.{name.replace('-', '_')}")


def pipeline(arguments: Sequence[str]) -> int:
    """`kavka pipeline NAME …` and `kavka pipeline init NAME`. Returns the exit code."""
    if arguments and arguments[0] in PIPELINES:
        return _reported(lambda: _run(arguments[0], arguments[1:]))
    parser = argparse.ArgumentParser(
        prog="kavka pipeline",
        description="Run a pipeline between topics and tables on Spark.",
        epilog="`kavka pipeline NAME --help` lists its options; `kavka pipeline init NAME` writes "
        "them into a commented file.",
        allow_abbrev=False,
    )
    names = parser.add_subparsers(title="pipelines", metavar="NAME", required=True)
    for name in PIPELINES:
        names.add_parser(name, help=module_of(name).SUMMARY)
    init = names.add_parser("init", help="write a commented example of a pipeline's options")
    init.add_argument("pipeline", choices=PIPELINES)
    init.add_argument("--output", metavar="FILE", help="NAME.toml if not given; - for the terminal")
    return _init(parser.parse_args(arguments))


def _init(arguments: argparse.Namespace) -> int:
    module = module_of(arguments.pipeline)
    text = example(arguments.pipeline, module.SUMMARY, module.Options)
    if arguments.output == "-":
        print(text, end="")
        return 0
    path = Path(arguments.output or f"{arguments.pipeline}.toml")
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        print(f"kavka: {path} exists already; name another with --output", file=sys.stderr)
        return 1
    except OSError as failure:
        print(f"kavka: {path}: {failure.strerror}", file=sys.stderr)
        return 1
    print(f"{path} is written; run it with: kavka pipeline {arguments.pipeline} --config {path}")
    return 0


def _run(name: str, arguments: Sequence[str]) -> int:
    """Run a pipeline with what file and command line say, and print its summary."""
    module = module_of(name)
    parser = argparse.ArgumentParser(
        prog=f"kavka pipeline {name}",
        description=f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:]}.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="a TOML file of these options")
    known = list(rows(module.Options))
    for row in known:
        add_option(parser, row)
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        hint = nearest(unknown[0].partition("=")[0], [row.flag for row in known])
        raise SparkError(f"unknown option {unknown[0]}{hint}")
    given = vars(parsed)
    file = given.pop("config")
    options = build(module.Options, merged(module.Options, file, given))
    for name in PYSPARK_LOGGERS:  # they print each error as JSON, beside the message of ours
        logging.getLogger(name).setLevel(logging.CRITICAL)
    summary = module.run(options)
    text = summary.to_json()
    if options.summary is None:
        print(text)
    else:
        Path(options.summary).write_text(text + "\n")
    return 0 if summary.details.get("equal", True) else 1


def merged(options: type, file: str | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a file, and over them those of the command line; tables are merged."""
    values = converted(options, read_file(file), source=file) if file is not None else {}
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in converted(options, chosen).items():
        before = values.get(name)
        values[name] = {**before, **value} if isinstance(before, Mapping) else value
    return values


def add_option(parser: argparse.ArgumentParser, row: Row) -> None:
    """One option of a pipeline on the command line: its text, which `build` converts."""
    doc = row.doc.replace("%", "%%")
    settings: dict[str, Any] = {"dest": row.name, "help": doc, "metavar": "VALUE"}
    if row.kind is bool:
        settings |= {"nargs": "?", "const": "true"}
    elif row.kind is tuple:
        settings["metavar"] = "A,B,…"
    elif row.kind is dict:
        settings |= {"action": "append", "metavar": "KEY=VALUE"}
    if row.choices:
        settings |= {"choices": row.choices, "metavar": None}
    parser.add_argument(row.flag, **settings)


def spark(arguments: Sequence[str]) -> int:
    """`kavka spark fetch-jars`. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="kavka spark",
        description="Fetch the jars of Spark's Kafka source and sink.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    fetch = commands.add_parser(
        "fetch-jars",
        help="fetch the jars of Spark's Kafka source and sink, and print where they are",
        description="Fetch the jars of Spark's Kafka connector, of Avro and of Delta Lake once, "
        "and print their paths with commas between, as spark.jars and --jars take them.",
    )
    fetch.set_defaults(run=_fetch_jars)
    return _reported(parser.parse_args(arguments).run)


def _fetch_jars() -> int:
    from kavka.spark_it.jars import fetch

    print(",".join(map(str, fetch())))
    return 0


def _reported(run: Callable[[], int]) -> int:
    try:
        return run()
    except SparkError as failure:
        print(f"kavka: {failure}", file=sys.stderr)
        return 1
