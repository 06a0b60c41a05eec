"""How configs are printed: in Apache Kafka's form, as JSON, as CSV."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kavka.tools.admin.config_entities import DEFAULT
from kavka.tools.admin.printing import print_csv

COLUMNS: Final = ("entity", "config", "value", "source", "sensitive")

DEFAULT_TEXT: Final = "<default>"
"""What stands for the name of the defaults in CSV, as in ZooKeeper's tree."""

EntityName = Sequence[tuple[str, str]]
"""Pairs of type and name; `DEFAULT` is a name too."""


class Synonym(NamedTuple):
    """One place that a config can be taken from."""

    source: str
    name: str
    value: str | None


class Config(NamedTuple):
    """One config; what has no places that it can come from, has no synonyms either."""

    name: str
    value: str | None
    source: str | None = None
    is_sensitive: bool = False
    synonyms: Sequence[Synonym] = ()


class Report:
    """Prints lines of text at once, JSON and CSV when all has been added."""

    def __init__(self, form: str | None) -> None:
        self._form = form
        self._found: list[tuple[EntityName, Sequence[Config]]] = []

    @property
    def is_text(self) -> bool:
        """Whether it is printed as Apache Kafka does."""
        return self._form not in ("json", "csv")

    def title(self, text: str) -> None:
        """A line that comes before an entity's configs are asked for."""
        if self.is_text:
            print(text)

    def missing(self, text: str) -> None:
        """There is no such entity: a line of its own, or where programs read, on standard error."""
        print(text, file=sys.stdout if self.is_text else sys.stderr)

    def resource(self, entity: EntityName, configs: Sequence[Config]) -> None:
        """A line for each config."""
        self._add(entity, configs, [_line(config) for config in configs])

    def one_line(self, entity: EntityName, subject: str, configs: Sequence[Config]) -> None:
        """All configs in one line."""
        shown = ", ".join(f"{config.name}={config.value}" for config in configs)
        self._add(entity, configs, [f"{subject} are {shown}"])

    def end(self) -> None:
        """Nothing more comes."""
        if self._form == "json":
            print(json.dumps({"entities": [_document(*described) for described in self._found]}))
        elif self._form == "csv":
            print_csv(COLUMNS, self._rows())

    def _add(self, entity: EntityName, configs: Sequence[Config], lines: Sequence[str]) -> None:
        self._found.append((entity, configs))
        if self.is_text:
            for line in lines:
                print(line)

    def _rows(self) -> Iterator[list[object]]:
        for entity, configs in self._found:
            named = ",".join(f"{kind}={name or DEFAULT_TEXT}" for kind, name in entity)
            for config in configs:
                sensitive = str(config.is_sensitive).lower()
                yield [
                    named,
                    config.name,
                    _or_empty(config.value),
                    _or_empty(config.source),
                    sensitive,
                ]


def _line(config: Config) -> str:
    synonyms = ", ".join(
        f"{synonym.source}:{synonym.name}={_text(synonym.value)}" for synonym in config.synonyms
    )
    sensitive = str(config.is_sensitive).lower()
    value = _text(config.value)
    return f"  {config.name}={value} sensitive={sensitive} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _or_empty(value: str | None) -> str:
    return "" if value is None else value


def _document(entity: EntityName, configs: Sequence[Config]) -> Mapping[str, Any]:
    return {
        "entity": [
            {"type": kind, "name": None if name == DEFAULT else name} for kind, name in entity
        ],
        "configs": [
            {
                "name": config.name,
                "value": config.value,
                "source": config.source,
                "sensitive": config.is_sensitive,
                "synonyms": [synonym._asdict() for synonym in config.synonyms],
            }
            for config in configs
        ],
    }
