"""Batches in every form of every codec: Kavka beside Apache Kafka, wherever they are opened."""

from __future__ import annotations

import pytest

from compressed.brokers import VERSIONS, Compared, compare
from compressed.compare import outdated, unexplained
from compressed.corpus import PROMISES, cases
from compressed.page import PAGE, page
from compressed.run import AS_SENT, SENT


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """What both made of the whole corpus."""
    return compare(tmp_path_factory.mktemp("compressed"))


def test_both_brokers_answer_damaged_frames_alike(compared: Compared) -> None:
    wrong = unexplained(compared.differences)
    assert not wrong, "\n".join(map(str, wrong))


def test_no_reason_is_outdated(compared: Compared) -> None:
    assert outdated(compared.differences) == []


def test_the_page_is_current(compared: Compared) -> None:
    made = page(compared.kafka, compared.differences, VERSIONS)
    assert made == PAGE.read_text(), "run: PYTHONPATH=src:tests python -m compressed > " + str(PAGE)


def test_apache_kafka_takes_what_clients_send_and_most_forms(compared: Compared) -> None:
    """Else little would be compared."""
    words = compared.kafka[0].words
    taken = [case for case in cases() if words[case.label][SENT] == AS_SENT]
    assert all(case in taken for case in cases() if case.group.startswith("as the clients"))
    assert sum(case.group != PROMISES for case in taken) >= 90


def test_all_labels_are_different() -> None:
    assert len({case.label for case in cases()}) == len(cases())
