"""Moves of replicas between log directories of a broker in memory."""

from __future__ import annotations

from kavka.compat_tests.raw.codec.batches import Written, build
from kavka.wire.errors import ErrorCode as Code
from support.memory_broker import MemoryBroker

BATCH_HEAD_BYTES = 61


async def alter(broker: MemoryBroker, path: str, topic: str = "t", index: int = 0) -> int:
    """Ask for a partition's move; the error code."""
    topics = [{"name": topic, "partitions": [index]}]
    answer = await broker.ask("AlterReplicaLogDirs", 2, dirs=[{"path": path, "topics": topics}])
    code: int = answer.results[0].partitions[0].error_code
    return code


async def fill(broker: MemoryBroker, count: int, *, size: int = 1000, start: int = 0) -> None:
    """Write records with the numbers from `start` on."""
    for number in range(start, start + count):
        value = b"%d/" % number + bytes(size)
        assert (await broker.produce(build([Written(value=value)]))).error_code == Code.NONE


def copy_of(broker: MemoryBroker, path: str) -> str:
    """The directory of the one copy that moves to the log directory at `path`."""
    (name,) = [name for name in broker.fs.list_dir(path) if name.endswith("-future")]
    return f"{path}/{name}"


def torn(broker: MemoryBroker, directory: str) -> list[str]:
    """The segments in a directory that do not end with a whole batch."""
    found = []
    for file in broker.fs.list_dir(directory):
        if file.endswith(".log"):
            data = broker.fs.read_bytes(f"{directory}/{file}")
            if _whole_bytes(data) != len(data):
                found.append(file)
    return found


def _whole_bytes(data: bytes) -> int:
    """The bytes of the whole batches at the beginning of `data`."""
    position = 0
    while position + BATCH_HEAD_BYTES <= len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        if position + size > len(data):
            break
        position += size
    return position
