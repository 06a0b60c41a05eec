"""The controller's state machine: scenarios, chunks, and the history for the log of an error."""

from __future__ import annotations

from kavka.server.controller.events import CHUNK_PARTITIONS, TopicsRemoved
from kavka.server.controller.partition_machine import PartitionMachine, chunks
from support.controller_text import partition
from support.partition_machine import ControllerMachine
from support.scenarios import Scenario, scenario_files


@scenario_files(
    "controller/bounced_brokers",
    "controller/elections",
    "controller/leaving",
    "controller/log_dir_failures",
    "controller/readiness",
    "controller/reassignments",
    "controller/topic_deletion",
    "controller/unclean_elections",
)
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario.check(ControllerMachine(), rewrite)


def test_many_partitions_are_split_into_chunks() -> None:
    many = [partition(f"t-{index}") for index in range(2 * CHUNK_PARTITIONS + 1)]
    sizes = [len(chunk) for chunk in chunks(many)]
    assert sizes == [CHUNK_PARTITIONS, CHUNK_PARTITIONS, 1]
    assert [tp for chunk in chunks(many) for tp in chunk] == many


def test_the_history_has_the_last_events() -> None:
    machine = PartitionMachine(1, 3, listener="IN")
    for _ in range(100):
        machine.handle(TopicsRemoved(("x",)))
    assert len(machine.history) == 50
    assert machine.history[-1] == "TopicsRemoved: 1, x"
