"""The purgatory: who waits is woken by a change or by the deadline, once, and leaves nothing."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from weakref import ref

import pytest

from kavka.server.runtime.purgatory import KEYS_PER_STEP, Purgatory
from kavka.wire.steps import Steps
from support.asynchronous import ran_by
from support.virtual import VirtualClock, VirtualTasks, run_until_idle


def run(scenario: Callable[[Purgatory, VirtualTasks], Awaitable[None]]) -> None:
    async def main() -> None:
        clock = VirtualClock()
        tasks = VirtualTasks(clock)
        await scenario(Purgatory(clock, tasks), tasks)

    asyncio.run(main())


with_purgatory = ran_by(run)


def note(calls: list[int]) -> bool:
    """Count the question, and say no."""
    calls.append(1)
    return False


@with_purgatory
async def test_a_change_that_makes_it_ready_ends_the_wait(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    state = {"ready": False}
    waiting = purgatory.wait(["a", "b"], lambda: state["ready"], 1.0)
    purgatory.changed("b")
    await run_until_idle()
    assert not waiting.done()
    state["ready"] = True
    purgatory.changed("a")
    assert not waiting.done(), "waiters are asked in the next iteration"
    await run_until_idle()
    assert waiting.result() is True
    assert len(purgatory) == 0
    await tasks.advance(1000)
    assert tasks.pending_timers == 0


@with_purgatory
async def test_a_fault_in_one_does_not_keep_others_waiting(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: faults.append(str(context["exception"]))
    )

    def faulty() -> bool:
        raise ValueError("planted")

    calls: list[int] = []
    first, second = purgatory.wait(["a"], faulty, 0.5), purgatory.wait(["a"], faulty, 0.5)
    third = purgatory.wait(["a"], lambda: True, 0.5)
    fourth = purgatory.wait(["a"], lambda: note(calls), 0.5)
    purgatory.changed("a")
    await run_until_idle()
    assert faults == ["planted", "planted"]
    assert third.result() is True and calls == [1]
    assert not any(wait.done() for wait in (first, second, fourth))
    await tasks.advance(500)
    assert first.result() is False


@with_purgatory
async def test_the_deadline_ends_it_with_false(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    waiting = purgatory.wait(["a"], lambda: False, 0.5)
    await tasks.advance(499)
    assert not waiting.done()
    await tasks.advance(1)
    assert waiting.result() is False
    await run_until_idle()
    assert len(purgatory) == 0


@with_purgatory
async def test_cancelling_forgets_it(purgatory: Purgatory, tasks: VirtualTasks, /) -> None:
    waiting = purgatory.wait(["a"], lambda: True, 0.5)
    waiting.cancel()
    await run_until_idle()
    assert len(purgatory) == 0
    purgatory.changed("a")
    await tasks.advance(1000)
    assert tasks.pending_timers == 0


@with_purgatory
async def test_many_changes_in_an_iteration_are_checked_once(purgatory: Purgatory, /) -> None:
    calls: list[int] = []
    purgatory.wait(["a", "b"], lambda: note(calls), 10)
    for _ in range(5):
        purgatory.changed("a")
        purgatory.changed("b")
    await run_until_idle()
    assert len(calls) == 1


@with_purgatory
async def test_other_keys_do_not_wake(purgatory: Purgatory, /) -> None:
    calls: list[int] = []
    purgatory.wait(["a"], lambda: note(calls), 10)
    purgatory.changed("c")
    await run_until_idle()
    assert not calls


@with_purgatory
async def test_waiting_and_expired_requests_are_counted_by_operation(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    purgatory.wait(["a", "b"], lambda: True, 1, "Fetch")
    purgatory.wait(["a"], lambda: False, 1, "Fetch")
    purgatory.wait(["c"], lambda: False, 9, "Produce").cancel()
    await run_until_idle()
    assert purgatory.waiting == {"Fetch": 2, "Produce": 0}
    assert purgatory.watched == {"Fetch": 3, "Produce": 0}
    purgatory.changed("b")
    await run_until_idle()
    assert purgatory.waiting["Fetch"] == purgatory.watched["Fetch"] == 1
    assert purgatory.expired == {}
    await tasks.advance(1000)
    await run_until_idle()
    assert purgatory.waiting == purgatory.watched == {"Fetch": 0, "Produce": 0}
    assert purgatory.expired == {"Fetch": 1}


@with_purgatory
async def test_watchers_are_notified_once_for_the_changes_of_an_iteration(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    seen: list[int] = []
    watching = purgatory.watch("a", lambda: seen.append(1))
    for expected in (1, 2):
        purgatory.changed("a")
        purgatory.changed("a")
        purgatory.changed("b")
        assert len(seen) == expected - 1
        await run_until_idle()
        assert len(seen) == expected
    assert tasks.pending_timers == 0
    assert not purgatory.waiting
    watching.cancel()
    purgatory.changed("a")
    await run_until_idle()
    assert len(seen) == 2
    assert len(purgatory) == 0


# -- in slices ---------------------------------------------------------------------------------

MANY = 1_000


@with_purgatory
async def test_a_thousand_waiters_are_checked_a_few_in_each_iteration_and_in_order(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    calls: list[int] = []

    def ask(number: int) -> bool:
        calls.append(number)
        return True

    waiting = [purgatory.wait(["a"], partial(ask, number), 10) for number in range(MANY)]
    purgatory.changed("a")
    most = before = 0
    while len(calls) < MANY:
        await asyncio.sleep(0)
        most, before = max(most, len(calls) - before), len(calls)
    assert calls == list(range(MANY))
    assert most <= KEYS_PER_STEP
    assert all(wait.result() for wait in waiting)
    await run_until_idle()
    assert len(purgatory) == 0


class Records:
    """What an answer is made of, and is to be gone with it."""


@pytest.mark.parametrize("ends", ["by a change", "by its deadline"])
@with_purgatory
async def test_a_completed_waiter_is_released_while_the_rest_are_checked(
    purgatory: Purgatory, tasks: VirtualTasks, /, ends: str
) -> None:
    """A fetch knows the buffers that it was answered from, and others get these soon."""
    records = Records()
    calls: list[int] = []

    def look(held: Records) -> bool:
        return ends == "by a change" and held is not None

    first = purgatory.wait(["a"], partial(look, records), 0.5)
    for _ in range(MANY):
        purgatory.wait(["a"], lambda: note(calls), 10)
    of_first = ref(records)
    del records
    purgatory.changed("a")
    await tasks.advance(500)
    assert first.result() is (ends == "by a change")
    assert len(calls) < MANY, "all have been asked"
    assert of_first() is None


@with_purgatory
async def test_endless_changes_do_not_starve_other_keys(purgatory: Purgatory, /) -> None:
    calls: list[int] = []
    for _ in range(MANY):
        purgatory.wait(["a"], lambda: note(calls), 10)
    last = purgatory.wait(["b"], lambda: True, 10)
    purgatory.changed("a")
    purgatory.changed("b")
    iterations = 0
    while not last.done():
        await asyncio.sleep(0)
        purgatory.changed("a")
        iterations += 1
        assert iterations <= 2 * MANY // KEYS_PER_STEP, "it came after those of later changes"
    # Who was asked before a change is asked once more for it.
    before = len(calls)
    await run_until_idle(3 * MANY // KEYS_PER_STEP)
    assert len(calls) >= before + MANY


@with_purgatory
async def test_a_deadline_that_passes_before_it_is_asked_ends_the_wait_once(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    calls: list[int] = []
    for _ in range(MANY):
        purgatory.wait(["a"], lambda: note(calls), 10, "Fetch")
    last = purgatory.wait(["a"], lambda: note(calls), 0.5, "Fetch")
    purgatory.changed("a")
    await tasks.advance(500)
    assert len(calls) < MANY, "its turn must not have come"
    assert last.result() is False
    await run_until_idle(2 * MANY // KEYS_PER_STEP)
    assert len(calls) == MANY
    assert purgatory.expired == {"Fetch": 1}


@with_purgatory
async def test_a_check_in_slices_is_interleaved_with_others(purgatory: Purgatory, /) -> None:
    steps: list[int] = []

    def slowly() -> Steps[bool]:
        for number in range(100):
            steps.append(number)
            yield None
        return True

    slow = purgatory.wait(["a"], slowly, 10)
    quick = purgatory.wait(["a"], lambda: True, 10)
    purgatory.changed("a")
    for turn in range(1, 51):
        await asyncio.sleep(0)
        assert len(steps) <= turn and not slow.done()
    await run_until_idle(60)
    assert slow.result() is True and quick.result() is True


@pytest.mark.parametrize("ends", ["deadline", "cancelled"])
@with_purgatory
async def test_one_whose_wait_ends_while_it_looks_looks_no_further(
    purgatory: Purgatory, tasks: VirtualTasks, /, ends: str
) -> None:
    steps: list[int] = []

    def slowly() -> Steps[bool]:
        while True:
            steps.append(1)
            yield None

    slow = purgatory.wait(["a"], slowly, 0.5, "Fetch")
    after = purgatory.wait(["a"], lambda: True, 10)
    purgatory.changed("a")
    await run_until_idle(5)
    assert len(steps) > 1
    if ends == "deadline":
        await tasks.advance(500)
        assert slow.result() is False
    else:
        slow.cancel()
    await run_until_idle(5)
    done = len(steps)
    await run_until_idle(5)
    assert len(steps) == done and after.result() is True
    assert len(purgatory) == 0


@with_purgatory
async def test_changes_while_one_looked_before_it_waited_count(purgatory: Purgatory, /) -> None:
    noted = purgatory.note_changes()
    purgatory.changed("b")
    received = purgatory.wait(["a", "b"], lambda: True, 10, noted=noted)
    others = purgatory.wait(["a", "c"], lambda: True, 10, noted=noted)
    purgatory.end_notes(noted)
    await run_until_idle()
    assert received.result() is True and not others.done()
    purgatory.changed("c")
    await run_until_idle()
    assert others.result() is True
    assert list(noted) == ["b"]


@pytest.mark.parametrize("seed", range(20))
@with_purgatory
async def test_no_waiter_is_forgotten_in_any_interleaving(
    purgatory: Purgatory, tasks: VirtualTasks, /, seed: int
) -> None:
    """A key has a level that only rises, and a waiter wants one of some key: as of partitions and
    offsets. In the end each waiter whose level is reached has ended, or its time was over."""
    chance = random.Random(seed)
    levels = dict.fromkeys("abcdefgh", 0)
    waiting = []

    def wait() -> None:
        keys = chance.sample(sorted(levels), chance.randint(1, 5))
        awaited = {key: levels[key] + chance.randint(1, 30) for key in keys}

        def is_reached() -> bool:
            return any(levels[key] >= level for key, level in awaited.items())

        def slowly() -> Steps[bool]:
            for key, level in awaited.items():
                yield None
                if levels[key] >= level:
                    return True
            return False

        ready = chance.choice([is_reached, slowly])
        timeout_s = chance.choice([0.05, 1000])
        waiting.append((purgatory.wait(keys, ready, timeout_s), is_reached))  # type: ignore[arg-type]

    for _ in range(400):
        for _ in range(chance.randint(0, 8)):
            wait()
        for _ in range(chance.randint(0, 3)):
            key = chance.choice(sorted(levels))
            levels[key] += chance.randint(1, 3)
            purgatory.changed(key)
        if chance.random() < 0.05:
            chance.choice(waiting)[0].cancel()
        if chance.random() < 0.1:
            await tasks.advance(chance.choice([1, 60]))
        await run_until_idle(chance.randint(0, 3))
    await run_until_idle(len(waiting))
    for future, is_reached in waiting:
        if future.cancelled():
            continue
        if future.done():
            assert not future.result() or is_reached()
        else:
            assert not is_reached()
    await tasks.advance(2_000_000)
    assert all(future.done() for future, _ in waiting)
    assert tasks.pending_timers == 0


@pytest.mark.parametrize(("ends", "outcome"), [("change", True), ("deadline", False)])
@with_purgatory
async def test_callbacks_are_called_at_the_end_also_behind_one_that_fails(
    purgatory: Purgatory, tasks: VirtualTasks, /, ends: str, outcome: bool
) -> None:
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: faults.append(str(context["exception"]))
    )
    ended: list[tuple[str, bool | None]] = []

    def fail(_: bool | None) -> None:
        raise RuntimeError("ours")

    first = purgatory.begin(["a"], lambda: ends == "change", 0.5)
    first.add_callback(fail)
    first.add_callback(lambda found: ended.append(("first", found)))
    second = purgatory.begin(["a"], lambda: ends == "change", 0.5)
    second.add_callback(lambda found: ended.append(("second", found)))
    if ends == "change":
        purgatory.changed("a")
    await tasks.advance(500)
    assert ended == [("first", outcome), ("second", outcome)]
    assert faults == ["ours"]
    first.cancel()
    purgatory.changed("a")
    await tasks.advance(1000)
    assert len(ended) == 2 and len(purgatory) == 0


@with_purgatory
async def test_a_cancelled_wait_says_so_at_once(
    purgatory: Purgatory, tasks: VirtualTasks, /
) -> None:
    ended: list[bool | None] = []
    wait = purgatory.begin(["a"], lambda: True, 0.5, "Fetch")
    wait.add_callback(ended.append)
    future = purgatory.begin(["a"], lambda: True, 0.5, "Fetch").future()
    wait.cancel()
    future.cancel()
    assert ended == [None]
    await run_until_idle()
    assert purgatory.waiting == {"Fetch": 0} and len(purgatory) == 0
    await tasks.advance(1000)
    assert ended == [None] and purgatory.expired == {}
