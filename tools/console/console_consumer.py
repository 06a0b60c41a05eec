"""`kavka console-consumer`: as Apache Kafka's kafka-console-consumer, option by option."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Final

from kavka.tools.admin.command import ClientTool, reach, read_properties
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option, is_whole
from kavka.tools.console import library
from kavka.tools.console.formatters import DEFAULT, Formatter, formatter
from kavka.tools.properties import client_properties, key_values

WARNING: Final = (
    "Option --{old} is deprecated and will be removed in a future version. Use --{new} instead."
)
EARLIEST: Final = -2
LATEST: Final = -1
GROUPS: Final = 100_000
"""Numbers to name a group by that was given no name."""

OPTIONS: Final = (
    Option("topic", "The topic to read.", "TOPIC"),
    Option("include", "A regular expression for the topics to read.", "PATTERN"),
    Option(
        "partition",
        "The partition to read, from its end on unless --offset says otherwise.",
        "N",
        is_number=True,
    ),
    Option("offset", "The first offset: a number, earliest or latest (the default).", "OFFSET"),
    Option("command-property", "A Java consumer's property; may be given many times.", "KEY=VALUE"),
    Option("consumer-property", "Deprecated for --command-property.", "KEY=VALUE"),
    Option("command-config", "A Java consumer's properties file.", "FILE"),
    Option("consumer.config", "Deprecated for --command-config.", "FILE"),
    Option(
        "formatter",
        "How to print records: Apache Kafka's DefaultMessageFormatter, LoggingMessageFormatter, "
        "NoOpMessageFormatter, OffsetsMessageFormatter, GroupMetadataMessageFormatter or "
        "TransactionLogMessageFormatter, with the package.",
        "CLASS",
    ),
    Option(
        "formatter-property",
        "Of the formatter; may be given many times: print.timestamp, print.key, print.offset, "
        "print.delivery, print.epoch, print.partition, print.headers, print.value, key.separator, "
        "line.separator, headers.separator, null.literal, key.deserializer, value.deserializer, "
        "headers.deserializer.",
        "KEY=VALUE",
    ),
    Option("property", "Deprecated for --formatter-property.", "KEY=VALUE"),
    Option("formatter-config", "A properties file of the same.", "FILE"),
    Option("from-beginning", "Begin with the first record there is, without a committed offset."),
    Option("max-messages", "How many records to print.", "N", is_number=True),
    Option(
        "timeout-ms", "End when there was no record for so long.", "MS", is_number=True, bits=64
    ),
    Option("skip-message-on-error", "Go on behind a record that can't be printed."),
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("key-deserializer", "A Java class for keys.", "CLASS"),
    Option("value-deserializer", "A Java class for values.", "CLASS"),
    Option("enable-systest-events", "Print shutdown_complete at the end."),
    Option("isolation-level", "read_uncommitted (the default) or read_committed.", "LEVEL"),
    Option("group", "The consumer group.", "GROUP"),
)


def check(given: Given) -> None:
    """Refuse what does not go together."""
    if given.has("topic") == given.has("include"):
        raise Misused("Exactly one of the following arguments is required: [topic], [include]")
    if given.has("partition"):
        if not given.has("topic"):
            raise Misused("The topic is required when partition is specified")
        if given.has("from-beginning") and given.has("offset"):
            raise Misused("Options from-beginning and offset cannot be specified together")
    elif given.has("offset"):
        raise Misused("The partition is required when offset is specified")
    given.needs("bootstrap-server")
    for old, new in (
        ("consumer-property", "command-property"),
        ("consumer.config", "command-config"),
    ):
        if given.has(old) and given.has(new):
            raise Misused(f"Options --{old} and --{new} cannot be specified together")
    _warn(given, "consumer-property", "command-property")
    _warn(given, "consumer.config", "command-config")
    consumer_properties(given)
    first_offset(given)
    if given.has("property") and given.has("formatter-property"):
        raise Misused("Options --property and --formatter-property cannot be specified together")
    _warn(given, "property", "formatter-property")
    chosen_formatter(given)


def run(given: Given) -> int:
    """Print records until there were enough, or none for too long."""
    library.choose()
    from kavka.tools.console.reader import Reader, Source, Stop

    topic, pattern = given.text("topic"), given.text("include")
    partition, offset = given.number("partition"), first_offset(given)
    source = Source(topic, pattern, partition, offset)
    timeout_ms, limit = given.number("timeout-ms"), given.number("max-messages")
    stop = Stop(limit, None if timeout_ms is None or timeout_ms < 0 else timeout_ms)
    shown = chosen_formatter(given)
    properties = consumer_properties(given)
    reach(given.text("bootstrap-server") or "", properties)
    try:
        with Reader(source, properties) as reader:
            return reader.print_all(shown, stop, skips=given.has("skip-message-on-error"))
    finally:
        if given.has("enable-systest-events"):
            print("shutdown_complete")


TOOL: Final = ClientTool("console-consumer", "Print the records of topics.", OPTIONS, check, run)


def consumer_properties(given: Given) -> Mapping[str, str]:
    """A Java consumer's properties. Misused, Failed."""
    file = "consumer.config" if given.has("consumer.config") else "command-config"
    words = "consumer-property" if given.has("consumer-property") else "command-property"
    found = client_properties(given, file, words)
    _set_group(given, found, words, file)
    reset = found.setdefault(
        "auto.offset.reset", "earliest" if given.has("from-beginning") else "latest"
    )
    if given.has("from-beginning") and reset != "earliest":
        raise Failed(
            "Can't simultaneously specify --from-beginning and "
            f"'auto.offset.reset={reset}', please remove one option"
        )
    if found.get("group.protocol", "classic").lower() != "classic":
        raise Failed(
            "group.protocol=consumer: the client here, kafka-python, knows classic groups only"
        )
    found["bootstrap.servers"] = given.text("bootstrap-server") or ""
    found.setdefault("client.id", "console-consumer")
    level = given.text("isolation-level")
    found["isolation.level"] = level or found.get("isolation.level", "read_uncommitted")
    return found


def first_offset(given: Given) -> int:
    """Of --offset and --from-beginning. Misused."""
    text = given.text("offset")
    if text is None:
        return EARLIEST if given.has("from-beginning") else LATEST
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    if text.startswith("-") or not is_whole(text, 64):
        raise Misused(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', "
            "'latest', or a non-negative long"
        )
    return int(text)


def chosen_formatter(given: Given) -> Formatter:
    """With its properties. Misused, Failed."""
    path = given.text("formatter-config")
    found = {} if path is None else read_properties(path)
    for name in ("key.deserializer", "value.deserializer"):
        chosen = given.text(name.replace(".", "-"))
        if chosen:
            found[name] = chosen
    words = "property" if given.has("property") else "formatter-property"
    return formatter(
        given.text("formatter") or DEFAULT, {**found, **key_values(given.texts(words))}
    )


def _set_group(given: Given, found: dict[str, str], words: str, file: str) -> None:
    path = given.text(file)
    sources = (
        {"group.id": given.text("group")},
        {} if path is None else read_properties(path),
        key_values(given.texts(words)),
    )
    ids = {source["group.id"]: None for source in sources if source.get("group.id") is not None}
    if len(ids) > 1:
        names = ", ".join(f"'{group_id}'" for group_id in sorted(map(str, ids)))
        raise Misused(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or via '--consumer.config') do not match. Detected group ids: "
            + names
        )
    if ids and given.has("partition"):
        raise Misused("Options group and partition cannot be specified together")
    if "" in ids:
        raise Failed("The configured group.id should not be an empty string")
    if ids:
        (found["group.id"],) = map(str, ids)
    else:
        found["group.id"] = f"console-consumer-{random.Random().randrange(GROUPS)}"
        found.setdefault("enable.auto.commit", "false")


def _warn(given: Given, old: str, new: str) -> None:
    if given.has(old):
        print(WARNING.format(old=old, new=new))
        sys.stdout.flush()
