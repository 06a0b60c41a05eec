"""`kavka dump-log` prints records of Apache Kafka's own topics as its DumpLogSegments does.

Random ones of all types and versions, and what can't be read of them: Apache Kafka's generated
classes read both.
"""

from __future__ import annotations

import random
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from commands.dump_difference import damaged, difference
from kavka.compat_tests.raw.codec.batches import CONTROL, Written, build, patch, read, uvarint
from kavka.tools.dump_log.messages import Schema, family, versions
from support import java, java_compiler
from support.java_tools import Tools
from support.paths import JAVA
from support.random_records import Own, random_message

REMOTE_WRITER = JAVA / "tiered" / "WriteRemoteLogMetadata.java"
WRITER_TIMEOUT_S = 60
RECORDS = 600
DAMAGED = 0.3
"""How many of them are damaged."""
TOMBSTONES = 0.05
DECODERS = {
    "group": "--offsets-decoder",
    "transaction": "--transaction-log-decoder",
    "share": "--share-group-state-decoder",
    "metadata": "--cluster-metadata-decoder",
    "remote": "--remote-log-metadata-decoder",
}
CONTROL_TYPES = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
LARGE_VARINTS = (b"\xff\xff\xff\xff\x0f", b"\x81\x80\xfc\xff\x0f", b"\x80\x80\x02", b"\xff" * 6)
"""-1; a negative number that ends in 1; 32768; one that is too long."""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    java.program("java")
    with Tools(tmp_path_factory.mktemp("tools") / "tools.log") as tools:
        yield tools


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A segment of __remote_log_metadata that Apache Kafka's own classes have written."""
    path = tmp_path_factory.mktemp("remote") / f"{0:020}.log"
    done = subprocess.run(
        [*java_compiler.command_line(REMOTE_WRITER), str(path)],
        capture_output=True,
        text=True,
        timeout=WRITER_TIMEOUT_S,
        env=java.environment(),
    )
    assert done.returncode == 0, done.stderr
    return path


def write(directory: Path, batches: Sequence[bytearray]) -> Path:
    """A segment of batches of one record."""
    path = directory / f"{0:020}.log"
    whole = (patch(batch, base_offset=offset) for offset, batch in enumerate(batches))
    path.write_bytes(b"".join(whole))
    return path


def test_remote_log_metadata(remote: Path, tools: Tools) -> None:
    lines = [
        ["--files", str(remote), DECODERS["remote"]],
        ["--files", str(remote), DECODERS["remote"], "--skip-record-metadata"],
        ["--files", str(remote), DECODERS["remote"], "--share-group-state-decoder"],
        ["--files", str(remote), DECODERS["remote"], "--cluster-metadata-decoder"],
    ]
    assert not [differing for differing in (difference(tools, line) for line in lines) if differing]
    printed = tools.run(java.DUMP_LOG, *lines[0]).text
    for name in family("remote"):
        assert f"payload: {name.removesuffix('Record')}{{" in printed
    assert printed.count("Error at offset") == 1, "the tombstone"


def test_damaged_remote_log_metadata(remote: Path, tools: Tools, tmp_path: Path) -> None:
    chance = random.Random(3)
    written = [record.value for record in read_all(remote.read_bytes()) if record.value is not None]
    odd = [b"", b"\0\0\0", b"\2\0\0", b"\1\4\0", b"\1\0\1", b"\1\3\1", *map(bytes, LARGE_VARINTS)]
    odd += [b"\1" + number + b"\0" for number in LARGE_VARINTS]
    odd += [value[:2] + number + value[3:] for value in written[:9] for number in LARGE_VARINTS]
    odd += [value[:-2] + bytes([state, 0]) for value in written for state in (4, 0x80)]
    odd += [damaged(chance, value) for value in written for _ in range(4)]
    path = write(tmp_path, [build([Written(None, value)]) for value in odd])
    assert not difference(tools, ["--files", str(path), DECODERS["remote"]])


def read_all(data: bytes) -> list[Any]:
    """The records of a segment, by kafka-python."""
    found, at = [], 0
    while at < len(data):
        size = struct.unpack_from(">i", data, at + 8)[0] + 12
        found += read(data[at : at + size])
        at += size
    return found


@pytest.mark.parametrize("table", ["group", "transaction", "share"])
def test_records_of_coordinators(tools: Tools, tmp_path: Path, table: str) -> None:
    chance = random.Random(4)
    messages = family(table).values()
    keys = [schema for schema in messages if schema["name"].endswith("Key")]
    values = {schema["apiKey"]: schema for schema in messages if schema not in keys}
    written = [
        coordinator_record(chance, key, values[key["apiKey"]])
        for _ in range(RECORDS)
        for key in [chance.choice(keys)]
    ]
    path = write(tmp_path, [build([record]) for record in written])
    assert not difference(tools, ["--files", str(path), DECODERS[table]])


def coordinator_record(chance: random.Random, key: Schema, value: Schema) -> Written:
    """A record, whole or not."""
    version = chance.choice(versions(value))
    types = (key["apiKey"], version)
    own = members(chance) if value["name"] == "GroupMetadataValue" else {}
    parts = [random_message(chance, key, 0), random_message(chance, value, version, own)]
    key_data, value_data = (
        struct.pack(">h", kind) + part for kind, part in zip(types, parts, strict=True)
    )
    if chance.random() < DAMAGED:
        if chance.random() < 0.5:
            key_data = damaged(chance, key_data)
        else:
            value_data = damaged(chance, value_data)
    return Written(key_data, None if chance.random() < TOMBSTONES else value_data)


def members(chance: random.Random) -> Own:
    """A classic group's protocol, and its members' bytes, of versions to come too."""

    def of_consumer(name: str) -> bytes:
        schema = family("consumer")[name]
        version = chance.randrange(-1, max(versions(schema)) + 3)
        data = struct.pack(">h", version) + random_message(chance, schema, version)
        return damaged(chance, data) if chance.random() < DAMAGED else data

    return {
        "protocolType": lambda: chance.choice([b"consumer", b"connect"]),
        "subscription": lambda: of_consumer("ConsumerProtocolSubscription"),
        "assignment": lambda: of_consumer("ConsumerProtocolAssignment"),
    }


def test_records_of_kraft(tools: Tools, tmp_path: Path) -> None:
    chance = random.Random(5)
    path = write(tmp_path, [build([Written(None, framed(chance))]) for _ in range(2 * RECORDS)])
    assert not difference(tools, ["--files", str(path), DECODERS["metadata"]])


def framed(chance: random.Random) -> bytes | None:
    """The value of a record of KRaft's log, of versions to come too, whole or not."""
    if chance.random() < TOMBSTONES:
        return None
    schema = chance.choice(list(family("metadata").values()))
    version = chance.randrange(max(versions(schema)) + 3)
    shown = uvarint(version)
    if chance.random() < TOMBSTONES:
        shown = chance.choice(LARGE_VARINTS)
        version = chance.randrange(2)
    message = random_message(chance, schema, version)
    data = b"\1" + uvarint(schema["apiKey"]) + shown + message
    return damaged(chance, data) if chance.random() < DAMAGED else data


def test_control_records(tools: Tools, tmp_path: Path) -> None:
    """Each in a file of its own, since one that can't be read ends the tool."""
    chance = random.Random(6)
    found = []
    for number in range(150):
        (tmp_path / str(number)).mkdir()
        batch = patch(build([control(chance)]), attributes=CONTROL)
        path = write(tmp_path / str(number), [batch])
        found.append(difference(tools, ["--files", str(path), "--deep-iteration"]))
    assert not [differing for differing in found if differing]


def control(chance: random.Random) -> Written:
    """A control record of any type, of versions to come too, whole or not."""
    kind = chance.choice([0, 1, *CONTROL_TYPES, 7, -1])
    if kind in CONTROL_TYPES:
        message = random_message(chance, family("control")[CONTROL_TYPES[kind]], 0)
        version = chance.choice([0, 0, 1, 2, -1])
        value = struct.pack(">h", version) + message[2:]
    else:
        value = struct.pack(">hi", chance.choice([0, 0, 1, -1]), chance.randrange(99))
    key = struct.pack(">hh", chance.choice([0, 0, 0, 1, -1]), kind)
    if chance.random() < DAMAGED / 2:
        value = damaged(chance, value)
    return Written(key, value)
