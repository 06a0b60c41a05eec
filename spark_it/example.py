"""The commented example of a pipeline's configuration, and its table for docs/."""

from __future__ import annotations

import textwrap
from collections.abc import Container, Iterator

from kavka.spark_it.options import Row, rows

WIDTH = 88


def example(name: str, summary: str, options: type) -> str:
    """A TOML file with every option of a pipeline: the required ones are set to examples, the
    others are comments with their defaults."""
    lines = [
        f"# {summary}",
        f"# kavka pipeline {name} --config THIS_FILE",
        "# What is commented out has its default. Each is also an option of the command line.",
        "",
    ]
    tables: list[str] = []
    for row in rows(options):
        (tables if row.kind is dict else lines).extend(_lines(row))
    return "\n".join(lines + tables)


def _lines(row: Row) -> Iterator[str]:
    doc = row.doc + (f" ({', '.join(row.choices)})" if row.choices else "")
    yield from (f"# {line}" for line in textwrap.wrap(doc, WIDTH))
    if row.kind is dict:
        yield f"# [{row.name}]"
        if row.example:
            key, _, value = row.example.partition("=")
            yield f'# "{key}" = "{value}"'
    else:
        yield ("" if row.required else "# ") + f"{row.name} = {toml_value(row)}"
    yield ""


def toml_value(row: Row) -> str:
    """The example value of an option, else its default, as TOML writes it."""
    if row.example:
        if row.kind is tuple:
            return "[" + ", ".join(f'"{part.strip()}"' for part in row.example.split(",")) + "]"
        return f"'{row.example}'" if row.kind is str else row.example
    value = row.default
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{part}"' for part in value) + "]"
    return f"'{value or ''}'" if row.kind is str else str(value)


def table(options: type, *, without: Container[str] = ()) -> str:
    """The options as a table of Markdown, but for those named in `without`."""
    lines = ["| option | default | what it does |", "|---|---|---|"]
    for row in (row for row in rows(options) if row.name not in without):
        default = "required" if row.required else _shown_default(row)
        choices = f" ({', '.join(f'`{choice}`' for choice in row.choices)})" if row.choices else ""
        doc = row.doc.replace("|", "\\|")
        lines.append(f"| `{row.name}` | {default} | {doc}{choices} |")
    return "\n".join(lines) + "\n"


def _shown_default(row: Row) -> str:
    if row.default is None or row.default in ("", ()) or row.kind is dict:
        return "none"
    value = row.default
    shown = ", ".join(value) if isinstance(value, tuple) else str(value)
    return f"`{shown.lower() if row.kind is bool else shown}`"
