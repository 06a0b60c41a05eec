"""The page docs/clients.md, out of the matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from admin.cells import OK
from admin.operations import OPERATIONS
from admin.reasons import reason_of
from admin.run import CLIENTS, Cell
from support.paths import ROOT

PAGE: Final = ROOT / "docs" / "clients.md"

_HEAD: Final = """\
# Admin clients

Each stock admin client does its whole round against Kavka and against Apache Kafka 4.3.1, and
what it returns must be the same: values, errors and their texts, or the lines that a tool prints.
Java's AdminClient is driven by Apache Kafka's own command line tools: kafka-topics, kafka-configs,
kafka-log-dirs, kafka-get-offsets, kafka-broker-api-versions, kafka-leader-election,
kafka-reassign-partitions, kafka-cluster, kafka-consumer-groups, kafka-transactions and others.

This page is made by the test itself: run `make clients-page` when it changes (it needs Java, and
takes half a minute). `PYTHONPATH=src:tests python -m admin --client kafka-python` prints what one
client returns otherwise.

In the table **ok** or an error's name is what both brokers lead to. Where they differ, Kavka's
outcome stands first, and the number is that of the reason below. A dash: the client has no such
operation.
"""


def page(cells: Sequence[Cell]) -> str:
    """The whole page."""
    return "".join(f"{line}\n" for line in _lines(cells))


def _lines(cells: Sequence[Cell]) -> Iterator[str]:
    yield from _HEAD.splitlines()
    reasons: dict[str, int] = {}
    found = {(cell.client, cell.operation): cell for cell in cells}
    names = [client.name for client in CLIENTS]
    for title, operations in OPERATIONS.items():
        yield from ("", f"## {title}", "")
        yield f"| | {' | '.join(names)} |"
        yield f"|---|{'---|' * len(names)}"
        for operation in operations:
            row = [_shown(found.get((name, operation)), reasons) for name in names]
            yield f"| {operation} | {' | '.join(row)} |"
    yield from ("", "## Why they differ", "")
    for why, number in reasons.items():
        yield f"{number}. {why[0].upper()}{why[1:]}."
    same = sum(not cell.differences() for cell in cells)
    yield from ("", f"{same} of {len(cells)} outcomes are the same in everything.")


def _shown(cell: Cell | None, reasons: dict[str, int]) -> str:
    if cell is None:
        return "–"
    shown = _word(cell.kavka.word)
    if cell.kavka.word != cell.kafka.word:
        shown += f" (Apache Kafka: {_word(cell.kafka.word)})"
    numbers: dict[int, None] = {}
    for difference in cell.differences():
        reason = reason_of(cell, difference)
        why = reason.why if reason else "not known"
        numbers[reasons.setdefault(why, len(reasons) + 1)] = None
    marks = ", ".join(str(number) for number in numbers)
    return f"{shown} [{marks}]" if marks else shown


def _word(word: str) -> str:
    return "**ok**" if word == OK else f"`{word}`"
