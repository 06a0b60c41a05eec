"""`kavka e2e-latency`: as Apache Kafka's kafka-e2e-latency, option by option.

Where Apache Kafka's consumer asks for records again and again, this one's request waits at the
broker until there are some.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kavka.tools.admin.cluster_client import ClusterClient, check_answer
from kavka.tools.admin.command import ClientTool, ask_cluster, read_client_properties
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option, is_whole
from kavka.tools.java_numbers import double_text, fixed_text
from kavka.tools.perf.client import (
    await_broker,
    consumer,
    error_text,
    explained,
    flush,
    library,
    now_ms,
    producer,
)
from kavka.tools.progress import progress
from kavka.wire.apis import create_topics
from kavka.wire.apis.create_topics import CreateTopicsRequest, NewTopic

POLL_S: Final = 60.0
TIMEOUT_MS: Final = 60_000
RETRY_S: Final = 0.1
NOT_KNOWN_YET: Final = (
    "_UNKNOWN_PARTITION",
    "_UNKNOWN_TOPIC",
    "UNKNOWN_TOPIC_OR_PART",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
)
"""What librdkafka says of a topic that was just created."""

EVERY: Final = 1000
"""Records of which one's time is printed."""

PLACES: Final = (
    *("bootstrap-server", "topic", "num-records", "producer-acks", "record-size"),
    "command-config",
)
"""The options that words without names are, in this order."""

OLD_FORM: Final = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. "
    "Please use named arguments instead: --bootstrap-server, --topic, --num-records, "
    "--producer-acks, --record-size, --command-config"
)

OPTIONS: Final = (
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("topic", "The topic; it is created if there is none.", "TOPIC"),
    Option("num-records", "How many records to send.", "N", is_number=True),
    Option("producer-acks", "1 or all.", "ACKS"),
    Option("record-size", "Bytes of a value.", "BYTES", is_number=True),
    Option("command-config", "A Java client's properties file.", "FILE", is_optional=True),
    Option("record-key-size", "Bytes of a key; 0 if left out.", "BYTES", is_optional=True),
    Option("record-header-key-size", "Bytes of a header's key.", "BYTES", is_optional=True),
    Option(
        "record-header-size", "Bytes of a header's value; -1 for null.", "BYTES", is_optional=True
    ),
    Option("num-headers", "How many headers each record has.", "N", is_optional=True),
)
SIZES: Final = (
    ("record-key-size", 0, "a non-negative integer"),
    ("record-header-key-size", 0, "a non-negative integer"),
    ("record-header-size", -1, "a non-negative integer or -1 for null header value"),
    ("num-headers", 0, "a non-negative integer"),
)
"""Those that may be left out, and the least value."""


def named(words: Sequence[str]) -> Sequence[str]:
    """Words without names as options."""
    if not words or any(word.startswith("--") for word in words):
        return words
    if len(words) not in (len(PLACES) - 1, len(PLACES)):
        raise Misused(
            f"Invalid number of arguments. Expected 5 or 6 positional arguments, but got "
            f"{len(words)}. Usage: bootstrap-server topic num-records producer-acks record-size "
            "[optional] command-config"
        )
    print(OLD_FORM)
    pairs = zip(PLACES, words, strict=False)
    return [word for name, text in pairs for word in (f"--{name}", text)]


def check(given: Given) -> None:
    """Refuse what makes no sense, with Apache Kafka's words."""
    for name, _, _ in SIZES:
        text = given.text(name)
        if text and not is_whole(text, 32):
            raise Misused(f"Cannot parse argument '{text}' of option {name}")
    given.needs(*PLACES[:-1])
    if given.text("producer-acks") not in ("1", "all"):
        raise Misused(
            "Invalid value for --producer-acks. Latency testing requires synchronous "
            "acknowledgement. Please use '1' or 'all'"
        )
    if (given.number("num-records") or 0) <= 0:
        raise Misused("Value for --num-records must be a positive integer")
    if (given.number("record-size") or 0) < 0:
        raise Misused("Value for --record-size must be a non-negative integer")
    for name, least, requirement in SIZES:
        if _size(given, name) < least:
            raise Misused(f"Value for --{name} must be {requirement}")


@explained
def run(given: Given) -> int:
    """Send one record after another, and print how long each was on its way."""
    topic = given.text("topic") or ""
    properties = _properties(given)
    await_broker(properties)
    reader = consumer(
        {
            **properties,
            "group.id": f"test-group-{now_ms()}",
            "enable.auto.commit": "false",
            "auto.offset.reset": "latest",
        }
    )
    try:
        writer = producer(
            {**properties, "linger.ms": "0", "acks": given.text("producer-acks") or ""}
        )
        partitions = _partitions(reader, topic) or _created(properties, topic)
        _begin(reader, topic, partitions)
        took_ns = []
        with progress("records", given.number("num-records") or 0) as step:
            for number, record in enumerate(_records(given)):
                took_ns.append(_one(writer, reader, topic, *record))
                if number % EVERY == 0:
                    print(f"{number}\t{double_text(took_ns[-1] / 1000 / 1000)}", flush=True)
                step()
        _print_results(took_ns)
    except BufferError as failure:  # the only record that there is
        raise Failed("the record could not be sent: it is larger than buffer.memory") from failure
    finally:
        reader.close()
    return 0


TOOL: Final = ClientTool(
    "e2e-latency",
    "Measure how long records take from producer to consumer.",
    OPTIONS,
    check,
    run,
    read=named,
)

Headers = list[tuple[str, bytes | None]]


def _one(writer: Any, reader: Any, topic: str, key: bytes, value: bytes, headers: Headers) -> int:
    """Nanoseconds from one end to the other. Failed if something else arrives."""
    errors: list[Any] = []
    begin_ns = time.perf_counter_ns()
    writer.produce(
        topic,
        value,
        key=key,
        headers=headers,
        on_delivery=lambda error, _: errors.append(error) if error is not None else None,
    )
    flush(writer)
    if errors:
        raise Failed(f"the record was not written: {error_text(errors[0])}")
    found = reader.poll(POLL_S)
    took_ns = time.perf_counter_ns() - begin_ns
    if found is None:
        raise Failed("poll() timed out before finding a result (timeout:[60000ms])")
    if found.error() is not None:
        raise Failed(f"reading failed: {error_text(found.error())}")
    for part, read, sent in (
        ("value", found.value(), value),
        ("key", found.key(), key),
        ("headers", found.headers() or [], headers),
    ):
        if read != sent:
            raise Failed(f"The message {part} read {read!r} did not match that sent {sent!r}")
    return took_ns


def _records(given: Given) -> Iterator[tuple[bytes, bytes, Headers]]:
    chance = random.Random(0)

    def letters(size: int) -> bytes:
        return bytes([chance.randrange(65, 91)]) * size

    value_size = _size(given, "record-header-size")
    for _ in range(given.number("num-records") or 0):
        yield (
            letters(_size(given, "record-key-size")),
            letters(given.number("record-size") or 0),
            [
                (
                    letters(_size(given, "record-header-key-size")).decode(),
                    None if value_size < 0 else letters(value_size),
                )
                for _ in range(_size(given, "num-headers"))
            ],
        )


def _partitions(reader: Any, topic: str) -> list[int]:
    """Those of the topic; none if there is no such topic."""
    found = reader.list_topics(timeout=POLL_S).topics.get(topic)
    return [] if found is None or found.error is not None else list(found.partitions)


def _created(properties: dict[str, str], topic: str) -> list[int]:
    """The topic, by Kavka's own client: librdkafka's admin client writes a line of its own when it
    ends. Failed."""

    async def create(cluster: ClusterClient) -> None:
        response = await cluster.ask_controller(
            create_topics.API,
            CreateTopicsRequest([NewTopic(topic, 1, 1, [], [])], TIMEOUT_MS),
            lambda found: [result.error_code for result in found.topics],
        )
        check_answer(response.topics[0].error_code, response.topics[0].error_message)

    print(
        f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication '
        "factor = 1",
        flush=True,
    )
    try:
        ask_cluster(properties["bootstrap.servers"], properties, create)
    except Failed:
        print(f"Creation of topic {topic} failed")
        raise
    return [0]


def _begin(reader: Any, topic: str, partitions: Sequence[int]) -> None:
    """At the ends of the partitions."""
    partition = library().TopicPartition
    ends = [
        partition(topic, number, _end_of(reader, partition(topic, number))) for number in partitions
    ]
    reader.assign(ends)


def _end_of(reader: Any, partition: Any) -> int:
    """The end offset of a partition, which librdkafka may not know yet if its topic is new."""
    until_s = time.monotonic() + POLL_S
    while True:
        try:
            _, end = reader.get_watermark_offsets(partition, timeout=POLL_S)
        except library().KafkaException as failure:
            error = failure.args[0]
            if error.name() not in NOT_KNOWN_YET or time.monotonic() >= until_s:
                raise Failed(error_text(error)) from failure
            reader.poll(RETRY_S)  # it has nothing to read yet
            reader.list_topics(partition.topic, POLL_S)
        else:
            return int(end)


def _print_results(took_ns: Sequence[int]) -> None:
    average = sum(took_ns) / len(took_ns) / 1000 / 1000
    print(f"Avg latency: {fixed_text(average, 4)} ms")
    took_ms = sorted(duration_ns // 1000 // 1000 for duration_ns in took_ns)
    shares = (took_ms[int(len(took_ms) * share)] for share in (0.5, 0.99, 0.999))
    print("Percentiles: 50th = {}, 99th = {}, 99.9th = {}".format(*shares))


def _size(given: Given, name: str) -> int:
    return int(given.text(name) or 0)


def _properties(given: Given) -> dict[str, str]:
    path = given.text("command-config")
    found = read_client_properties(path) if path else {}
    found["bootstrap.servers"] = given.text("bootstrap-server") or ""
    return found
