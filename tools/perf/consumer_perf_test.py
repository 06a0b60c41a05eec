"""`kavka consumer-perf-test`: as Apache Kafka's kafka-consumer-perf-test, option by option."""

from __future__ import annotations

import random
from typing import Any, Final

from kavka.tools.admin.command import ClientTool
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option, is_whole
from kavka.tools.java_numbers import fixed_text, ratio
from kavka.tools.patterns import user_pattern
from kavka.tools.perf.client import (
    Metrics,
    await_broker,
    consumer,
    error_text,
    explained,
    library,
    next_messages,
    now_ms,
    warn,
)
from kavka.tools.perf.java_dates import java_date
from kavka.tools.progress import Step, progress
from kavka.tools.properties import client_properties

COLUMNS: Final = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"
MEBIBYTE: Final = 1024 * 1024
POLL_S: Final = 0.1
BATCH_MAX: Final = 10_000
"""Records that one call of the client returns at most."""

GROUPS: Final = 100_000
TIMEOUT_MS: Final = 10_000

OPTIONS: Final = (
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("topic", "The topic to read.", "TOPIC"),
    Option("include", "A regular expression for the topics to read.", "PATTERN"),
    Option("group", "The consumer group.", "GROUP"),
    Option("fetch-size", "Bytes of a partition per request.", "BYTES", is_number=True),
    Option("command-property", "A Java consumer's property; may be given many times.", "KEY=VALUE"),
    Option("from-latest", "Begin with the next record, without a committed offset."),
    Option("socket-buffer-size", "The socket's buffer.", "BYTES", is_number=True),
    Option("consumer.config", "Deprecated for --command-config.", "FILE"),
    Option("command-config", "A Java consumer's properties file.", "FILE"),
    Option("print-metrics", "Print what librdkafka counts, at the end."),
    Option("show-detailed-stats", "Print a line for each --reporting-interval."),
    Option(
        "timeout",
        f"End when there was no record for so long; {TIMEOUT_MS} if left out.",
        "MS",
        is_optional=True,
    ),
    Option("messages", "Deprecated for --num-records.", "N", is_number=True, bits=64),
    Option("num-records", "How many records to read.", "N", is_number=True, bits=64),
    Option("reporting-interval", "Between lines; 5000 if left out.", "MS"),
    Option("date-format", "Of times, as java.text.SimpleDateFormat's.", "PATTERN"),
    Option("hide-header", "Print no names of columns."),
)


def check(given: Given) -> None:
    """Refuse what does not go together, with Apache Kafka's words."""
    for name in ("timeout", "reporting-interval"):
        text = given.text(name)
        if text and not is_whole(text, 64):
            raise Misused(f"Cannot parse argument '{text}' of option {name}")
    given.needs("bootstrap-server")
    for first, second in (("topic", "include"), ("messages", "num-records")):
        if given.has(first) == given.has(second):
            raise Misused(
                f"Exactly one of the following arguments is required: [{first}], [{second}]"
            )
    given.excludes("consumer.config", ("command-config",))
    if given.has("messages"):
        print("Warning: --messages is deprecated. Use --num-records instead.")
    if given.has("consumer.config"):
        print("Warning: --consumer.config is deprecated. Use --command-config instead.")


@explained
def run(given: Given) -> int:
    """Read the records, and print how fast that was."""
    if not given.has("hide-header"):
        first = "time, threadId" if given.has("show-detailed-stats") else "start.time, end.time"
        print(f"{first}, {COLUMNS}", flush=True)
    metrics = Metrics() if given.has("print-metrics") else None
    properties = _properties(given)
    test = _Test(given)
    await_broker(properties)
    client = consumer(properties, metrics)
    try:
        test.run(client)
        if metrics is not None:
            metrics.print_all(client.poll)
    finally:
        client.close()
    return 0


TOOL: Final = ClientTool(
    "consumer-perf-test", "Measure how fast records are consumed.", OPTIONS, check, run
)


class _Test:
    """One run. Failed if the options make no sense."""

    def __init__(self, given: Given) -> None:
        topic, pattern = given.text("topic"), given.text("include")
        self._topic = topic if topic is not None else f"^({pattern})$"
        if topic is None:
            user_pattern(pattern or "", "--include")
        self._records = given.number("num-records") or given.number("messages") or 0
        self._timeout_ms = int(given.text("timeout") or TIMEOUT_MS)
        self._interval_ms = int(given.text("reporting-interval") or 5000)
        if self._interval_ms <= 0:
            raise Failed("Reporting interval must be greater than 0.")
        self._is_detailed = given.has("show-detailed-stats")
        self._date_format = given.text("date-format") or DATE_FORMAT
        java_date(self._date_format, 0)
        self._count = self._bytes = 0
        self._join_ms = self._round_join_ms = self._join_start_ms = 0
        self._assigned: set[tuple[str, int]] = set()

    def run(self, client: Any) -> None:
        start_ms = self._join_start_ms = now_ms()
        try:
            client.subscribe([self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        except library().KafkaException as failure:
            raise Failed(f"{self._topic}: {error_text(failure.args[0])}") from failure
        with progress("records", self._records) as step:
            self._consume(client, step)
        end_ms = now_ms()
        if self._is_detailed:
            return
        fetch_ms = end_ms - start_ms - self._join_ms
        mb, seconds = self._bytes / MEBIBYTE, (end_ms - start_ms) / 1000
        figures = (
            fixed_text(mb, 4),
            fixed_text(ratio(mb, seconds), 4),
            self._count,
            fixed_text(ratio(self._count, seconds), 4),
            self._join_ms,
            fetch_ms,
            fixed_text(ratio(mb, fetch_ms / 1000), 4),
            fixed_text(ratio(self._count, fetch_ms / 1000), 4),
        )
        print(self._date(start_ms), self._date(end_ms), *figures, sep=", ")

    def _consume(self, client: Any, step: Step) -> None:
        heard_ms = reported_ms = time_ms = now_ms()
        last_bytes = last_count = 0
        while self._count < self._records and time_ms - heard_ms <= self._timeout_ms:
            found = next_messages(client, BATCH_MAX, POLL_S)
            time_ms = now_ms()
            step(len(found))
            for message in found:
                error = message.error()
                if error is not None:
                    _check_error(error)
                    continue
                heard_ms = time_ms
                self._count += 1
                self._bytes += len(message)
                key = message.key()
                if key is not None:
                    self._bytes += len(key)
                if time_ms - reported_ms >= self._interval_ms:
                    if self._is_detailed:
                        self._print_line(last_bytes, last_count, reported_ms, time_ms)
                    self._round_join_ms = 0
                    reported_ms, last_bytes, last_count = time_ms, self._bytes, self._count
        if self._count < self._records:
            print(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({self._timeout_ms} ms) exceeded. You can use the --timeout option to increase "
                "the timeout."
            )

    def _print_line(self, last_bytes: int, last_count: int, since_ms: int, time_ms: int) -> None:
        elapsed_ms = time_ms - since_ms
        fetch_ms = elapsed_ms - self._round_join_ms
        mb, count = (self._bytes - last_bytes) / MEBIBYTE, self._count - last_count
        figures = (
            fixed_text(self._bytes / MEBIBYTE, 4),
            fixed_text(1000 * ratio(mb, elapsed_ms), 4),
            self._count,
            fixed_text(1000 * ratio(count, elapsed_ms), 4),
            self._round_join_ms,
            fetch_ms,
            fixed_text(1000 * ratio(mb, fetch_ms) if fetch_ms > 0 else 0, 4),
            fixed_text(1000 * ratio(count, fetch_ms) if fetch_ms > 0 else 0, 4),
        )
        print(self._date(time_ms), 0, *figures, sep=", ", flush=True)

    def _on_assign(self, _: object, partitions: Any) -> None:
        if not self._assigned:
            took_ms = now_ms() - self._join_start_ms
            self._join_ms += took_ms
            self._round_join_ms += took_ms
        self._assigned.update(
            (topic_partition.topic, topic_partition.partition) for topic_partition in partitions
        )

    def _on_revoke(self, _: object, partitions: Any) -> None:
        self._assigned.difference_update(
            (topic_partition.topic, topic_partition.partition) for topic_partition in partitions
        )
        if not self._assigned:
            self._join_start_ms = now_ms()

    def _date(self, time_ms: int) -> str:
        return java_date(self._date_format, time_ms)


def _properties(given: Given) -> dict[str, str]:
    file = "consumer.config" if given.has("consumer.config") else "command-config"
    found = client_properties(given, file, "command-property")
    group = given.text("group") or f"perf-consumer-{random.Random().randrange(GROUPS)}"
    found |= {
        "bootstrap.servers": given.text("bootstrap-server") or "",
        "group.id": group,
        "receive.buffer.bytes": str(given.number("socket-buffer-size") or 2 * MEBIBYTE),
        "max.partition.fetch.bytes": str(given.number("fetch-size") or MEBIBYTE),
        "auto.offset.reset": "latest" if given.has("from-latest") else "earliest",
        "check.crcs": "false",
    }
    found.setdefault("client.id", "perf-consumer-client")
    found.setdefault("allow.auto.create.topics", "true")
    return found


def _check_error(error: Any) -> None:
    """Of what the client tries again, a line on standard error; Failed of anything else."""
    if not error.retriable() and error.name() != "UNKNOWN_TOPIC_OR_PART":
        raise Failed(f"reading failed: {error_text(error)}")
    warn(error_text(error))
