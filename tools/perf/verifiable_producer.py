"""`kavka verifiable-producer`: as Apache Kafka's kafka-verifiable-producer, option by option."""

from __future__ import annotations

from typing import Any, Final

from kavka.tools.admin import stops
from kavka.tools.admin.command import ClientTool, read_client_properties
from kavka.tools.admin.errors import Misused
from kavka.tools.admin.options import Given, Option
from kavka.tools.java_numbers import ratio
from kavka.tools.perf.client import await_broker, explained, flush, library, now_ms, producer
from kavka.tools.perf.events import print_event
from kavka.tools.perf.java_errors import java_class
from kavka.tools.perf.throttle import Throttle
from kavka.tools.unacknowledged import say_waiting

WARNING: Final = (
    "Option --producer.config has been deprecated and will be removed in a future version. Use "
    "--command-config instead."
)
FULL_S: Final = 0.1
NO_OFFSET: Final = -1
"""What Java's producer gives where it does not know where a record lies."""

OPTIONS: Final = (
    Option("topic", "The topic to write to.", "TOPIC"),
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("max-messages", "How many records; -1 (the default) for ever.", "N", is_number=True),
    Option("throughput", "Records a second at most, about; -1 for no limit.", "N", is_number=True),
    Option("acks", "0, 1 or -1 (the default).", "ACKS", choices=("0", "1", "-1")),
    Option("producer.config", "Deprecated for --command-config.", "FILE"),
    Option("message-create-time", "The first record's time.", "MS", is_number=True, bits=64),
    Option("value-prefix", "A number before each value, with a dot.", "N", is_number=True),
    Option("repeating-keys", "Keys from 0 to below this, over and over.", "N", is_number=True),
    Option("command-config", "A Java producer's properties file.", "FILE"),
)


def check(given: Given) -> None:
    """Refuse what makes no sense, with Apache Kafka's words."""
    given.needs("topic", "bootstrap-server")
    if given.has("producer.config") and given.has("command-config"):
        raise Misused("Options --producer.config and --command-config are mutually exclusive")


@explained
def run(given: Given) -> int:
    """Write numbers, and print what became of each."""
    properties = _properties(given)
    await_broker(properties)
    client = producer(properties)
    _Producer(client, given).run()
    return 0


TOOL: Final = ClientTool(
    "verifiable-producer",
    "Produce increasing numbers, and print what became of each.",
    OPTIONS,
    check,
    run,
    is_explained=True,
)


class _Producer:
    def __init__(self, client: Any, given: Given) -> None:
        self._client = client
        self._topic = given.last("topic") or ""
        self._records = _number(given, "max-messages", -1)
        self._target = _number(given, "throughput", -1)
        prefix = given.last("value-prefix")
        self._prefix = "" if prefix is None else f"{int(prefix)}."
        self._keys = _number(given, "repeating-keys", 0)
        time_ms = _number(given, "message-create-time", -1)
        self._time_ms = None if time_ms == -1 else time_ms
        self._start_ms = now_ms()
        self._sent = self._acked = 0

    def run(self) -> None:
        """Until there were enough records, Ctrl-C or SIGTERM: then what was sent is heard."""
        print_event("startup_complete")
        throttle = Throttle(self._target, self._client.poll)
        try:
            self._send_all(throttle)
        finally:
            print_event("shutdown_complete")
            elapsed_ms = now_ms() - self._start_ms
            print_event(
                "tool_data",
                sent=self._sent,
                acked=self._acked,
                target_throughput=self._target,
                avg_throughput=1000.0 * ratio(self._acked, elapsed_ms),
            )

    def _send_all(self, throttle: Throttle) -> None:
        try:
            while self._records < 0 or self._sent < self._records:
                self._send(self._sent)
                throttle.after(self._sent - 1)
        except BaseException:  # a callback of librdkafka makes a SystemError of Ctrl-C
            if stops.has_come() and len(self._client):
                say_waiting()
            flush(self._client)  # Ctrl-C once more ends this
            raise
        flush(self._client)

    def _send(self, number: int) -> None:
        key = str(number % self._keys) if self._keys > 0 else None
        value = f"{self._prefix}{number}"
        time: dict[str, int] = {}
        if self._time_ms is not None:
            time["timestamp"] = self._time_ms
            self._time_ms += now_ms() - self._start_ms
        self._sent += 1
        while True:
            try:
                self._client.produce(
                    self._topic,
                    value,
                    key,
                    on_delivery=lambda error, message: self._done(key, value, error, message),
                    **time,
                )
            except BufferError:
                self._client.poll(FULL_S)
            except library().KafkaException as failure:
                self._done(key, value, failure.args[0], None)
                return
            else:
                self._client.poll(0)
                return

    def _done(self, key: str | None, value: str, error: Any, message: Any) -> None:
        if error is not None:
            print_event(
                "producer_send_error",
                topic=self._topic,
                key=key,
                value=value,
                exception=java_class(error),
                message=error.str(),
            )
            return
        self._acked += 1
        offset = message.offset()
        print_event(
            "producer_send_success",
            key=key,
            value=value,
            offset=NO_OFFSET if offset is None else offset,
            topic=message.topic(),
            partition=message.partition(),
        )


def _properties(given: Given) -> dict[str, str]:
    found = {
        "bootstrap.servers": given.last("bootstrap-server") or "",
        "acks": given.last("acks") or "-1",
        "retries": "0",
    }
    for name in ("producer.config", "command-config"):
        path = given.last(name)
        if path is not None:
            if name == "producer.config":
                print(WARNING)
            found |= read_client_properties(path)
    return found


def _number(given: Given, name: str, default: int) -> int:
    text = given.last(name)
    return default if text is None else int(text)
