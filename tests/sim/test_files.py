"""Of files that contradict each other the simulation takes notice."""

from __future__ import annotations

import struct

from kafka.record.default_records import DefaultRecordBatchBuilder

from kavka.log.memfs import MemFs
from sim.files import judge_files

LOG = "/data/t-0/00000000000000000010"


def batch(base_offset: int, timestamp: int) -> bytes:
    """Two records, by the stock client's encoder."""
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for delta in range(2):
        builder.append(delta, timestamp, b"key", b"value", [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base_offset)
    struct.pack_into(">i", data, 12, 0)  # the leader epoch, which the CRC does not cover
    return bytes(data)


ONE, OTHER = batch(10, 1000), batch(12, 2000)
INDEX = struct.pack(">ii", 3, len(ONE))
TIME_INDEX = struct.pack(">qi", 2000, 3)
EPOCHS = b"0\n1\n0 10\n"


def judged(
    log: bytes = ONE + OTHER,
    index: bytes = INDEX,
    time_index: bytes = TIME_INDEX,
    epochs: bytes = EPOCHS,
) -> int:
    """How many contradictions are found."""
    fs = MemFs()
    fs.make_dir("/data/t-0")
    contents = {
        f"{LOG}.log": log,
        f"{LOG}.index": index,
        f"{LOG}.timeindex": time_index,
        "/data/t-0/leader-epoch-checkpoint": epochs,
    }
    for path, data in contents.items():
        file = fs.create(path)
        file.pwrite(data, 0)
        file.close()
    return len(judge_files(fs, "/data"))


def test_what_agrees_is_well() -> None:
    assert judged() == 0


def test_contradictions_are_found() -> None:
    assert judged(log=OTHER + ONE) > 0, "offsets out of order"
    assert judged(log=ONE + ONE) > 0, "an offset twice"
    assert judged(index=struct.pack(">ii", 2, len(ONE))) == 1, "not the batch's last offset"
    assert judged(index=struct.pack(">ii", 3, 7)) == 1, "in the middle of a batch"
    assert judged(index=INDEX * 2) == 1, "an entry twice"
    assert judged(time_index=struct.pack(">qi", 2001, 3)) == 1, "later than its batch"
    assert judged(time_index=TIME_INDEX + struct.pack(">qi", 1000, 1)) == 1, "not in order"
    assert judged(epochs=b"0\n2\n0 10\n1 12\n") == 1, "another leader epoch"
