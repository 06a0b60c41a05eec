"""The runner of a journal by the scenarios in `tests/scenarios/journal_runner/`: the machine is a
`Toy`, whose log is partition 0 of "t".

After the responses, a line has the log, the commands executed so far and the runner's state, if
they have changed.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable

import pytest

from kavka.log.errors import CorruptLogError
from kavka.log.journal import Decision, JournalRecord, Producer, ReplyFuture
from kavka.log.txn_guards import NOT_NEEDED
from kavka.server.coordinators import serial_queue
from kavka.wire.errors import ApiError, ErrorCode
from support.coordinator_machine import CoordinatorMachine, contents
from support.memory_broker import DATA, NEVER_AWAITED
from support.scenarios import Command, Scenario, duration_ms, scenario_files
from support.toy_machine import Toy
from support.toy_runner import NOT_COORDINATOR, Kit


@NEVER_AWAITED
@scenario_files("journal_runner")
def test_scenarios(
    scenario: Scenario,
    rewrite: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Runners(caplog, monkeypatch) as machine:
        scenario.check(machine, rewrite)


class FailingToy(Toy):
    """A machine that fails when it is loaded, or as often as `failures` when a timer expires."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.failures = 0

    def loaded(self, now_ms: int) -> Iterable[Decision]:
        if self.fails:
            raise ValueError("planted")
        return super().loaded(now_ms)

    def expire(self, key: Hashable, now_ms: int) -> Decision:
        if self.failures:
            self.failures -= 1
            raise ValueError("planted")
        return super().expire(key, now_ms)


class Runners(CoordinatorMachine):
    """The runner in use, made when it is first needed."""

    _kit: Kit | None = None

    @property
    def kit(self) -> Kit:
        if self._kit is None:
            self.toy = FailingToy(fails=False)
            self._kit = Kit(self.broker, self.toy)
        return self._kit

    async def look(self) -> dict[str, str]:
        replica, kit = self.broker.replica(), self._kit
        try:
            log = contents(replica.log, replica.partition.high_watermark)
        except CorruptLogError:
            log = "damaged"
        states = "active" if kit is None or kit.runner.is_active else "inactive"
        return {
            "log": log,
            "commands": " ".join(map(str, kit.commands)) if kit else "",
            "runner": "failed" if kit and kit.runner.failed else states,
        }

    def do_runner(self, command: Command) -> list[str]:
        """Another runner of another machine, over the same log; perhaps one that `fails`, or that
        has a decision to carry out for each of `first=`."""

        def begin() -> None:
            self.toy = FailingToy(fails="fails" in command.words)
            for key in command.list("first"):
                self.toy.first.append(Decision([JournalRecord(key.encode(), b"1")], commands=[key]))
            self._kit = Kit(self.broker, self.toy)

        return self.then(begin)

    # -- requests

    def do_put(self, command: Command) -> list[str]:
        """Set a number; with `pauses=` it is long, and with `fails=` it fails in the end."""
        key, value = (word.encode() for word in command.words[:2])
        if b"*" in value:
            value = b"x" * int(value[2:])
        pauses, code = command.number("pauses"), command.text("fails")
        failure = ApiError(ErrorCode[code]) if code in ErrorCode.__members__ else ValueError(code)
        producer = None
        if "producer" in command:
            guard = None if "unverified" in command.words else NOT_NEEDED
            producer = Producer(command.number("producer"), 1, guard)
        given = command.get("command")

        def put(toy: Toy, future: ReplyFuture, now_ms: int) -> object:
            if pauses:
                return toy.put_slowly(future, key, value, pauses, failure if code else None)
            return toy.put(future, key, value, producer=producer, command=given)

        name = f"put {command.words[0]}"
        return self.request(name, lambda: self.kit.runner.call(put))  # type: ignore[arg-type]

    def do_park(self, command: Command) -> list[str]:
        """Count after a time, and answer then; or, if `refused`, refuse this, or, if it is a
        `read`, fail it, which changes nothing of the timer."""
        key, delay_ms = command.words[0].encode(), duration_ms(command.words[1])
        commands, refused = command.list("commands"), command.get("refused")

        def park(toy: Toy, future: ReplyFuture, now_ms: int) -> Decision:
            decision = toy.park(future, key, now_ms + delay_ms)
            decision.commands += commands
            if refused:
                raise ApiError(ErrorCode[refused])
            return decision

        if "read" in command.words:
            return self.request(
                "read",
                lambda: self.kit.runner.read(lambda toy, now: park(toy, ReplyFuture(), now)),
            )
        return self.request(f"park {command.words[0]}", lambda: self.kit.runner.call(park))

    def do_read(self, command: Command) -> list[str]:
        """Read a number."""
        key = command.words[0].encode()
        return self.request(f"read {command.words[0]}", lambda: self.kit.read(key))

    def do_try_read(self, command: Command) -> list[str]:
        """Read a number, if that is possible at once."""
        return self.request(
            "try_read", lambda: self.kit.runner.try_read(lambda toy, _: toy.numbers.get(b"a"))
        )

    def do_marker(self, command: Command) -> list[str]:
        """The commit marker of a producer was appended."""
        producer_id = int(command.words[0])
        return self.then(lambda: self.kit.runner.marker_appended(producer_id, 1, True))

    def do_cancel(self, command: Command) -> list[str]:
        """The caller of the first pending request does not wait any longer."""
        name, answer = self.pending[0]
        return self.then(answer.cancel)

    def do_abandon(self, command: Command) -> list[str]:
        """The first pending request has no caller any more, but was not cancelled."""
        del self.pending[0]
        return []

    # -- what happens

    def do_close(self, command: Command) -> list[str]:
        """The runner is closed."""

        def close() -> None:
            self.kit.runner.close(NOT_COORDINATOR)
            gc.collect()  # asyncio would log an exception that was never retrieved

        return self.then(close)

    def do_timers(self, command: Command) -> list[str]:
        """How many timers there are."""
        return [f"{self.broker.tasks.pending_timers} timers"]

    def do_timer_fails(self, command: Command) -> list[str]:
        """The next timer that expires fails."""
        self.toy.failures = 1
        return []

    def do_new_epoch(self, command: Command) -> list[str]:
        """This broker leads in another epoch, and the runner was not closed yet."""
        listeners = self.broker.parts.replicas.role_listeners
        listeners["t"] = lambda replica: None
        command.words = ["t-0"]
        return self.do_lead(command)

    def do_damage(self, command: Command) -> list[str]:
        """The length of the first batch is wrong."""
        self.broker.fs.open(f"{DATA}/t-0/{0:020}.log").pwrite(b"\0\0\0\1", 8)
        return []

    def do_clock(self, command: Command) -> list[str]:
        """The wall clock is set by so much."""
        sign = -1 if command.words[0][0] == "-" else 1
        self.broker.clock.set(sign * duration_ms(command.words[0].lstrip("+-")))
        return []

    def do_single_steps(self, command: Command) -> list[str]:
        """Long requests do one step in each iteration of the event loop."""
        self.patch.setattr(serial_queue, "TICK_SLICE_S", -1.0)
        return []
