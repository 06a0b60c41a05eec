"""The stock admin clients' round: the same results from Kavka and from Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from admin.operations import IN_ORDER
from admin.page import PAGE, page
from admin.reasons import outdated, unexplained
from admin.run import CLIENTS, Cell, brokers, matrix


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    """The whole matrix."""
    home = tmp_path_factory.mktemp("admin")
    with brokers(home) as pair:
        return matrix(pair, home)


def test_clients_see_the_same(cells: list[Cell]) -> None:
    wrong = [
        f"{cell.client}, {cell.operation}, {difference.path or 'the outcome'}:\n"
        f"    Kavka        {difference.answered!r}\n    Apache Kafka {difference.expected!r}"
        for cell, difference in unexplained(cells)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_reason_is_outdated(cells: list[Cell]) -> None:
    assert outdated(cells) == []


def test_the_page_is_current(cells: list[Cell]) -> None:
    assert page(cells) == PAGE.read_text(), "run: PYTHONPATH=src:tests python -m admin"


def test_every_operation_is_done_by_some_client() -> None:
    done = {operation for client in CLIENTS for operation in client.cells}
    assert done == set(IN_ORDER)
