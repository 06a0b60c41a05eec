"""The purgatory: who waits is woken by a change or by the deadline, once, and leaves nothing."""

import asyncio
from collections.abc import Awaitable, Callable

from kavka.server.delayed import Purgatory
from support.virtual import VirtualClock, VirtualTasks, settle


def run(scenario: Callable[[Purgatory, VirtualTasks], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        tasks = VirtualTasks(clock)
        await scenario(Purgatory(tasks), tasks)

    asyncio.run(main())


def note(asked: list[int]) -> bool:
    """Count the question, and say no."""
    asked.append(1)
    return False


def test_a_change_that_makes_it_ready_ends_the_wait() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        state = {"ready": False}
        waiting = purgatory.wait(["a", "b"], lambda: state["ready"], 1.0)
        purgatory.changed("b")
        await settle()
        assert not waiting.done()
        state["ready"] = True
        purgatory.changed("a")
        assert not waiting.done(), "waiters are asked in the next turn"
        await settle()
        assert waiting.result() is True
        assert len(purgatory) == 0
        assert tasks.pending_timers == 0

    run(scenario)


def test_a_fault_in_one_does_not_keep_others_waiting() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        faults: list[str] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: faults.append(str(context["exception"]))
        )

        def faulty() -> bool:
            raise ValueError("planted")

        asked: list[int] = []
        first, second = purgatory.wait(["a"], faulty, 0.5), purgatory.wait(["a"], faulty, 0.5)
        third = purgatory.wait(["a"], lambda: True, 0.5)
        fourth = purgatory.wait(["a"], lambda: note(asked), 0.5)
        purgatory.changed("a")
        await settle()
        assert faults == ["planted", "planted"]
        assert third.result() is True and asked == [1]
        assert not any(one.done() for one in (first, second, fourth))
        await tasks.advance(500)
        assert first.result() is False

    run(scenario)


def test_the_deadline_ends_it_with_false() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        waiting = purgatory.wait(["a"], lambda: False, 0.5)
        await tasks.advance(499)
        assert not waiting.done()
        await tasks.advance(1)
        assert waiting.result() is False
        await settle()
        assert len(purgatory) == 0

    run(scenario)


def test_cancelling_forgets_it() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        waiting = purgatory.wait(["a"], lambda: True, 0.5)
        waiting.cancel()
        await settle()
        assert len(purgatory) == 0
        assert tasks.pending_timers == 0
        purgatory.changed("a")
        await tasks.advance(1000)

    run(scenario)


def test_many_changes_of_a_turn_ask_once() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        asked: list[int] = []
        purgatory.wait(["a", "b"], lambda: note(asked), 10)
        for _ in range(5):
            purgatory.changed("a")
            purgatory.changed("b")
        await settle()
        assert len(asked) == 1

    run(scenario)


def test_other_keys_do_not_wake() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        asked: list[int] = []
        purgatory.wait(["a"], lambda: note(asked), 10)
        purgatory.changed("c")
        await settle()
        assert not asked

    run(scenario)


def test_who_waits_and_who_waited_in_vain_is_counted_by_operation() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        purgatory.wait(["a", "b"], lambda: True, 1, "Fetch")
        purgatory.wait(["a"], lambda: False, 1, "Fetch")
        purgatory.wait(["c"], lambda: False, 9, "Produce").cancel()
        await settle()
        assert purgatory.waiting == {"Fetch": 2, "Produce": 0}
        assert purgatory.watched == {"Fetch": 3, "Produce": 0}
        purgatory.changed("b")
        await settle()
        assert purgatory.waiting["Fetch"] == purgatory.watched["Fetch"] == 1
        assert purgatory.expired == {}
        await tasks.advance(1000)
        await settle()
        assert purgatory.waiting == purgatory.watched == {"Fetch": 0, "Produce": 0}
        assert purgatory.expired == {"Fetch": 1}

    run(scenario)


def test_who_watches_is_told_once_for_the_changes_of_a_turn() -> None:
    async def scenario(purgatory: Purgatory, tasks: VirtualTasks) -> None:
        seen: list[int] = []
        watching = purgatory.watch("a", lambda: seen.append(1))
        for expected in (1, 2):
            purgatory.changed("a")
            purgatory.changed("a")
            purgatory.changed("b")
            assert len(seen) == expected - 1
            await settle()
            assert len(seen) == expected
        assert tasks.pending_timers == 0
        assert not purgatory.waiting
        watching.cancel()
        purgatory.changed("a")
        await settle()
        assert len(seen) == 2
        assert len(purgatory) == 0

    run(scenario)
