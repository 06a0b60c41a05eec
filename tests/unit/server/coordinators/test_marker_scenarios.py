"""When transactions are completed, by the scenarios in `tests/scenarios/markers/`: their producers
and the broker that is their coordinator, with the topic "t" of two partitions.

After the responses, a line has what has changed: logs, as values and markers, and what consumers
read of them with read_committed; states of transactional ids; the number of markers that wait.
"""

from __future__ import annotations

import pytest

from kavka.wire.errors import ErrorCode
from support.coordinator_machine import CoordinatorMachine, contents, places_of
from support.memory_broker import NEVER_AWAITED
from support.memory_transactions import Transactor, committed, write_markers
from support.scenarios import Command, Scenario, scenario_files

STATE = "__transaction_state"


@NEVER_AWAITED
@scenario_files("markers")
def test_scenarios(
    scenario: Scenario,
    rewrite: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Markers(caplog, monkeypatch) as machine:
        scenario.check(machine, rewrite)


class Markers(CoordinatorMachine):
    """Requests are of the transactional id "tx" unless `id=` says otherwise."""

    settings = ("transaction.state.log.num.partitions=1", "transaction.state.log.min.isr=1")
    partitions = 2

    def __init__(self, caplog: pytest.LogCaptureFixture, patch: pytest.MonkeyPatch) -> None:
        super().__init__(caplog, patch)
        self.producers: dict[str, Transactor] = {}

    async def look(self) -> dict[str, str]:
        found = {}
        for replica in self.broker.replicas():
            if replica.log.topic == STATE:
                continue
            log = contents(replica.log, replica.partition.high_watermark)
            if replica.partition.is_leader and (read := await committed(self.broker, replica.key)):
                log += f" (read: {b' '.join(read).decode()})"
            found["{}-{}".format(*replica.key)] = log
        runner = self.broker.parts.transactions.runner_for("tx")
        for name, transaction in runner.machine.state.transactions.items() if runner else ():
            found[name] = transaction.state.title
        writer = self.broker.parts.transaction_markers
        return {**found, "waiting": str(writer.waiting if writer else 0)}

    def do_write(self, command: Command) -> list[str]:
        """A record to each of these partitions in a transaction, with a new producer and
        connection at first; `version=` is that of Produce."""

        async def write() -> None:
            name = command.text("id", "tx")
            if name not in self.producers:
                version = command.number("version", 12)
                self.producers[name] = await Transactor(self.broker, name, version).init()
                self.producers[name].client = self.broker.connect()
            producer = self.producers[name]
            for place in places_of(command.words):
                if not producer.is_newer:
                    await producer.add(place)
                assert (await producer.write(place)).code == ErrorCode.NONE

        return self.then(write())

    def do_commit(self, command: Command) -> list[str]:
        """EndTxn."""
        name = command.text("id", "tx")
        ask = self.producers[name].end
        return self.request(
            f"{command.name} {name}", lambda: ask(commit=command.name == "commit"), iterations=100
        )

    do_abort = do_commit

    def do_write_txn_markers(self, command: Command) -> list[str]:
        """WriteTxnMarkers of another coordinator, with an abort of the producer of "tx"."""
        now = self.producers["tx"].now
        now = now._replace(epoch=now.epoch + command.number("epochs_later"))
        epoch, places = command.number("coordinator_epoch"), places_of(command.words)
        return self.then(
            write_markers(self.broker, now, *places, commit=False, coordinator_epoch=epoch)
        )

    def do_create(self, command: Command) -> list[str]:
        """Create a topic of one partition."""
        (name,) = command.words
        configs = {key: command.text(key) for key in command.options}
        return self.then(self.broker.create(name, configs=configs))

    def do_delete(self, command: Command) -> list[str]:
        """Delete a topic."""
        names = command.words
        client = self.broker.connect()
        return self.then(client.ask("DeleteTopics", 5, topic_names=names, timeout_ms=5000))
