"""`kavka console-producer`: as Apache Kafka's kafka-console-producer, option by option."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

from kavka.tools.admin.command import ClientTool, reach, read_properties
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option
from kavka.tools.console import library
from kavka.tools.console.lines import LineReader
from kavka.tools.java_text import REPLACED
from kavka.tools.progress import Status
from kavka.tools.properties import client_properties, key_values, replaced

LINE_READER: Final = "org.apache.kafka.tools.LineMessageReader"
WARNING: Final = (
    "Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead."
)
PROMPT: Final = ">"

OPTIONS: Final = (
    Option("topic", "The topic to write to.", "TOPIC"),
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("sync", "Wait for each record's answer before the next; end at the first error."),
    Option(
        "compression-codec",
        "none, gzip, snappy, lz4 or zstd; gzip without a value.",
        "CODEC",
        is_optional=True,
    ),
    Option("batch-size", "Bytes of a batch (batch.size).", "BYTES", is_number=True),
    Option("message-send-max-retries", "How often to send again (retries).", "N", is_number=True),
    Option("retry-backoff-ms", "Before a retry (retry.backoff.ms).", "MS", is_number=True, bits=64),
    Option("timeout", "How long a batch is filled (linger.ms).", "MS", is_number=True, bits=64),
    Option("request-required-acks", "0, 1, -1 or all (acks).", "ACKS"),
    Option(
        "request-timeout-ms", "For a broker's answer (request.timeout.ms).", "MS", is_number=True
    ),
    Option(
        "metadata-expiry-ms",
        "After which metadata are asked for again (metadata.max.age.ms).",
        "MS",
        is_number=True,
        bits=64,
    ),
    Option(
        "max-block-ms",
        "How long to wait for metadata (max.block.ms).",
        "MS",
        is_number=True,
        bits=64,
    ),
    Option(
        "max-memory-bytes",
        "Bytes of records that wait to be written (buffer.memory).",
        "BYTES",
        is_number=True,
        bits=64,
    ),
    Option("max-partition-memory-bytes", "Deprecated for --batch-size.", "BYTES", is_number=True),
    Option("line-reader", f"The reader of lines; there is {LINE_READER} only.", "CLASS"),
    Option(
        "socket-buffer-size", "The socket's buffer (send.buffer.bytes).", "BYTES", is_number=True
    ),
    Option(
        "reader-property",
        "How to read lines; may be given many times: parse.key, key.separator, parse.headers, "
        "headers.delimiter, headers.separator, headers.key.separator, null.marker, ignore.error.",
        "KEY=VALUE",
    ),
    Option("property", "Deprecated for --reader-property.", "KEY=VALUE"),
    Option("reader-config", "A properties file of the same.", "FILE"),
    Option("command-property", "A Java producer's property; may be given many times.", "KEY=VALUE"),
    Option("producer-property", "Deprecated for --command-property.", "KEY=VALUE"),
    Option("command-config", "A Java producer's properties file.", "FILE"),
    Option("producer.config", "Deprecated for --command-config.", "FILE"),
)

MERGED: Final = (
    ("timeout", "linger.ms", "1000"),
    ("request-required-acks", "acks", "-1"),
    ("request-timeout-ms", "request.timeout.ms", "1500"),
    ("message-send-max-retries", "retries", "3"),
    ("retry-backoff-ms", "retry.backoff.ms", "100"),
    ("socket-buffer-size", "send.buffer.bytes", "102400"),
    ("max-memory-bytes", "buffer.memory", "33554432"),
    ("batch-size", "batch.size", "16384"),
    ("max-partition-memory-bytes", "batch.size", "16384"),
    ("metadata-expiry-ms", "metadata.max.age.ms", "300000"),
    ("max-block-ms", "max.block.ms", "60000"),
)
"""An option, the property that it wins over, and what counts without both."""


def check(given: Given) -> None:
    """Refuse what does not go together."""
    given.needs("topic")
    for old, new in (
        ("producer.config", "command-config"),
        ("producer-property", "command-property"),
        ("property", "reader-property"),
    ):
        if given.has(old) and given.has(new):
            raise Misused(f"Options --{new} and --{old} cannot be specified together")
    for old, new in (
        ("producer-property", "command-property"),
        ("producer.config", "command-config"),
        ("property", "reader-property"),
    ):
        replaced(given, old, new, WARNING)
    if given.has("max-partition-memory-bytes"):
        print(
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache "
            "Kafka 5.0. Use --batch-size instead."
        )
    addresses = given.text("bootstrap-server")
    if not addresses:
        raise Misused("--bootstrap-server must be specified")


def run(given: Given) -> int:
    """Send a record for each line of standard input."""
    library.choose()
    from kavka.tools.console.sender import Sender

    reader = line_reader(given)
    topic, addresses = given.text("topic") or "", given.text("bootstrap-server") or ""
    properties = producer_properties(given)
    reach(addresses, properties)
    with Sender(topic, properties) as sender, _lines() as lines, _counted() as count:
        for line in reader.read(lines):
            if given.has("sync"):
                sender.send_and_wait(line)
            else:
                sender.send(line)
            count()
    return 0


TOOL: Final = ClientTool(
    "console-producer",
    "Write lines of standard input to a topic, as records.",
    OPTIONS,
    check,
    run,
)


def line_reader(given: Given) -> LineReader:
    """By its options. Failed."""
    name = given.text("line-reader") or LINE_READER
    if name != LINE_READER:
        raise Failed(f"{name}: Java's classes can't be run here, so there is {LINE_READER} only")
    path = given.text("reader-config")
    words = "property" if given.has("property") else "reader-property"
    found = {} if path is None else read_properties(path)
    return LineReader({**found, **key_values(given.texts(words))})


def producer_properties(given: Given) -> Mapping[str, str]:
    """A Java producer's properties. Failed."""
    file = "producer.config" if given.has("producer.config") else "command-config"
    words = "producer-property" if given.has("producer-property") else "command-property"
    found = client_properties(given, file, words)
    found["bootstrap.servers"] = given.text("bootstrap-server") or ""
    codec = given.text("compression-codec") or "gzip"
    found["compression.type"] = codec if given.has("compression-codec") else "none"
    found.setdefault("client.id", "console-producer")
    for option, name, default in MERGED:
        text = given.text(option)
        if text is not None or name not in found:
            found[name] = default if text is None else text
    return found


@contextmanager
def _counted() -> Iterator[Callable[[], None]]:
    """What is called after each line: shows how many there were, unless they are typed there."""
    if sys.stdin.isatty():
        yield lambda: None
        return
    with closing(Status()) as status:
        sent = 0

        def count() -> None:
            nonlocal sent
            sent += 1
            status.show(lambda: f"{sent:,} records")

        yield count


@contextmanager
def _lines() -> Iterator[Iterable[str]]:
    """Those of standard input, whatever ends them; with a prompt on a terminal."""
    if sys.stdin is None:
        raise Failed("standard input is closed: there are no lines to send")
    text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors=REPLACED, newline=None)
    prompts = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        yield _prompted(text) if prompts else text
    finally:
        text.detach()


def _prompted(text: Iterable[str]) -> Iterator[str]:
    lines = iter(text)
    while True:
        print(PROMPT, end="", flush=True)
        line = next(lines, None)
        if line is None:
            return
        yield line
