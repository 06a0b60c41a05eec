"""A process of its own that runs a broker in a thread and kafka-python's clients beside it.

`python -m support.embedded ORDER DIRECTORY`, with ORDER one of

- `library-first`: the program has imported kafka-python before the broker starts,
- `broker-first`: it imports it while the broker runs,
- `no-broker`: it imports it, and that is all.

Prints one line of JSON: `classes`, a fingerprint of all of kafka-python's classes before they are
used, and `read`, the values that a KafkaConsumer has read from the broker.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from types import FunctionType, ModuleType

from kavka.testing import Broker

# What a program with clients of all kinds has loaded.
MODULES = (
    "kafka",
    "kafka.admin",
    "kafka.protocol.admin",
    "kafka.protocol.consumer",
    "kafka.protocol.metadata",
    "kafka.protocol.producer",
    "kafka.protocol.sasl",
    "kafka.record",
)
TOPIC = "embedded"
VALUES = [b"%d" % number for number in range(100)]


def import_library() -> None:
    """Import kafka-python as a user's program does."""
    for name in MODULES:
        importlib.import_module(name)


def fingerprint() -> dict[str, str]:
    """Every function of every class of kafka-python by name, and its code; and its registry."""
    found: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        if name == "kafka" or name.startswith("kafka."):
            found.update(_functions(name, module))
    header = sys.modules["kafka.protocol.api_header"]
    registry = header.ResponseClassRegistry._response_class_registry
    for key, answer in registry.items():
        own = getattr(sys.modules[answer.__module__], answer.__name__)
        assert own._struct is answer._struct, f"{answer} is registered, but not the library's own"
        found[f"answer to {key}"] = f"{answer.__module__}.{answer.__name__}"
    return found


def _functions(name: str, module: ModuleType) -> Iterator[tuple[str, str]]:
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__module__ == name:
            for member, value in vars(kind).items():
                function = getattr(value, "__func__", getattr(value, "fget", value))
                if isinstance(function, FunctionType):
                    code = function.__code__
                    text = repr((code.co_code, code.co_names, code.co_varnames))
                    digest = hashlib.sha256(text.encode()).hexdigest()
                    yield f"{name}.{kind.__qualname__}.{member}", digest


def round_trip(bootstrap: str) -> list[bytes]:
    """Write and read with kafka-python's own clients."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for value in VALUES:
            producer.send(TOPIC, value, partition=0)
    found: list[bytes] = []
    with closing(KafkaConsumer(bootstrap_servers=bootstrap)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning()
        for message in consumer:
            found.append(message.value)
            if len(found) == len(VALUES):
                return found
    return found


def main(order: str, directory: str) -> None:
    """See the module's text."""
    read: list[bytes] = []
    if order in ("library-first", "no-broker"):
        import_library()
    if order == "no-broker":
        classes = fingerprint()
    else:
        with Broker(data_dir=directory) as broker:
            import_library()
            classes = fingerprint()
            read = round_trip(broker.bootstrap_servers)
    print(json.dumps({"classes": classes, "read": [value.decode() for value in read]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
