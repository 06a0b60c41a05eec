"""confluent-kafka: where it comes from, and its properties out of a Java client's."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, Final, TypeAlias

from kavka.tools.admin.command import reach
from kavka.tools.admin.errors import Failed
from kavka.tools.admin.options import Given, is_whole
from kavka.tools.client_security import for_librdkafka, without_security
from kavka.tools.java_numbers import fixed_text
from kavka.tools.properties import without_effect

RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
}
KIBIBYTES: Final = {"buffer.memory": "queue.buffering.max.kbytes"}
IGNORED: Final = frozenset(
    {
        "max.block.ms",
        *(f"{part}.{kind}" for part in ("key", "value") for kind in ("serializer", "deserializer")),
    }
)
OBJECTS: Final = frozenset(
    {
        *("dr_cb", "dr_msg_cb", "error_cb", "log_cb", "oauth_cb", "on_commit", "on_delivery"),
        *("default.topic.config", "logger", "stats_cb", "throttle_cb"),
    }
)
"""What confluent-kafka takes as functions and the like, and Java's clients do not know at all."""

DEFAULTS: Final = {
    "producer": {"delivery.timeout.ms": "120000"},
    "consumer": {"check.crcs": "true", "isolation.level": "read_uncommitted"},
}
"""Java's, where librdkafka has others."""

ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
ASSIGNORS_PACKAGE: Final = "org.apache.kafka.clients.consumer."

SILENT: Final = "0"
"""The log_level at which a tool says itself what went wrong."""

STATISTICS_MS: Final = 200
"""How often librdkafka counts what --print-metrics prints."""

FLUSH_S: Final = 0.2
"""The longest single wait of `flush`."""

Names: TypeAlias = Callable[[Iterable[str]], None]
"""Says that these properties have no effect."""

_UNKNOWN: Final = re.compile(r'No such configuration property: "([^"]+)"')


def library() -> Any:
    """The module. Failed if it is not installed."""
    try:
        import confluent_kafka
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        raise Failed("This needs confluent-kafka: pip install 'kavka[tools]'") from missing
    return confluent_kafka


def await_broker(properties: Mapping[str, str]) -> None:
    """Failed unless confluent-kafka is there and a broker answers: its clients would say that in
    lines of their own, and try for ever."""
    library()
    reach(properties.get("bootstrap.servers", ""), properties)


def now_ms() -> int:
    """The time, as Java has it."""
    return time.time_ns() // 1_000_000


class Metrics:
    """What librdkafka counts."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}

    def take(self, text: str) -> None:
        """New figures, as JSON."""
        self._last = json.loads(text)

    def print_all(self, poll: Callable[[float], object]) -> None:
        """Print them in the form of Apache Kafka's, with librdkafka's names."""
        self._last = {}
        while not self._last:
            poll(STATISTICS_MS / 1000)
        client, kind = self._last["client_id"], self._last["type"]
        found = {
            f"{kind}-metrics:{name}:{{client-id={client}}}": value
            for name, value in sorted(self._last.items())
            if isinstance(value, int | float)
        }
        width = max(map(len, found))
        print(f"\n{'Metric Name'.ljust(width)}   Value")
        for name, value in found.items():
            shown = fixed_text(value, 3) if isinstance(value, float) else value
            print(f"{name.ljust(width)} : {shown}")


def producer(
    properties: Mapping[str, str], metrics: Metrics | None = None, unknown: Names = without_effect
) -> Any:
    """A producer of a Java producer's properties. Failed."""
    if _is_idempotent(properties):
        properties = {**properties, "enable.idempotence": "true"}
    return _made(library().Producer, "producer", properties, metrics, unknown)


def _is_idempotent(properties: Mapping[str, str]) -> bool:
    """Whether Java's producer is, where the properties do not say it (KIP-679): unless others of
    them contradict. With more than 5 requests in flight neither it nor librdkafka's can be made."""
    return (
        "enable.idempotence" not in properties
        and properties.get("acks", "all") in ("all", "-1")
        and properties.get("retries") != "0"
    )


def consumer(
    properties: Mapping[str, str], metrics: Metrics | None = None, unknown: Names = without_effect
) -> Any:
    """A consumer of a Java consumer's properties. Failed."""
    if not properties.get("group.id"):  # librdkafka ends the process if it is empty
        raise Failed("the consumer can't be made so: group.id is empty")
    return _made(library().Consumer, "consumer", properties, metrics, unknown)


def _made(
    make: Callable[[dict[str, Any]], Any],
    kind: str,
    properties: Mapping[str, str],
    metrics: Metrics | None,
    unknown: Names,
) -> Any:
    """What the client does not know is named on standard error and left out, as Java's do."""
    unknown(name for name in properties if name in OBJECTS)
    config: dict[str, Any] = {**DEFAULTS[kind], **_translated(properties)}
    if "transactional.id" in properties and "delivery.timeout.ms" not in properties:
        config.pop("delivery.timeout.ms", None)  # librdkafka's is that of the transaction then
    if properties.get("log_level") == SILENT:  # which librdkafka's fatal errors pass
        config["logger"] = _silent_logger()
    if metrics is not None:
        config |= {"statistics.interval.ms": STATISTICS_MS, "stats_cb": metrics.take}
    names = {new: old for old, new in (*RENAMED.items(), *KIBIBYTES.items())}
    while True:
        try:
            return make(config)
        except library().KafkaException as failure:
            said = failure.args[0].str().strip()  # some of librdkafka's end in a newline
            name = _UNKNOWN.search(said)
            if name is None or config.pop(name[1], None) is None:
                raise Failed(f"the {kind} can't be made so: {said}") from failure
            unknown([names.get(name[1], name[1])])
        except (TypeError, ValueError) as failure:
            raise Failed(f"the {kind} can't be made so: {failure}") from failure


def _silent_logger() -> logging.Logger:
    logger = logging.Logger("librdkafka")  # in no tree of loggers
    logger.addHandler(logging.NullHandler())
    return logger


def _translated(properties: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name, value in without_security(properties).items():
        if name in KIBIBYTES and is_whole(value, 64):
            found[KIBIBYTES[name]] = str(max(1, int(value) // 1024))
        elif name == "partition.assignment.strategy":
            found[name] = ",".join(_assignor(assignor.strip()) for assignor in value.split(","))
        elif name not in IGNORED | OBJECTS:
            found[RENAMED.get(name, name)] = value
    return found | for_librdkafka(properties)


def _assignor(name: str) -> str:
    short = name.removeprefix(ASSIGNORS_PACKAGE)
    if short not in ASSIGNORS:
        raise Failed(f"{name}: librdkafka has only {', '.join(ASSIGNORS)}")
    return ASSIGNORS[short]


def next_messages(client: Any, count: int, timeout_s: float) -> list[Any]:
    """Those that are there, some at least or none within the time; `count` at most."""
    first = client.poll(timeout_s)
    if first is None:
        return []
    return [first, *client.consume(num_messages=count - 1, timeout=0)]


def flush(client: Any) -> None:
    """Wait until all records are acknowledged or have failed; in slices, between which Ctrl-C is
    heard."""
    while client.flush(FLUSH_S):
        pass


def explained(run: Callable[[Given], int]) -> Callable[[Given], int]:
    """Failed in place of what librdkafka raises."""

    @wraps(run)
    def explained_run(given: Given) -> int:
        try:
            return run(given)
        except library().KafkaException as failure:
            raise Failed(error_text(failure.args[0])) from failure

    return explained_run


def error_text(error: Any) -> str:
    """A KafkaError in words."""
    return f"{error.name()}: {error.str()}"


def warn(text: str) -> None:
    """Say it on standard error."""
    print(text, file=sys.stderr)
