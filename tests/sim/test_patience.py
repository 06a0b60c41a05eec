"""What actors make of answers that leave open what was done, and of brokers that are held up."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kavka.wire.errors import ErrorCode as Code
from sim.admins import Lives
from sim.client import Client
from sim.faults import Faults
from sim.groups import Member
from sim.history import History
from sim.machine import Machine
from sim.plan import Fault
from sim.probers import Prober
from sim.readers import Reader
from sim.world import World
from support.logs import batch


@pytest.mark.parametrize(
    ("code", "is_refused"),
    [
        (Code.ILLEGAL_GENERATION, True),
        (Code.COORDINATOR_LOAD_IN_PROGRESS, True),
        (Code.COORDINATOR_NOT_AVAILABLE, False),
        (Code.NOT_COORDINATOR, False),
    ],
)
async def test_a_commit_that_timed_out_may_be_written(code: Code, is_refused: bool) -> None:
    async def ask(*_: object, **values: Any) -> object:
        partition = SimpleNamespace(partition_index=0, error_code=int(code))
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])

    history = History(lambda: 1.0)
    member = SimpleNamespace(
        name="m", membership=SimpleNamespace(group="g", topic="t"), history=history
    )
    client = cast(Client, SimpleNamespace(ask=ask))
    found = await Member._commit(cast(Member, member), {0: 5}, 1, {"member_id": "id"}, client)
    assert found == {code}
    (commit,) = history.commits
    assert (commit.is_refused, commit.acknowledged_s) == (is_refused, None)


@pytest.mark.parametrize(
    ("kind", "is_up_after"), [("disk stuck", "stuck"), ("cut from zookeeper", "cut off")]
)
async def test_what_is_slow_holds_requests_up(kind: str, is_up_after: str) -> None:
    machine = SimpleNamespace(name="broker1", stuck_until_s=0.0, cut_off_until_s=0.0)
    network = SimpleNamespace(cut=lambda *_: None, heal=lambda: None)
    world = SimpleNamespace(
        machine=machine,
        network=network,
        loop=SimpleNamespace(now_s=100.0),
        trace=SimpleNamespace(add=lambda *_: None),
    )
    await Faults(cast(World, world)).happen(Fault(kind, 0.0, 0.001, is_both_ways=True))
    held_up = cast(property, Machine.__dict__["held_up_until_s"]).fget
    assert held_up is not None
    assert held_up(machine) == pytest.approx(100.001)
    changed = {"stuck": machine.stuck_until_s, "cut off": machine.cut_off_until_s}
    assert changed.pop(is_up_after) > 100
    assert list(changed.values()) == [0.0]


async def test_a_reader_waits_until_a_new_leader_knows_the_high_watermark() -> None:
    """Also of a topic from which records may be deleted: there an empty response may be the end."""
    values = [b"a", b"b", b"c", b"d"]
    answers = iter([(0, b""), (0, b""), (len(values), bytes(batch(values)))])

    async def ask(*_: object, **values: Any) -> object:
        high_watermark, records = next(answers)
        partition = SimpleNamespace(
            error_code=0,
            high_watermark=high_watermark,
            last_stable_offset=high_watermark,
            aborted_transactions=None,
            records=records,
        )
        return SimpleNamespace(error_code=0, responses=[SimpleNamespace(partitions=[partition])])

    async def leader(*_: object) -> tuple[object, int]:
        return SimpleNamespace(ask=ask), 1

    client = SimpleNamespace(leader=leader, process=SimpleNamespace(name="r"))
    history = History(lambda: 1.0)
    history.loses()
    reader = Reader(cast(Client, client), history, ("t", 0), compacted=True)
    await reader.run(until_end=True, at_least=lambda: len(values))
    assert [record.value for record in reader.reading.records] == values


@pytest.mark.parametrize("in_cluster", [False, True])
async def test_a_former_leader_may_answer_until_it_hears_of_its_successor(
    in_cluster: bool,
) -> None:
    answers = iter([7, 7, 85])

    async def ask(*_: object, **values: Any) -> object:
        partition = SimpleNamespace(error_code=0, offset=next(answers))
        return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])

    client = SimpleNamespace(ask=ask, refresh=lambda: None, process=SimpleNamespace(name="q"))
    history = History(lambda: 1.0)
    history.ends["t", 0] = 85
    brokers = SimpleNamespace(held_up_until_s=0.0) if in_cluster else None
    prober = Prober(
        cast(Client, client), history, random.Random(1), [("t", 0)], cast(Lives, brokers)
    )
    await prober._end()
    assert len(history.violations) == (0 if in_cluster else 1)
