"""A driver as a process: requests to it, and its responses (see drivers/README.md)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from kavka.compat_tests.errors import DriverFailed, Refused
from kavka.compat_tests.records import (
    Json,
    Partition,
    Placed,
    Read,
    Record,
    Refusal,
    partitions_from_json,
)
from kavka.wire.errors import ErrorCode

START_S: Final = 60.0
"""Until a driver has answered `hello`: a Java machine beside others takes seconds."""

ANSWER_S: Final = 60.0
"""Beyond the time that a request itself names. Clients give up after 30 to 60 s."""

ASSIGNMENT_MS: Final = 500
CLIENT_ID: Final = "KAVKA_COMPAT_CLIENT_ID"
"""Of a driver's environment."""

LINE_BYTES_MAX: Final = 64 << 20
SHOWN_CHARS: Final = 600


class Program(NamedTuple):
    """How to start a driver: its first argument, the bootstrap servers, is added."""

    command: Sequence[str]
    environment: Mapping[str, str]

    def within(self, more: Mapping[str, str]) -> Program:
        """The same with more in its environment."""
        return self._replace(environment={**self.environment, **more})


class Driver:
    """One running driver; `kill` ends it."""

    def __init__(self, process: asyncio.subprocess.Process, errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._last_id = 0
        self._opened: set[str] = set()
        self._lock = asyncio.Lock()
        self.client = ""
        self.version = ""
        self.can: frozenset[str] = frozenset()
        self.broken: Mapping[str, str] = {}

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    @classmethod
    async def start(cls, program: Program, bootstrap: str, errors: Path) -> Driver:
        """One that has answered `hello`. `errors`: the file of its standard error."""
        with errors.open("wb") as stderr:
            try:
                process = await asyncio.create_subprocess_exec(
                    *program.command,
                    bootstrap,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=stderr,
                    env=dict(program.environment),
                    limit=LINE_BYTES_MAX,
                    start_new_session=True,
                )
            except OSError as failure:
                raise DriverFailed(f"{program.command[0]}: {failure.strerror}") from failure
        driver = cls(process, errors)
        try:
            found = await driver.ask("hello", within_s=START_S)
        except BaseException:
            await driver.kill()
            raise
        driver.client, driver.version = found["client"], found["version"]
        driver.can = frozenset(found["can"])
        driver.broken = found.get("broken", {})
        return driver

    async def ask(self, do: str, within_s: float = ANSWER_S, **arguments: Any) -> Json:
        """The result of a request. Refused; DriverFailed."""
        async with self._lock:
            self._note(do)
            self._last_id += 1
            request = {"id": self._last_id, "do": do}
            request |= {name: value for name, value in arguments.items() if value is not None}
            try:
                async with asyncio.timeout(within_s):
                    response = await self._exchange(request)
            except TimeoutError:
                raise DriverFailed(
                    f"no answer to {do} within {within_s:.0f} s{self._last_words()}"
                ) from None
        if "error" in response:
            raise Refused(_refusal(response["error"]))
        result: Json = response["result"]
        return result

    def _note(self, do: str) -> None:
        if do in ("producer", "consumer"):
            self._opened.add(do)
        else:
            self._opened.discard(do.removeprefix("close_"))

    async def _exchange(self, request: Json) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        with suppress(ConnectionError):  # its end is seen below, with its last words
            await self._process.stdin.drain()
        while line := await self._process.stdout.readline():
            response: Json = json.loads(line)
            if response["id"] == request["id"]:  # else of a request that took too long
                return response
        code = await self._process.wait()
        raise DriverFailed(f"ended in {request['do']} with code {code}{self._last_words()}")

    def _last_words(self) -> str:
        text = self._errors.read_text(errors="replace").strip()
        return f"; its last words: ...{text[-SHOWN_CHARS:]}" if text else ""

    async def send(self, topic: str, records: Sequence[Record]) -> list[Placed | Refusal]:
        """What became of each record."""
        spelled = [record.as_json() for record in records]
        found = await self.ask("send", topic=topic, records=spelled)
        return [_placed(outcome) for outcome in found["placed"]]

    async def poll(self, records: int, timeout_ms: int) -> list[Read]:
        """The next records, as soon as there are so many or the time is over."""
        within_s = timeout_ms / 1000 + ANSWER_S
        found = await self.ask("poll", within_s, records=records, timeout_ms=timeout_ms)
        return [Read.from_json(record) for record in found["records"]]

    async def assign(self, offsets: Mapping[Partition, int | str]) -> None:
        """Read partitions from offsets, or from their `earliest` or `latest` ones."""
        requested = [partition.as_json(offset=offset) for partition, offset in offsets.items()]
        await self.ask("assign", partitions=requested)

    async def assignment(self) -> frozenset[Partition]:
        """What the consumer reads, after it has polled for a while, as members of a group must."""
        found = await self.ask("assignment", timeout_ms=ASSIGNMENT_MS)
        return partitions_from_json(found["partitions"])

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets of the consumer's group."""
        requested = [partition.as_json(offset=offset) for partition, offset in offsets.items()]
        await self.ask("commit", offsets=requested)

    async def committed(self, partitions: Iterable[Partition]) -> list[int | None]:
        """Of the consumer's group."""
        requested = [partition.as_json() for partition in partitions]
        found = await self.ask("committed", partitions=requested)
        return [committed["offset"] for committed in found["offsets"]]

    async def reset(self) -> None:
        """Close its producer and its consumer, so that another scenario may have it. Refused;
        DriverFailed."""
        for request in ("close_producer", "close_consumer"):
            if request.removeprefix("close_") in self._opened:
                await self.ask(request)

    async def kill(self) -> None:
        """SIGKILL. Nothing happens if it has ended."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGKILL)  # with programs that it has started
            await self._process.wait()


def _refusal(error: Json) -> Refusal:
    name = error.get("name")
    if name is None:
        code = error["code"]
        name = ErrorCode(code).name if code in list(ErrorCode) else f"error {code}"
    return Refusal(name, error.get("message", ""))


def _placed(found: Json) -> Placed | Refusal:
    if "error" in found:
        return _refusal(found["error"])
    return Placed(found["partition"], found["offset"], found.get("timestamp"))


class Drivers:
    """Those of one client, which serve one scenario after the other."""

    def __init__(self, program: Program, bootstrap: str, directory: Path) -> None:
        """`directory`: for their standard errors."""
        self._program = program
        self._bootstrap = bootstrap
        self._directory = directory
        self._idle: list[Driver] = []
        self._count = 0
        self._others: dict[tuple[str, str | None], Drivers] = {}

    def other(self, bootstrap: str, client_id: str | None) -> Drivers:
        """Those of the same client at this address, and with this id; None: the library's own."""
        if (bootstrap, client_id) == (self._bootstrap, None):
            return self
        if (bootstrap, client_id) not in self._others:
            directory = self._directory / str(len(self._others) + 1)
            directory.mkdir()
            named = self._program.within({} if client_id is None else {CLIENT_ID: client_id})
            self._others[bootstrap, client_id] = Drivers(named, bootstrap, directory)
        return self._others[bootstrap, client_id]

    async def take(self) -> Driver:
        """One that has neither producer nor consumer. DriverFailed; Refused."""
        if self._idle:
            return self._idle.pop()
        self._count += 1
        errors = self._directory / f"driver-{self._count}.log"
        return await Driver.start(self._program, self._bootstrap, errors)

    async def give_back(self, driver: Driver) -> None:
        """For the next scenario, unless it has ended. Refused; DriverFailed."""
        if driver.runs:
            try:
                await driver.reset()
            except BaseException:
                await driver.kill()
                raise
            self._idle.append(driver)

    async def kill(self) -> None:
        """End all that are idle, at all addresses."""
        for drivers in self._others.values():
            await drivers.kill()
        while self._idle:
            await self._idle.pop().kill()
