"""What a client does for each operation, and what came out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from admin import begun, held
from admin.operations import IN_ORDER, OPERATIONS
from admin.place import Place

OK: Final = "ok"

Cell: TypeAlias = Callable[[Any, Place], Any]
"""(the client, where it works) -> whatever it was told."""


@dataclass(frozen=True)
class Outcome:
    """`word` is `ok` or the name of the error, `told` all else that the user gets to see."""

    word: str
    told: Any


class Failed(Exception):
    """A client that tells of an error without raising it."""

    def __init__(self, word: str, told: Any) -> None:
        super().__init__(word, told)
        self.word = word
        self.told = told


class Client:
    """A client: how it is opened, and its cells by operation."""

    def __init__(
        self,
        name: str,
        prefix: str,
        opened: Callable[[Place], AbstractContextManager[Any]],
        named: Callable[[Exception], tuple[str, Any]],
    ) -> None:
        """`named` gives an exception's name and what it says."""
        self.name = name
        self.prefix = prefix
        self.opened = opened
        self.cells: dict[str, Cell] = {}
        self._named = named

    def does(self, *operations: str) -> Callable[[Cell], Cell]:
        """Make the function below the cell of an operation."""

        def added(cell: Cell) -> Cell:
            for operation in operations:
                assert operation in IN_ORDER, operation
                assert operation not in self.cells, operation
                self.cells[operation] = cell
            return cell

        return added

    def run(self, place: Place) -> dict[str, Outcome]:
        """The whole round on one broker."""
        place.write_data()
        outcomes = {}
        with self.opened(place) as client:
            for operation in IN_ORDER:
                if operation == OPERATIONS["Groups"][0]:
                    held.write_groups(place)
                elif operation == OPERATIONS["Transactions"][0]:
                    begun.write_transactions(place)
                if operation in self.cells:
                    outcomes[operation] = self._outcome(self.cells[operation], client, place)
        return outcomes

    def _outcome(self, cell: Cell, client: Any, place: Place) -> Outcome:
        try:
            told = cell(client, place)
        except Failed as failure:
            return Outcome(failure.word, place.alike(failure.told))
        except Exception as failure:  # whatever the client makes of its broker's answer
            word, told = self._named(failure)
            return Outcome(word, place.alike(told))
        return Outcome(OK, place.alike(told))
