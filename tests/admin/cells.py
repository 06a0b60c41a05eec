"""What a client does for each operation, and what came out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias

from admin import begun, held
from admin.operations import IN_ORDER, OPERATIONS
from admin.place import Place

OK: Final = "ok"

Cell: TypeAlias = Callable[[Any, Place], Any]
"""(the client, where it works) -> what the client returns."""

Options = ParamSpec("Options")


def cells(
    function: Callable[Concatenate[Any, Place, Options], Any],
) -> Callable[Options, Cell]:
    """Let a function of client, place and options make cells: it is called with the options."""

    def made(*args: Options.args, **options: Options.kwargs) -> Cell:
        return lambda client, place: function(client, place, *args, **options)

    return made


@dataclass(frozen=True)
class Outcome:
    """`word` is `ok` or the name of the error, `shown` all else that the user gets to see."""

    word: str
    shown: Any


class Failed(Exception):
    """A client that reports an error without raising it."""

    def __init__(self, word: str, shown: Any) -> None:
        super().__init__(word, shown)
        self.word = word
        self.shown = shown


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
            returned = cell(client, place)
        except Failed as failure:
            return Outcome(failure.word, place.alike(failure.shown))
        except Exception as failure:  # any error that the client raises
            word, shown = self._named(failure)
            return Outcome(word, place.alike(shown))
        return Outcome(OK, place.alike(returned))
