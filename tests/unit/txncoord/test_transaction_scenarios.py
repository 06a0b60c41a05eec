"""The transaction coordinator's state machine, by the scenarios in `tests/scenarios/transactions/`.

Each command gives one line: responses, records appended, and commands to the runner. A record is
shown as state, producer id/epoch and partitions, after the transactional id unless that is "x";
and with what differs from the usual: the transaction version if it is 2 (v2), the timeout, and the
start if it is not the time of the record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kavka.log.journal import JournalRecord, ReplyFuture
from kavka.txncoord import transaction_records
from kavka.txncoord.listing import Filter, described, known, listed
from kavka.txncoord.transaction import Transaction
from kavka.txncoord.transaction_requests import (
    NeedsProducerId,
    ProducerIdAndEpoch,
    ReserveProducerIds,
)
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import run_at_once
from support.journal_kit import START_MS
from support.scenarios import Command, Scenario, duration_ms, scenario_files
from support.transaction_machine import FIRST_ID, TIMEOUT_MS, TransactionKit


@scenario_files("transactions")
def test_scenarios(scenario: Scenario, rewrite: bool) -> None:
    scenario.check(Transactions(), rewrite)


class Transactions:
    """The transactional ids of one partition of `__transaction_state`. Requests are for id "x" and
    of the producer id and epoch last given for it, unless `id=` and `producer=` say otherwise."""

    def __init__(self) -> None:
        self.kit = TransactionKit()
        self.producers: dict[str, ProducerIdAndEpoch] = {}
        self.client_version = 2
        self.events: list[str] = []
        """What came out since the last line."""
        self.pending: list[tuple[str, str, ReplyFuture]] = []
        self.requested: list[Any] = []
        """Commands to the runner that were shown."""
        self.reported: Any = None
        """The markers reported as written last, or requested by an earlier coordinator."""
        self.shown = self.uncompleted = self.failures = 0

    def do_settings(self, command: Command) -> Iterable[str]:
        """A broker with these settings, by Kafka's names."""
        settings = {key.replace(".", "_"): command.number(key) for key in command.options}
        self.kit, self.shown = TransactionKit(**settings), 0
        return ()

    def do_client(self, command: Command) -> Iterable[str]:
        """From now on requests are of this transaction version."""
        self.client_version = command.number("version")
        return ()

    # -- requests

    def request(self, command: Command) -> Iterator[str]:
        """InitProducerId (with `producer=` of one that continues: KIP-360), AddPartitionsToTxn, its
        form that only verifies, EndTxn."""
        self._send(command.name, command)
        return self._line(command.name)

    do_init = do_add = do_verify = do_commit = do_abort = request

    def do_begin(self, command: Command) -> Iterable[str]:
        """InitProducerId and AddPartitionsToTxn, which succeed; in between another broker has
        written `epoch=`. Not shown."""
        self._send("init", command)
        if "epoch" in command:
            self.producers["x"] = ProducerIdAndEpoch(FIRST_ID, command.number("epoch"))
            self.kit.put("x", self.kit.state()._replace(producer_epoch=self.producers["x"][1]))
        if command.words:
            self._send("add", command)
            assert self.kit.state().state.title == "Ongoing"
        self._look()
        self.events.clear()
        return ()

    def do_complete(self, command: Command) -> Iterator[str]:
        """EndTxn, `commit` or `abort`, and the markers are written."""
        self._send(command.words[0], command)
        yield from self._line(command.words[0])
        for line in self.do_written(Command("written", [], {})):
            yield f"written: {line}"

    def do_written(self, command: Command) -> Iterator[str]:
        """The markers requested first are written; or, `again`, the ones reported last."""
        if "again" not in command.words:
            self.reported = self.kit.commands[0]
        response = self._response("written", "", lambda: self.kit.mark(self.reported))
        self.events.append(f"written: {response}")
        return self._line("written")

    def do_try(self, command: Command) -> Iterator[str]:
        """Each of these requests from each of these producers; the responses by producer."""
        found: dict[str, list[str]] = {}
        current = said_of(self._producer(Command("", [], {})))
        for producer in command.list("producer", current):
            options = {**command.options, "producer": producer}
            answers = {}
            for operation in command.words:
                request = Command(operation, ["t-0"], options)
                name = request.text("id", "x")
                answers[operation] = self._response(
                    operation, name, partial(self._ask, operation, name, request)
                )
            several = len(set(answers.values())) > 1
            text = ", ".join(f"{operation} {said}" for operation, said in answers.items())
            found.setdefault(text if several else answers[command.words[0]], []).append(producer)
        command.text("id"), command.text("version")
        self.events = [f"{' '.join(names)}: {text}" for text, names in found.items()]
        return self._line()

    def _send(self, operation: str, command: Command) -> None:
        name = command.text("id", "x")
        response = self._response(operation, name, lambda: self._ask(operation, name, command))
        self.events.append(f"{operation}: {response}")
        self._look()

    def _ask(self, operation: str, name: str, command: Command) -> Any:
        producer, version = self._producer(command), command.number("version", self.client_version)
        match operation:
            case "init":
                own = producer if "producer" in command else None
                return self.kit.init(name, own, timeout_ms=command.ms("timeout", TIMEOUT_MS))
            case "add":
                partitions = partitions_of(command)
                return self.kit.add(producer, *partitions, transactional_id=name, version=version)
            case "verify":
                codes = self.kit.verify(producer, *partitions_of(command), transactional_id=name)
                return ", ".join(code.name for code in codes)
            case _:
                committed = {"commit": True, "abort": False}[operation]
                return self.kit.end(
                    producer, committed=committed, transactional_id=name, version=version
                )

    def _producer(self, command: Command) -> ProducerIdAndEpoch:
        given = self.producers.get(command.text("id", "x"), ProducerIdAndEpoch(-1, -1))
        producer_id, _, epoch = command.text("producer", said_of(given)).partition("/")
        return ProducerIdAndEpoch(int(producer_id), int(epoch))

    def _response(self, operation: str, name: str, ask: Callable[[], Any]) -> str:
        try:
            response = ask()
        except NeedsProducerId:
            return "no producer id"
        except ApiError as failure:
            return failure.code.name
        if isinstance(response, ReplyFuture):
            self.pending.append((operation, name, response))
            return "pending"
        return self._said(name, response)

    def _said(self, name: str, response: object) -> str:
        if isinstance(response, ProducerIdAndEpoch) and response.producer_id != -1:
            self.producers[name] = response
        return said_of(response)

    # -- DescribeTransactions and ListTransactions

    def do_describe(self, command: Command) -> Iterator[str]:
        state = self.kit.shard.state
        try:
            txn = run_at_once(described(known(state, command.text("id", "x"))))
        except ApiError as failure:
            yield failure.code.name
            return
        topics = [f"{topic}-{','.join(map(str, indexes))}" for topic, indexes in txn.topics]
        began = "not started" if txn.started_ms == -1 else f"started {seconds(txn.started_ms)}"
        producer = f"{txn.producer_id}/{txn.producer_epoch}"
        yield " ".join([txn.state, producer, began, f"{txn.timeout_ms}ms", *topics])

    def do_list(self, command: Command) -> Iterator[str]:
        criteria = Filter(
            states=command.list("states"),
            producer_ids=[int(producer_id) for producer_id in command.list("producer_ids")],
            duration_ms=command.ms("duration", -1),
            pattern=re.compile(command.text("pattern")) if "pattern" in command else None,
        )
        found = listed(self.kit.shard.state, ["x", "gone", "y"], criteria, self.kit.now_ms)
        lines = [f"{txn.transactional_id} {txn.producer_id} {txn.state}" for txn in found]
        yield ", ".join(lines) or "none"

    # -- the partition, and time

    def do_advance(self, command: Command) -> Iterator[str]:
        """Time passes; each line has the time since the beginning."""
        end_ms = self.kit.now_ms + duration_ms(command.words[0])
        while (at_ms := self.kit.journal.wake_at()) is not None and at_ms <= end_ms:
            self.kit.advance(max(0, at_ms - self.kit.now_ms))
            for line in self._line():
                yield f"{seconds(self.kit.now_ms)}: {line}"
        self.kit.advance(end_ms - self.kit.now_ms)
        yield from self._line()

    def do_move(self, command: Command) -> Iterator[str]:
        """Another broker becomes the coordinator, `after=` some time; perhaps while not all is
        committed (`uncommitted`)."""
        self.kit.now_ms += command.ms("after")
        if self.kit.commands:
            self.reported = self.kit.commands[0]
        if "uncommitted" in command.words:
            self.kit.begin()
        else:
            self.kit.move()
        return self._line()

    def do_hold(self, command: Command) -> Iterable[str]:
        """The high watermark does not advance any more."""
        self.kit.holds = True
        return ()

    def do_release(self, command: Command) -> Iterator[str]:
        """The high watermark advances to the end."""
        self.kit.holds = False
        self.kit.commit()
        return self._line()

    def do_refuse(self, command: Command) -> Iterable[str]:
        """So many appends fail."""
        self.failures = int(command.words[0])
        self.kit.port.failures = [ErrorCode.NOT_ENOUGH_REPLICAS] * self.failures
        return ()

    def do_producer_ids(self, command: Command) -> Iterable[str]:
        """Whether producer ids are at hand: `none` or `some`."""
        self.kit.is_dry = command.words == ["none"]
        return ()

    # -- what came out

    def _line(self, operation: str = "") -> Iterator[str]:
        """All that came out since the last line, the response to `operation` first. The state
        replayed from the log, once or twice, has to be the live one, but for what the log does not
        store."""
        self._look()
        events, self.events = self.events, []
        if events:
            yield "; ".join(events).removeprefix(f"{operation}: ")
        feature = self.kit.settings.kavka_transaction_version
        live = {
            name: stored(txn, feature) for name, txn in self.kit.shard.state.transactions.items()
        }
        shard = self.kit.replayed()
        self.kit.replay(shard)
        list(shard.loaded(self.kit.now_ms))
        assert shard.state.transactions == live

    def _look(self) -> None:
        refused = self.failures - len(self.kit.port.failures)
        self.failures -= refused
        self.events += ["append refused"] * refused
        appended = self.kit.appended
        self.events += [self._record(record) for record in appended[self.shown :]]
        self.shown = len(appended)
        for command in self.kit.journal.commands:
            if not any(command is earlier for earlier in self.requested):
                self.requested.append(command)
                self.events.append(command_text(command))
        for operation, name, future in [entry for entry in self.pending if entry[2].is_complete]:
            self.pending.remove((operation, name, future))
            failure = future.failure
            response = self._said(name, future.response) if failure is None else failure.code.name
            self.events.append(f"{operation}: {response}")
        if self.kit.shard.uncompleted != self.uncompleted:
            self.uncompleted = self.kit.shard.uncompleted
            self.events.append(f"{self.uncompleted} uncompleted")

    def _record(self, record: JournalRecord) -> str:
        name = transaction_records.decode_key(record.key)
        txn = (
            None if record.value is None else run_at_once(transaction_records.decode(record.value))
        )
        before = "" if name == "x" else f"{name}: "
        if txn is None:
            return f"{before}tombstone"
        assert txn.updated_ms == self.kit.now_ms
        places = ",".join(f"{topic}-{index}" for topic, index in sorted(txn.partitions))
        words = [txn.state.title, f"{txn.producer_id}/{txn.producer_epoch}", places]
        if txn.previous_producer_id not in (-1, txn.producer_id):
            words.append(f"previous {txn.previous_producer_id}")
        if txn.next_producer_id != -1:
            words.append(f"next {txn.next_producer_id}")
        if txn.started_ms not in (-1, txn.updated_ms):
            words.append(f"started {seconds(txn.started_ms)}")
        if txn.timeout_ms != TIMEOUT_MS:
            words.append(f"timeout {txn.timeout_ms}ms")
        if txn.version:
            words.append(f"v{txn.version}")
        return before + " ".join(word for word in words if word)


def stored(txn: Transaction, feature: int) -> Transaction:
    """What the log stores of it, by the level of the feature `transaction.version`."""
    txn = txn._replace(last_epoch=-1)
    if feature == 0:
        txn = txn._replace(previous_producer_id=-1, next_producer_id=-1, version=0)
    return txn


def partitions_of(command: Command) -> list[tuple[str, int]]:
    places = [word.rpartition("-") for word in command.words]
    return [(topic, int(index)) for topic, _, index in places]


def said_of(response: object) -> str:
    if isinstance(response, ProducerIdAndEpoch):
        return f"{response.producer_id}/{response.producer_epoch}"
    return "ok" if response is None else str(response)


def command_text(command: Any) -> str:
    if isinstance(command, ReserveProducerIds):
        return "reserve producer ids"
    name, producer_id, epoch, committed, partitions, version = command
    assert name == "x"
    places = ",".join(f"{topic}-{index}" for topic, index in partitions) or "no partition"
    result = "commit" if committed else "abort"
    return f"write {result} {producer_id}/{epoch} v{version} to {places}"


def seconds(at_ms: int) -> str:
    return f"{(at_ms - START_MS) / 1000:.12g}s"
