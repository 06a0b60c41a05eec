"""Names and files of a log directory, as Apache Kafka 3.9 has them."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.log import dir_names
from kavka.log.dir_names import MetaProperties
from kavka.log.errors import CorruptFileError, StorageError

# meta.properties of a broker of Apache Kafka 3.9 in ZooKeeper mode
KAFKA_META = (
    b"#\n#Mon Mar 03 10:12:45 UTC 2025\ncluster.id=vPeOCWypqUOSepEvx0cbog\nversion=0\nbroker.id=3\n"
)


def test_names_of_logs() -> None:
    assert dir_names.log_name("a-b.c_d", 12) == "a-b.c_d-12"
    assert dir_names.parse_log_name("a-b.c_d-12", "/logs") == ("a-b.c_d", 12)
    assert dir_names.parse_log_name("a--1", "/logs") == ("a-", 1)


@pytest.mark.parametrize(
    "name",
    [".hidden", "__cluster_metadata-0", "t-0.0123456789abcdef-future", "t-0.0123-stray",
     "remote-log-index-cache"],
)  # fmt: skip
def test_directories_of_other_programs(name: str) -> None:
    assert dir_names.parse_log_name(name, "/logs") is None


@pytest.mark.parametrize("name", ["lost+found", "words", "-1", "words-", "words-x", "wörter-1"])
def test_directories_that_should_not_be_there(name: str) -> None:
    with pytest.raises(StorageError, match="/logs/"):
        dir_names.parse_log_name(name, "/logs")


@given(st.text(alphabet="abc._-", min_size=1, max_size=249), st.integers(0, 2**31 - 1))
def test_deleted_logs(topic: str, partition: int) -> None:
    name = dir_names.delete_name(topic, partition, "0" * 32)
    assert len(name) <= 255
    assert dir_names.is_deleted(name)
    if len(topic) < 200:
        assert name == f"{topic}-{partition}.{'0' * 32}-delete"
    live = dir_names.log_name(topic, partition)
    assert not dir_names.is_deleted(live)
    assert dir_names.parse_log_name(live, "/") == (topic, partition)


def test_meta_properties_round_trip() -> None:
    meta = MetaProperties("vPeOCWypqUOSepEvx0cbog", 3)
    assert dir_names.decode_meta(KAFKA_META, "f") == meta
    assert dir_names.decode_meta(dir_names.encode_meta(meta), "f") == meta


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 40, b"version=0\nbroker.id=1\n", b"cluster.id=x\nbroker.id=one\n"]
)
def test_corrupt_meta_properties_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"/logs/meta\.properties"):
        dir_names.decode_meta(data, "/logs/meta.properties")


def test_topic_ids() -> None:
    # Uuid.fromString of Apache Kafka reads this as most 0x000102..., least 0x08090a...
    topic_id = UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")
    data = b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert dir_names.encode_partition(topic_id) == data
    assert dir_names.decode_partition(data, "f") == topic_id
    assert dir_names.decode_partition(data + b"\n", "f") == topic_id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0\n",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: short",
        b"version: 0\nother: AAECAwQFBgcICQoLDA0ODw",
        b"\0" * 44,
    ],
)
def test_broken_topic_ids(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        dir_names.decode_partition(data, "f")
