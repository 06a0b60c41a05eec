"""Prints `docs/apis.md` from the list of handlers. `make pages` puts it there."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Final

from kavka.server.connections.dispatch import HANDLERS, Handler

_HEAD: Final = """\
# APIs

This page is made from the list of handlers in `server/connections/dispatch.py`: run
`make pages` when it changes. ApiVersions returns the same list.

Versions range from the lowest of Apache Kafka 3.9.2 to the highest of 4.3.1, as
far as they are implemented. Another version closes the connection, as in Apache Kafka; only
ApiVersions responds (with version 0 and code 35).

| key | API | versions | flexible from | what it does |
|--:|---|---|--:|---|
"""


def _summary(handler: Handler) -> str:
    """The purpose of an API, from its module's docstring."""
    name = handler.__module__.rpartition(".")[2]
    described = importlib.import_module(f"kavka.wire.apis.{name}").__doc__ or ""
    sentence = " ".join(described.partition("\n\n")[0].split())
    return sentence.partition("): ")[2].rstrip(".")


def _rows() -> Iterator[str]:
    for _, (api, handler) in sorted(HANDLERS.items()):
        served = f"{api.lowest} to {api.highest}"
        cells = (api.key, api.name, served, api.first_flexible, _summary(handler))
        yield "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_rows())


if __name__ == "__main__":
    print(page(), end="")
