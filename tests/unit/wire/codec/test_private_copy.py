"""Kavka's copy of the library and a program's own `kafka` leave each other alone."""

from __future__ import annotations

from importlib.metadata import version

import kafka
import pytest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.schemas.fields.codecs.types import Bytes, UnsignedVarInt32

from kavka.wire.codec import private_copy
from support.fresh import printed

# Run in a process of their own, since import order is what they are about.
CHECK = """
import sys
{first}
{second}
assert kafka.__file__, "the program has our stub"
from kafka import KafkaConsumer
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.consumer import FetchResponse
from kafka.protocol.schemas.fields.codecs.types import Bytes
from kavka.wire.codec import private_copy
ours = private_copy.message_class("FetchResponse")
assert ResponseClassRegistry.get_response_class.__self__ is ResponseClassRegistry
assert ResponseClassRegistry._response_class_registry[1] is not ours
assert Bytes.emit_decode_from.__func__.__module__ == "kafka.protocol.schemas.fields.codecs.types"
assert sys.modules["kafka"] is kafka
"""
KAFKA = "import kafka"
KAVKA = "from kavka.wire.codec import private_copy; private_copy.message_class('FetchResponse')"


@pytest.mark.parametrize(("first", "second"), [(KAFKA, KAVKA), (KAVKA, KAFKA)])
def test_either_may_be_imported_first(first: str, second: str) -> None:
    program = CHECK.format(first=first, second=second)
    printed(program)


def test_no_client_is_imported() -> None:
    program = (
        "import sys, kavka.wire.codec.private_copy\n"
        "found = [n for n in sys.modules if n == 'kafka' or n.startswith('kafka.')]\n"
        "assert not found, found"
    )
    printed(program)


def test_registries_are_apart() -> None:
    ours = private_copy.message_class("FetchResponse")
    assert ours is not FetchResponse
    registered = ResponseClassRegistry._response_class_registry[FetchResponse.API_KEY]
    assert registered != ours


def test_the_patches_are_in_the_private_copy_only() -> None:
    ours = private_copy._copy["kafka.protocol.schemas.fields.codecs.types"]
    assert ours.Bytes.emit_decode_from.__func__.__module__ == "kavka.wire.codec.patches"
    for theirs in (Bytes, UnsignedVarInt32):
        assert theirs.emit_decode_from.__func__.__module__ == theirs.__module__


def test_message_classes_are_made_once() -> None:
    assert private_copy.message_class("FetchRequest") is private_copy.message_class("FetchRequest")


def test_the_version_is_the_one_that_was_looked_at() -> None:
    """The names that `private_copy` and `patches` use are private to the library."""
    assert version("kafka-python").startswith("3.0.")
    assert kafka.__version__ == version("kafka-python")
