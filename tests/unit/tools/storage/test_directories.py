"""A stopped broker's directories: locked, read without being touched, and written in one step."""

from __future__ import annotations

import asyncio

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from kavka.log.dir_names import MetaProperties, encode_meta, encode_partition
from kavka.log.memfs import Fault, MemFs
from kavka.server.coordination.broker_registration import prepare_tree
from kavka.tools.storage.directories import Directories
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ClusterMetadata
from kavka.zktree import paths, storage
from support import logs
from support.embedded_coordination import DIRECTORY, new_fs, open_on
from support.logs import TOPIC_ID

NODES: dict[str, bytes | None] = {
    "/brokers": None,
    "/brokers/seqid": None,
    "/brokers/topics": b"",
    "/brokers/topics/t": b"{}",
    "/cluster": None,
    "/cluster/id": b'{"version":"1","id":"c"}',
}


def content(fs: MemFs) -> dict[str, bytes]:
    return {
        name: fs.read_bytes(f"{DIRECTORY}/{name}")
        for name in fs.list_dir(DIRECTORY)
        if not fs.is_dir(f"{DIRECTORY}/{name}") and name != ".lock"
    }


async def nodes_on(fs: MemFs) -> dict[str, bytes | None]:
    """All nodes as a broker finds them."""
    session = await open_on(fs)
    found: dict[str, bytes | None] = {}
    level = [""]
    while level:
        below = []
        for parent in level:
            for name in await session.children(parent or "/"):
                below.append(f"{parent}/{name}")
        for path in below:
            found[path] = (await session.get(path)).data
        level = below
    await session.close()
    return found


def write(fs: MemFs, metadata: ClusterMetadata) -> None:
    with Directories(fs, [DIRECTORY]) as directories:
        directories.write(metadata, 1_000)


def read(fs: MemFs) -> ClusterMetadata:
    with Directories(fs, [DIRECTORY]) as directories:
        return directories.read()


def test_a_broker_finds_what_was_written() -> None:
    fs = new_fs()
    write(fs, ClusterMetadata(NODES, 0))
    assert asyncio.run(nodes_on(fs)) == NODES


def test_replaced_nodes_are_gone_also_after_a_power_failure() -> None:
    async def before() -> MemFs:
        fs = new_fs()
        session = await open_on(fs)
        for number in range(9):
            await session.create(f"/old-{number}")
        await session.close()
        return fs

    fs = asyncio.run(before())
    log = fs.read_bytes(f"{DIRECTORY}/{storage.LOG_NAME}")
    write(fs, ClusterMetadata(NODES, 0))
    assert asyncio.run(nodes_on(fs)) == NODES
    # as if the power had failed before the log was replaced
    fs.write_atomic(f"{DIRECTORY}/{storage.LOG_NAME}", log, sync=True)
    assert asyncio.run(nodes_on(fs)) == NODES


def test_it_is_on_the_disk() -> None:
    fs = new_fs()
    write(fs, ClusterMetadata(NODES, 0))
    fs.crash()
    assert asyncio.run(nodes_on(fs)) == NODES


@pytest.mark.parametrize(
    ("name", "skip", "found"),
    [
        (storage.LOG_NAME, 0, {}),
        (storage.SNAPSHOT_NAME, 0, {}),
        (storage.LOG_NAME, 1, NODES),
    ],
)
def test_interrupted_in_a_new_directory_it_is_whole_or_nothing(
    name: str, skip: int, found: dict[str, bytes | None]
) -> None:
    fs = new_fs()
    fs.faults.append(Fault("rename", f"{name}.tmp", skip=skip))
    with pytest.raises(OSError):
        write(fs, ClusterMetadata(NODES, 0))
    fs.crash()
    assert asyncio.run(nodes_on(fs)) == found


def test_the_counter_of_generated_broker_ids_is_kept() -> None:
    async def next_number(fs: MemFs) -> int:
        session = await open_on(fs)
        stat = await session.set(paths.BROKER_SEQUENCE, b"")
        await session.close()
        return stat.version

    fs = new_fs()
    write(fs, ClusterMetadata(NODES, 41))
    assert asyncio.run(next_number(fs)) == 42
    assert read(fs).broker_sequence == 42


def test_reading_leaves_out_ephemeral_nodes_and_changes_nothing() -> None:
    async def killed() -> MemFs:
        fs = new_fs()
        session = await open_on(fs)
        await prepare_tree(session)
        for path in ("/cluster", "/brokers/topics/t"):
            await session.create(path, b"x")
        await session.create("/brokers/ids/1", ephemeral=True)
        await session.create("/controller", ephemeral=True)
        await session.create("/admin/mine", ephemeral=True)
        await session.create("/config/changes/config_change_", sequential=True)
        fs.kill()
        return fs

    fs = asyncio.run(killed())
    with_tail = fs.read_bytes(f"{DIRECTORY}/{storage.LOG_NAME}") + b"torn"
    fs.write_atomic(f"{DIRECTORY}/{storage.LOG_NAME}", with_tail, sync=True)
    before = content(fs)
    metadata = read(fs)
    assert content(fs) == before
    assert set(metadata.nodes) == {
        "/admin",
        "/brokers",
        "/brokers/topics/t",
        "/cluster",
        "/config",
        *paths.PERSISTENT,
    }
    order = list(metadata.nodes)
    assert all(
        order.index(above) < order.index(path) for path in order for above in paths.ancestors(path)
    )


def test_a_retired_tree_is_not_read() -> None:
    fs = new_fs()
    write(fs, ClusterMetadata(NODES, 0))
    before = content(fs)
    with Directories(fs, [DIRECTORY]) as directories:
        assert directories.has_tree
        directories.mark_exported()
        assert not directories.has_tree
    fs.crash()
    assert content(fs) == {f"{name}.exported": data for name, data in before.items()}
    assert asyncio.run(nodes_on(fs)) == {}
    with Directories(fs, [DIRECTORY]) as directories:
        assert not directories.has_tree, "a start that found nothing made a log"
    write(fs, ClusterMetadata(NODES, 0))
    assert asyncio.run(nodes_on(fs)) == NODES


def test_what_directories_say() -> None:
    fs = new_fs()
    fs.make_dir("/more")
    fs.write_atomic(f"{DIRECTORY}/meta.properties", encode_meta(MetaProperties("c", 3)), sync=True)
    for directory in (f"{DIRECTORY}/t-0", "/more/t-1", "/more/t-2.abc-delete", "/more/u-0-stray"):
        fs.make_dir(directory)
    fs.write_atomic("/more/t-1/partition.metadata", encode_partition(TOPIC_ID), sync=True)
    with Directories(fs, [DIRECTORY, "/more/"]) as directories:
        held = directories.state()
        assert not directories.has_tree
    assert (held.cluster_id, held.broker_id) == ("c", 3)
    assert held.logs == {("t", 0): None, ("t", 1): TOPIC_ID}


def test_a_new_directory_has_no_owner() -> None:
    with Directories(new_fs(), [DIRECTORY]) as directories:
        assert directories.state() == (None, None, {})


def test_directories_of_two_brokers_are_refused() -> None:
    fs = new_fs()
    fs.make_dir("/more")
    for number, directory in enumerate((DIRECTORY, "/more")):
        meta = encode_meta(MetaProperties("c", number))
        fs.write_atomic(f"{directory}/meta.properties", meta, sync=True)
    with (
        pytest.raises(Refused, match="brokers 0 of cluster c, 1 of cluster c"),
        Directories(fs, [DIRECTORY, "/more"]) as directories,
    ):
        directories.state()


def test_damaged_meta_properties_are_named() -> None:
    fs = new_fs()
    fs.write_atomic(f"{DIRECTORY}/meta.properties", b"broker.id=x", sync=True)
    with (
        pytest.raises(Refused, match=r"meta\.properties"),
        Directories(fs, [DIRECTORY]) as directories,
    ):
        directories.state()


def test_a_directory_in_use_is_refused_and_the_others_are_unlocked() -> None:
    fs = new_fs()
    fs.make_dir("/more")
    lock = fs.lock("/more/.lock")
    with pytest.raises(Refused, match="using /more"), Directories(fs, [DIRECTORY, "/more"]):
        pass
    lock.release()
    with Directories(fs, [DIRECTORY, "/more"]):
        with pytest.raises(BlockingIOError):
            fs.lock(f"{DIRECTORY}/.lock")
    fs.lock(f"{DIRECTORY}/.lock")


def test_a_directory_that_is_not_there() -> None:
    with pytest.raises(Refused, match="no directory /nowhere"), Directories(new_fs(), ["/nowhere"]):
        pass


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_found(magic: int) -> None:
    fs = new_fs()
    for number in range(3):
        fs.make_dir(f"{DIRECTORY}/t-{number}")
        for base in (0, 7):
            file = fs.create(f"{DIRECTORY}/t-{number}/{base:020d}.log")
            file.pwrite(bytes(logs.batch([b"x"])), 0)
    fs.create(f"{DIRECTORY}/t-1/{9:020d}.log")
    with Directories(fs, [DIRECTORY]) as directories:
        directories.check_formats()
        old = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
        old.append(7, timestamp=1, key=None, value=b"old")
        fs.open(f"{DIRECTORY}/t-2/{7:020d}.log").pwrite(bytes(old.build()), 0)
        with pytest.raises(Refused, match=rf"t-2/0+7\.log has messages of format {magic}"):
            directories.check_formats()


def test_nothing_to_read() -> None:
    with pytest.raises(Refused, match="no Kavka has used it"):
        read(new_fs())


def test_a_damaged_tree_is_neither_read_nor_written_over() -> None:
    fs = new_fs()
    fs.write_atomic(f"{DIRECTORY}/{storage.LOG_NAME}", b"something else", sync=True)
    with pytest.raises(Refused, match="remove the two files"):
        read(fs)
    with pytest.raises(Refused, match="remove the two files"):
        write(fs, ClusterMetadata(NODES, 0))


def test_nodes_that_make_no_tree_are_refused() -> None:
    fs = new_fs()
    with pytest.raises(Refused, match="/brokers/topics/t can't be made"):
        write(fs, ClusterMetadata({"/brokers/topics/t": b""}, 0))
    assert not content(fs)
