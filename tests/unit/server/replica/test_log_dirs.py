"""A log directory that the broker has used before and does not find at its start.

What was written before is the judge: it is read again when the directory is back, and nothing is
read or written in its place meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from kavka.compat_tests.raw.codec.batches import build
from kavka.log.errors import StorageError
from kavka.log.memfs import MemFs
from kavka.server.start_checks import StartError
from kavka.wire.errors import ErrorCode as Code
from kavka.zktree import paths
from support.memory_broker import NEVER_AWAITED, MemoryBroker, scenario
from support.mortal_broker import MortalBroker

TWO = "log.dirs=/data,/more"
"""Partitions with even numbers get to /data, which has the metadata too, the others to /more."""

RECORDS = 3
TURNS_MAX = 20_000
"""Of the loop, that a start and a new topic may take."""


async def write(broker: MemoryBroker) -> None:
    """A batch into each of the four partitions of the topic."""
    for index in range(4):
        answer = await broker.produce(build(), partition=index)
        assert (answer.error_code, answer.base_offset) == (Code.NONE, 0)


async def check_offline(broker: MemoryBroker, *, path: str = "/more") -> None:
    """Partitions of /more are offline and not empty, and an operator can see why."""
    for index in range(4):
        end = await broker.list_offset(-1, partition=index)
        produced = await broker.produce(build(), partition=index)
        read = await broker.fetch(0, partition=index)
        if index % 2:
            assert end.error_code == Code.KAFKA_STORAGE_ERROR
            assert produced.error_code == Code.KAFKA_STORAGE_ERROR
            assert read.error_code == Code.KAFKA_STORAGE_ERROR
        else:
            assert produced.error_code == Code.NONE
    health = broker.instance.health()
    assert not health.is_healthy
    (problem,) = health.problems
    assert problem.startswith(f"the log directory {path} failed")
    assert lost_id(broker) in problem
    assert f"kavka.lost.log.dirs={lost_id(broker)}" in problem


def lost_id(broker: MemoryBroker) -> str:
    """The id of the directory that was at /more at the first start."""
    return str(broker.__dict__["more_id"])


async def check_whole(broker: MemoryBroker) -> None:
    """What was written first is there in all partitions."""
    for index in range(4):
        assert len(await broker.read_all(partition=index)) >= RECORDS
    assert broker.instance.health().is_healthy


def id_of(fs: MemFs, path: str) -> str:
    """The directory id in a directory."""
    text = fs.read_bytes(f"{path}/meta.properties").decode()
    return text.partition("directory.id=")[2].strip()


def move(fs: MemFs, old: str, new: str) -> None:
    fs.rename(old, new)


def unmount(fs: MemFs) -> None:
    """Its mount point is an empty directory."""
    move(fs, "/more", "/disk")
    fs.make_dir("/more")


def mount(fs: MemFs) -> None:
    fs.remove_tree("/more")
    move(fs, "/disk", "/more")


def take_away(fs: MemFs) -> None:
    """Nothing is left at its path."""
    move(fs, "/more", "/disk")


def bring_back(fs: MemFs) -> None:
    move(fs, "/disk", "/more")


def forget_owner(fs: MemFs) -> None:
    move(fs, "/more/meta.properties", "/more/kept")


def put_owner_back(fs: MemFs) -> None:
    move(fs, "/more/kept", "/more/meta.properties")


async def prepare(broker: MemoryBroker) -> None:
    await write(broker)
    broker.__dict__["more_id"] = id_of(broker.fs, "/more")


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("lose", "give_back"),
    [(unmount, mount), (take_away, bring_back), (forget_owner, put_owner_back)],
)
@scenario(TWO, topics={"t": 4})
async def test_partitions_stay_offline_until_their_directory_is_back(
    broker: MemoryBroker,
    lose: Callable[[MemFs], None],
    give_back: Callable[[MemFs], None],
    killed: bool,
) -> None:
    await prepare(broker)
    await (broker.die() if killed else broker.stop())
    lose(broker.fs)
    before = broker.fs.list_dir("/more") if broker.fs.exists("/more") else None
    await broker.revive()
    await check_offline(broker)
    after = broker.fs.list_dir("/more") if broker.fs.exists("/more") else None
    assert before == after, "a mount point is not written to"
    await broker.create("u", 4)  # new ones go where there is a directory
    for index in range(4):
        assert (await broker.produce(build(), "u", index)).error_code == Code.NONE
    await broker.restart()
    await check_offline(broker)
    await broker.stop()
    give_back(broker.fs)
    await broker.revive()
    await check_whole(broker)


@scenario(TWO)
async def test_an_unknown_directory_id_is_logged(
    broker: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    await broker.restart("kavka.lost.log.dirs=ubKSmUTmTHmyGqoZ5Y-mVw")
    assert "names ubKSmUTmTHmyGqoZ5Y-mVw, which no log directory" in caplog.text
    assert broker.instance.health().is_healthy


@scenario(TWO, topics={"t": 4})
async def test_an_operator_can_declare_a_directory_lost(broker: MemoryBroker) -> None:
    await prepare(broker)
    await broker.stop()
    unmount(broker.fs)
    await broker.revive(f"kavka.lost.log.dirs={lost_id(broker)}")
    for index in range(4):
        answer = await broker.produce(build(), partition=index)
        offset = 0 if index % 2 else RECORDS
        assert (answer.error_code, answer.base_offset) == (Code.NONE, offset)
    assert broker.instance.health().is_healthy
    assert id_of(broker.fs, "/more") != lost_id(broker)
    await broker.restart()  # the setting may stay: it names the lost one only
    await check_whole(broker)
    broker.__dict__["more_id"] = id_of(broker.fs, "/more")
    await broker.stop()
    take_away_again = "/disk2"
    move(broker.fs, "/more", take_away_again)
    await broker.revive()
    await check_offline(broker)


@scenario(TWO, topics={"t": 4})
async def test_a_directory_can_be_added(broker: MemoryBroker) -> None:
    await prepare(broker)
    await broker.restart("log.dirs=/data,/more,/third/deep")
    await check_whole(broker)
    await broker.create("u", 3)
    assert "u-0" in broker.fs.list_dir("/third/deep")


@scenario(TWO, topics={"t": 4})
async def test_a_new_directory_does_not_replace_a_missing_one(broker: MemoryBroker) -> None:
    """`log.dirs` names another path: what was in the one before is not in it."""
    await prepare(broker)
    await broker.restart("log.dirs=/data,/other")
    await check_offline(broker)
    await broker.restart("log.dirs=/data,/other,/more")
    await check_whole(broker)


@scenario(TWO, topics={"t": 4})
async def test_a_directory_removed_from_log_dirs_is_missing(broker: MemoryBroker) -> None:
    await prepare(broker)
    await broker.restart("log.dirs=/data")
    await check_offline(broker)
    await broker.restart("log.dirs=/data,/more")
    await check_whole(broker)


@scenario("log.dirs=/data,/more,/third", topics={"t": 6})
async def test_two_directories_may_change_places(broker: MemoryBroker) -> None:
    for index in range(6):
        await broker.produce(build(), partition=index)
    await broker.stop()
    move(broker.fs, "/more", "/x")
    move(broker.fs, "/third", "/more")
    move(broker.fs, "/x", "/third")
    await broker.revive()
    for index in range(6):
        assert len(await broker.read_all(partition=index)) == RECORDS
    assert broker.instance.health().is_healthy
    await broker.stop()
    move(broker.fs, "/more", "/disk")  # the third of the first start, known at its new place
    broker.fs.make_dir("/more")
    await broker.revive()
    ends = [(await broker.list_offset(-1, partition=index)).error_code for index in range(6)]
    assert ends == [0, 0, Code.KAFKA_STORAGE_ERROR] * 2


@scenario("log.dirs=/data,/more,/third", topics={"t": 6})
async def test_another_directory_at_its_path_does_not_replace_it(broker: MemoryBroker) -> None:
    """The disks came up in the wrong places, and one of them not at all."""
    await prepare(broker)
    await broker.stop()
    move(broker.fs, "/more", "/disk")
    move(broker.fs, "/third", "/more")
    await broker.revive()
    codes = [(await broker.list_offset(-1, partition=index)).error_code for index in range(6)]
    assert codes == [0, Code.KAFKA_STORAGE_ERROR, 0] * 2
    (problem,) = broker.instance.health().problems
    assert problem.startswith(f"the log directory /more (directory.id={lost_id(broker)}) failed")
    answer = await broker.ask("DescribeLogDirs", 4, topics=None)
    assert len(answer.results) == 4


@scenario(TWO, topics={"t": 4})
async def test_a_copy_of_a_directory_is_refused(broker: MemoryBroker) -> None:
    await broker.stop()
    for name in ("t-1", "t-3"):
        broker.fs.remove_tree(f"/more/{name}")
    data = broker.fs.read_bytes("/data/meta.properties")
    broker.fs.write_atomic("/more/meta.properties", data, sync=True)
    with pytest.raises(StorageError, match=r"/data and /more have the same directory\.id"):
        await broker.revive()
    await broker.instance.stop()
    broker.fs.remove("/more/meta.properties")
    await broker.revive()


@scenario(TWO, topics={"t": 4}, start=True)
async def test_the_first_directory_without_meta_properties_stops_the_start(
    broker: MemoryBroker,
) -> None:
    await broker.stop()
    move(broker.fs, "/data/meta.properties", "/data/kept")
    with pytest.raises(
        StartError, match=r"/data, the first in log\.dirs.* has no meta\.properties"
    ):
        await broker.revive()
    await broker.instance.stop()
    move(broker.fs, "/data/kept", "/data/meta.properties")
    await broker.revive()


@scenario(TWO, topics={"t": 4}, start=True)
async def test_the_first_directory_is_not_mounted(broker: MemoryBroker) -> None:
    await broker.stop()
    move(broker.fs, "/data", "/disk")
    for _ in range(2):  # what the first attempt leaves there makes no difference
        with pytest.raises(StartError, match=r"/data, the first in log\.dirs.* not mounted\?"):
            await broker.revive()
        await broker.instance.stop()
    broker.fs.remove_tree("/data")
    move(broker.fs, "/disk", "/data")
    await broker.revive()


@scenario(TWO, topics={"t": 4}, start=True)
async def test_logs_without_the_coordination_log_stop_the_start(broker: MemoryBroker) -> None:
    await broker.stop()
    broker.fs.remove("/data/coordination.log")
    with pytest.raises(StartError, match=r"/data belongs to cluster .* `kavka storage import`"):
        await broker.revive()


@pytest.mark.parametrize("whole", [False, True])
@scenario(TWO, topics={"t": 4})
async def test_without_recorded_directories_missing_logs_are_found_by_partition(
    broker: MemoryBroker, whole: bool
) -> None:
    """As at the first start after `kavka storage import`, with a directory not mounted."""
    await write(broker)
    await broker.parts.coordination.delete(paths.log_directories(1))
    await broker.stop()
    if whole:
        await broker.revive("log.dirs=/data,/more,/new")
        await check_whole(broker)
        return
    unmount(broker.fs)
    await broker.revive()
    for index in (1, 3):
        answer = await broker.produce(build(), partition=index)
        assert answer.error_code == Code.KAFKA_STORAGE_ERROR
    (problem,) = broker.instance.health().problems
    given_up = problem.partition("kavka.lost.log.dirs=")[2]
    await broker.restart(f"kavka.lost.log.dirs={given_up}")
    for index in (1, 3):
        assert (await broker.produce(build(), partition=index)).error_code == Code.NONE


@pytest.mark.parametrize("power", [False, True])
@NEVER_AWAITED
def test_a_crash_at_any_step_of_the_first_start_loses_no_directory(power: bool) -> None:
    """The id is on the disk before it is recorded, and recorded before a log is made there."""

    async def end_at(step: int) -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
        broker = MortalBroker(TWO)
        broker.fs.dies_after = step
        starting = asyncio.create_task(_start_and_create(broker))
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if broker.is_dead or starting.done():
                break
        died = broker.is_dead
        starting.cancel()
        await asyncio.wait([starting])
        await broker.bury(random.Random(step), power=power)
        broker.fs.dies_after = None
        await broker.revive()
        assert broker.instance.health().is_healthy
        assert broker.parts.replicas.missing_count == 0
        await broker.stop()
        return died

    step = 0
    while asyncio.run(end_at(step)):
        step += 1
    assert step > 20


async def _start_and_create(broker: MemoryBroker) -> None:
    await broker.start()
    await broker.create("t", 2)
