"""Several questions for one answer: what is answered at once, later, or refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

from kavka.server.handlers.common.coordinator_calls import CoordinatorCalls
from kavka.server.request.context import Peer, RequestContext
from kavka.wire.apis import end_txn
from kavka.wire.errors import ApiError, ErrorCode
from kavka.wire.steps import Steps
from support.virtual import VirtualClock, VirtualTasks, run_until_idle


class Story:
    """One request, and what comes of it."""

    def __init__(self) -> None:
        broker: Any = SimpleNamespace(tasks=VirtualTasks(VirtualClock()))
        self.calls = CoordinatorCalls(broker, end_txn.API)
        self.context = RequestContext(Peer("PLAINTEXT", "127.0.0.1:5"), 0, 1, None)
        self.received: list[object] = []

    def take(self, question: Callable[[], Any]) -> None:
        self.calls.submit(question, self.received.append, self.received.append)

    def run(self, *questions: Callable[[], Any], pauses: bool = False) -> Any:
        def steps() -> Steps[None]:
            for question in questions:
                self.take(question)
                if pauses:
                    yield None

        return self.calls.run(
            self.context, steps(), lambda: end_txn.EndTxnResponse(len(self.received))
        )


class Names:
    """What runs a machine that knows some names, and nothing else."""

    def __init__(self, *machine: str) -> None:
        self.machine = machine

    def read(self, look: Callable[[Sequence[str], int], Any]) -> Any:
        if self.machine == ("lost",):
            refused()
        return look(self.machine, 77)


def refused() -> None:
    raise ApiError(ErrorCode.NOT_COORDINATOR)


async def refused_later() -> None:
    refused()


async def later() -> str:
    return "later"


async def test_questions_may_go_by_answers() -> None:
    story = Story()

    def steps() -> Steps[None]:
        for question in (lambda: "now", later, refused_later):
            story.take(question)
            yield from story.calls.wait_for_results()
            story.received.append("known")

    answer = story.calls.run(story.context, steps(), lambda: end_txn.EndTxnResponse(7))
    assert story.received == ["now", "known"]
    await answer
    assert story.received[2:] == ["later", "known", ErrorCode.NOT_COORDINATOR, "known"]


def test_what_is_answered_at_once_needs_no_task() -> None:
    story = Story()
    answer = story.run(lambda: "now", refused)
    assert answer == end_txn.EndTxnResponse(2)
    assert story.received == ["now", ErrorCode.NOT_COORDINATOR]
    assert story.context.applied is None


async def test_what_comes_later_is_waited_for() -> None:
    story = Story()
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    answer = story.run(lambda: future, later, refused_later, lambda: "now")
    assert story.received == ["now"]
    assert story.context.applied is None, "all is asked: others may be"
    future.set_result("first")
    assert await answer == end_txn.EndTxnResponse(4)
    assert story.received == ["now", "first", "later", ErrorCode.NOT_COORDINATOR]


async def test_what_takes_slices_is_not_overtaken() -> None:
    story = Story()
    answer: Awaitable[Any] = story.run(*[lambda: "now"] * 3, pauses=True)
    assert story.received == ["now"]
    assert story.context.applied is not None and not story.context.applied.done()
    task = asyncio.ensure_future(answer)
    await run_until_idle()
    assert story.received == ["now"] * 3
    assert story.context.applied.done()
    assert task.done()


def test_all_names_of_all_machines_are_looked_at_in_parts() -> None:
    def look(part: Sequence[str], machine: Sequence[str], now_ms: int) -> tuple[str, int, int]:
        return "".join(part), len(machine), now_ms

    story = Story()
    runners: list[Any] = [Names(*names) for names in ("", "abcde", "", "f", ["lost"], "gh")]
    work = story.calls.read_all(
        runners, iter, 2, look, story.received.append, story.received.append
    )
    received = []
    for _ in work:
        received.append(len(story.received))
    assert story.received == [
        ("", 0, 77),
        ("ab", 5, 77),
        ("cd", 5, 77),
        ("e", 5, 77),
        ("", 0, 77),
        ("f", 1, 77),
        ErrorCode.NOT_COORDINATOR,
        ("gh", 2, 77),
    ]
    assert received == [2, 3, 4, 6, 7, 8]
