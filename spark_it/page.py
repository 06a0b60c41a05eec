"""Prints docs/pipelines.md: every pipeline with its options (`make pages`)."""

from __future__ import annotations

from collections.abc import Iterator

from kavka.spark_it.commands import PIPELINES, module_of
from kavka.spark_it.common_options import PipelineOptions
from kavka.spark_it.example import table
from kavka.spark_it.options import rows

HEAD = """\
# The pipelines' options

This page is made from the code by `make pages`. [spark.md](spark.md) begins at the beginning.

`kavka pipeline init NAME` writes the options of a pipeline with their defaults into `NAME.toml`,
and `kavka pipeline NAME --config NAME.toml` runs it. Each option can also be given on the command
line, which wins: `max_offsets_per_batch` as `--max-offsets-per-batch 10000`, a list with commas
between its values, a table of settings as `--kafka security.protocol=SSL`, once for each setting.
In Python they are the fields of the pipeline's `Options`:

    from kavka.spark_it.pipelines import sink

    sink.run(sink.Options(bootstrap_server="localhost:9092", topics=("events",), table="events"))
"""


def lines() -> Iterator[str]:
    """The page."""
    yield HEAD
    shared = {row.name for row in rows(PipelineOptions)}
    yield "## Of every pipeline\n"
    yield table(PipelineOptions)
    for name in PIPELINES:
        module = module_of(name)
        yield f"## {name}\n"
        yield f"{module.SUMMARY[0].upper()}{module.SUMMARY[1:]}.\n"
        yield table(module.Options, without=shared)


def main() -> None:
    """Print it."""
    print("\n".join(lines()), end="")


if __name__ == "__main__":
    main()
