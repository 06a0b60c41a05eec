"""`kavka verifiable-consumer`: as Apache Kafka's kafka-verifiable-consumer, option by option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kavka.tools.admin.command import ClientTool, read_client_properties
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option
from kavka.tools.perf.client import (
    await_broker,
    consumer,
    error_text,
    explained,
    library,
    next_messages,
    warn,
)
from kavka.tools.perf.events import print_event

WARNING: Final = (
    "Option --consumer.config has been deprecated and will be removed in a future version. Use "
    "--command-config instead."
)
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"
BATCH_MAX: Final = 500
"""Records of one event at most, as of a Java client's poll."""

POLL_S: Final = 1.0
PROTOCOLS: Final = ("classic", "consumer")
RESETS: Final = ("earliest", "latest", "none")

OPTIONS: Final = (
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("topic", "The topic to read.", "TOPIC"),
    Option("group-protocol", "classic (the default) or consumer.", "PROTOCOL"),
    Option("group-remote-assignor", "Of the broker, with the protocol consumer.", "NAME"),
    Option("group-id", "The consumer group.", "GROUP"),
    Option("group-instance-id", "Makes a static member.", "ID"),
    Option("max-messages", "How many records; -1 (the default) for ever.", "N", is_number=True),
    Option("session-timeout", "Of the protocol classic.", "MS", is_number=True),
    Option("verbose", "Print each record."),
    Option("enable-autocommit", "Have the client commit, from time to time."),
    Option("reset-policy", "earliest (the default), latest or none.", "POLICY"),
    Option("assignment-strategy", "A Java class, of the protocol classic.", "CLASS"),
    Option("consumer.config", "Deprecated for --command-config.", "FILE"),
    Option("command-config", "A Java consumer's properties file.", "FILE"),
)


def check(given: Given) -> None:
    """Refuse what makes no sense, with Apache Kafka's words."""
    given.needs("bootstrap-server", "topic", "group-id")
    if given.has("consumer.config") and given.has("command-config"):
        raise Misused("Options --consumer.config and --command-config are mutually exclusive")


@explained
def run(given: Given) -> int:
    """Read records, and print what happens."""
    properties = _properties(given)
    await_broker(properties)
    client = consumer(properties)
    _Consumer(client, given).run()
    return 0


TOOL: Final = ClientTool(
    "verifiable-consumer",
    "Consume a topic, and print what happens as JSON.",
    OPTIONS,
    check,
    run,
    is_explained=True,
)


class _Consumer:
    def __init__(self, client: Any, given: Given) -> None:
        self._client = client
        self._topic = given.last("topic") or ""
        self._limit = int(given.last("max-messages") or -1)
        self._is_verbose = given.has("verbose")
        self._commits = not given.has("enable-autocommit")
        self._count = 0

    def run(self) -> None:
        """Until there were enough records, Ctrl-C or SIGTERM."""
        print_event("startup_complete")
        is_done = False
        try:
            self._client.subscribe(
                [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke
            )
            while self._limit < 0 or self._count < self._limit:
                found = next_messages(self._client, BATCH_MAX, POLL_S)
                records = [message for message in found if self._is_record(message)]
                if records:
                    self._take(records)
            is_done = True
        finally:
            if not is_done:
                print_event("shutdown_requested")
            self._client.close()
            print_event("shutdown_complete")
            if is_done:
                print_event("shutdown_requested")

    def _is_record(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            return True
        if not error.retriable() and error.name() != "UNKNOWN_TOPIC_OR_PART":
            raise Failed(f"reading failed: {error_text(error)}")
        warn(error_text(error))
        return False

    def _take(self, records: Sequence[Any]) -> None:
        """Records of one call, up to the limit."""
        by_partition: dict[int, list[Any]] = {}
        for record in records:
            by_partition.setdefault(record.partition(), []).append(record)
        summaries, offsets = [], []
        for partition, some in by_partition.items():
            if self._limit >= 0:
                some = some[: self._limit - self._count]
            if not some:
                continue
            first, last = some[0].offset(), some[-1].offset()
            offsets.append(library().TopicPartition(self._topic, partition, last + 1))
            summaries.append(
                {
                    "topic": self._topic,
                    "partition": partition,
                    "count": len(some),
                    "minOffset": first,
                    "maxOffset": last,
                }
            )
            for record in some if self._is_verbose else ():
                _print_record(record)
            self._count += len(some)
        print_event("records_consumed", count=len(records), partitions=summaries)
        if self._commits:
            self._commit(offsets)

    def _commit(self, offsets: Sequence[Any]) -> None:
        failed: dict[str, str] = {}
        try:
            self._client.commit(offsets=offsets, asynchronous=False)
        except library().KafkaException as failure:
            failed["error"] = failure.args[0].str()
        committed = [
            {
                "topic": topic_partition.topic,
                "partition": topic_partition.partition,
                "offset": topic_partition.offset,
            }
            for topic_partition in offsets
        ]
        print_event("offsets_committed", offsets=committed, **failed, success=not failed)

    def _on_assign(self, _: object, partitions: Any) -> None:
        print_event("partitions_assigned", partitions=_named(partitions))

    def _on_revoke(self, _: object, partitions: Any) -> None:
        print_event("partitions_revoked", partitions=_named(partitions))


def _print_record(record: Any) -> None:
    key, value = (
        None if part is None else part.decode(errors="replace")
        for part in (record.key(), record.value())
    )
    print_event(
        "record_data",
        key=key,
        value=value,
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
    )


def _named(partitions: Any) -> list[dict[str, Any]]:
    return [
        {"topic": topic_partition.topic, "partition": topic_partition.partition}
        for topic_partition in partitions
    ]


def _properties(given: Given) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("consumer.config", "command-config"):
        path = given.last(name)
        if path is not None:
            if name == "consumer.config":
                print(WARNING)
            found |= read_client_properties(path)
    protocol = (given.last("group-protocol") or "classic").lower()
    if protocol not in PROTOCOLS:
        raise Failed(f"--group-protocol is {' or '.join(PROTOCOLS)}, not {protocol!r}")
    found["group.protocol"] = protocol
    if protocol == "consumer":
        assignor = given.last("group-remote-assignor")
        if assignor is not None:
            found["group.remote.assignor"] = assignor
    else:
        found["partition.assignment.strategy"] = given.last("assignment-strategy") or RANGE
    for option, name in (
        ("session-timeout", "session.timeout.ms"),
        ("group-id", "group.id"),
        ("group-instance-id", "group.instance.id"),
        ("bootstrap-server", "bootstrap.servers"),
    ):
        text = given.last(option)
        if text is not None:
            found[name] = text
    reset = given.last("reset-policy") or "earliest"
    if reset not in RESETS:
        raise Failed(f"Invalid value {reset} for --reset-policy: it is {', '.join(RESETS)}")
    found["auto.offset.reset"] = "error" if reset == "none" else reset
    found["enable.auto.commit"] = "true" if given.has("enable-autocommit") else "false"
    found.setdefault("allow.auto.create.topics", "true")
    return found
