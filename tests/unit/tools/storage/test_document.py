"""The file form: what goes in comes out, and anything else is refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.tools.storage.document import decode, encode
from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ClusterMetadata

nodes = st.dictionaries(st.text(), st.none() | st.binary() | st.text().map(str.encode))


@given(st.builds(ClusterMetadata, nodes, st.integers(0, 2**31 - 1)))
def test_round_trip(metadata: ClusterMetadata) -> None:
    again = decode(encode(metadata), "x")
    assert again == metadata
    assert list(again.nodes) == list(metadata.nodes), "parents stay before children"


def test_text_can_be_read_and_edited() -> None:
    document = json.loads(
        encode(ClusterMetadata({"/a": b'{"x": "\xc3\xbc"}', "/b": None, "/c": b"\xff"}, 3))
    )
    assert document["nodes"] == {"/a": '{"x": "ü"}', "/b": None, "/c": {"base64": "/w=="}}
    assert document["broker_sequence"] == 3


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b'{"kavka_storage": 2, "broker_sequence": 0, "nodes": {}}',
        b'{"kavka_storage": 1, "broker_sequence": 0}',
        b'{"kavka_storage": 1, "broker_sequence": 0, "nodes": []}',
        b'{"kavka_storage": 1, "broker_sequence": "x", "nodes": {}}',
        b'{"kavka_storage": 1, "broker_sequence": -1, "nodes": {}}',
        b'{"kavka_storage": 1, "broker_sequence": 2147483648, "nodes": {}}',
        b"[" * 100_000,
        b'{"kavka_storage": 1, "broker_sequence": 0, "nodes": {"/a": 7}}',
        b'{"kavka_storage": 1, "broker_sequence": 0, "nodes": {"/a": {"base64": "?"}}}',
    ],
)
def test_anything_else_is_refused_with_the_files_name(content: bytes) -> None:
    with pytest.raises(Refused, match="the-file"):
        decode(content, "the-file")
