"""`kavka producer-perf-test`: as Apache Kafka's kafka-producer-perf-test, option by option."""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from kavka.tools.admin.command import ClientTool, read_client_properties
from kavka.tools.admin.errors import Failed, Misused
from kavka.tools.admin.options import Given, Option
from kavka.tools.admin.security import security_of
from kavka.tools.java_numbers import trimmed
from kavka.tools.java_text import text as java_text
from kavka.tools.patterns import user_pattern
from kavka.tools.perf.client import (
    Metrics,
    await_broker,
    error_text,
    explained,
    flush,
    library,
    now_ms,
    producer,
    warn,
)
from kavka.tools.perf.producer_stats import Stats
from kavka.tools.perf.throttle import Throttle
from kavka.tools.progress import Step, progress

WARNING: Final = (
    "Option --{old} has been deprecated and will be removed in a future version. Use --{new} "
    "instead."
)
TRANSACTION_MS: Final = 3000
POLL_EVERY: Final = 100
"""Records after which the client is asked for answers."""

FULL_S: Final = 0.1
CALL_S: Final = 1.0
"""A call to librdkafka about a transaction does not end earlier for Ctrl-C."""

TRANSACTION_S: Final = 60.0
"""How long such calls are tried, as Java's max.block.ms."""

ABORT_S: Final = 5.0
RECORD_BYTES_MAX: Final = 1_000_000_000
"""What librdkafka allows."""

PIECE_BYTES: Final = 1 << 20
LETTERS: Final = bytes(65 + index % 26 for index in range(256))
PAYLOADS: Final = ("record-size", "payload-file", "payload-monotonic")

OPTIONS: Final = (
    Option("bootstrap-server", "Brokers to connect to first.", "HOST:PORT,.."),
    Option("topic", "The topic to write to.", "TOPIC"),
    Option("num-records", "How many records to write.", "N", is_number=True, bits=64),
    Option("record-size", "Bytes of a record.", "BYTES", is_number=True),
    Option("payload-file", "A file in UTF-8 of records, from which some are taken.", "FILE"),
    Option("payload-monotonic", "Records are numbers, from 0 on."),
    Option(
        "payload-delimiter",
        "What is between records of the file, a regular expression; \\n if left out.",
        "REGEX",
    ),
    Option("throughput", "Records a second at most, about; -1 for no limit.", "N"),
    Option(
        "command-property", "A Java producer's properties.", "KEY=VALUE KEY=VALUE ..", is_list=True
    ),
    Option("producer-props", "Deprecated for --command-property.", "KEY=VALUE ..", is_list=True),
    Option("command-config", "A Java producer's properties file.", "FILE"),
    Option("producer.config", "Deprecated for --command-config.", "FILE"),
    Option("print-metrics", "Print what librdkafka counts, at the end."),
    Option("transactional-id", "Write in transactions, with this id.", "ID"),
    Option(
        "transaction-duration-ms",
        f"Write in transactions of this length; {TRANSACTION_MS} with --transactional-id alone.",
        "MS",
        is_number=True,
        bits=64,
    ),
    Option(
        "warmup-records", "How many of the first records are warm-up.", "N", is_number=True, bits=64
    ),
    Option("reporting-interval", "Between lines; 5000 if left out.", "MS", is_number=True, bits=64),
)


def check(given: Given) -> None:
    """Refuse what makes no sense, with Apache Kafka's words."""
    given.needs("topic", "num-records", "throughput")
    if sum(map(given.has, PAYLOADS)) != 1:
        raise Misused(f"One of --{', --'.join(PAYLOADS)} is needed, and no more")
    _throughput(given)
    records, warm_up = _number(given, "num-records", 0), _number(given, "warmup-records", 0)
    if records <= 0:
        raise Misused("--num-records should be greater than zero")
    if warm_up >= records:
        raise Misused(
            "The value for --warmup-records must be strictly fewer than the number of records in "
            "the test, --num-records"
        )
    size = _number(given, "record-size", 1)
    if size <= 0:
        raise Misused("--record-size should be greater than zero")
    if size > RECORD_BYTES_MAX:
        raise Misused(f"--record-size is {RECORD_BYTES_MAX} at most, as librdkafka allows no more")
    options = ("command-property", "producer-props", "producer.config", "command-config")
    if not any(map(given.has, ("bootstrap-server", *options))):
        raise Misused(
            "At least one of --bootstrap-server, --command-property, --producer-props, "
            "--producer.config or --command-config must be specified"
        )
    for old, new in (
        ("producer-props", "command-property"),
        ("producer.config", "command-config"),
    ):
        if given.has(old) and given.has(new):
            raise Misused(f"--{new} and --{old} cannot be specified together")
    if _number(given, "transaction-duration-ms", 1) <= 0:
        raise Misused("--transaction-duration-ms should be greater than zero")
    if _number(given, "reporting-interval", 1) <= 0:
        raise Misused("--reporting-interval should be greater than zero")


@explained
def run(given: Given) -> int:
    """Write the records, and print how fast that was."""
    payload = _payloads(given)
    properties = _properties(given)
    duration_ms = _transaction_ms(given, properties)
    metrics = Metrics() if given.has("print-metrics") else None
    await_broker(properties)
    client = producer(properties, metrics)
    test = _Test(client, given, payload, duration_ms)
    test.run()
    if metrics is not None:
        metrics.print_all(client.poll)
    return 0


TOOL: Final = ClientTool(
    "producer-perf-test",
    "Measure how fast records are produced.",
    OPTIONS,
    check,
    run,
    is_explained=True,
)


class _Test:
    """One run."""

    def __init__(
        self,
        client: Any,
        given: Given,
        payload: Callable[[int], bytes],
        transaction_ms: int | None,
    ) -> None:
        self._client = client
        self._topic = given.last("topic") or ""
        self._payload = payload
        self._transaction_ms = transaction_ms
        self._records = _number(given, "num-records", 0)
        self._warm_up = max(_number(given, "warmup-records", 0), 0)
        self._interval_ms = _number(given, "reporting-interval", 5000)
        self._target = _throughput(given)
        self._steady: Stats | None = None
        self._unheard = 0
        self._began_ms: int | None = None
        """Of the open transaction."""

        self._is_given_up = False

    def run(self) -> None:
        """Failed; Ctrl-C leaves no open transaction."""
        try:
            if self._transaction_ms is not None:
                _patiently(self._client.init_transactions)
            with progress("records", self._records) as step:
                self._write_all(step)
            self._print_totals()
        except BaseException:
            self._give_up()
            raise

    def _write_all(self, step: Step) -> None:
        if self._warm_up:
            print(
                f"Warmup first {self._warm_up} records. Steady state results will print after the "
                "complete test summary."
            )
        self._stats = Stats(self._records, self._interval_ms, is_steady=False)
        throttle = Throttle(self._target, self._client.poll)
        for number in range(self._records):
            if self._transaction_ms is not None and self._began_ms is None:
                self._client.begin_transaction()
                self._began_ms = now_ms()
            if self._warm_up and number == self._warm_up:
                self._steady = Stats(
                    self._records - self._warm_up, self._interval_ms, is_steady=True
                )
                self._stats.is_silent = True
            sent_ms = self._send(self._payload(number))
            self._commit(min_age_ms=self._transaction_ms or 0, time_ms=sent_ms)
            throttle.after(number)
            step()
        self._commit()
        flush(self._client)

    def _print_totals(self) -> None:
        self._stats.print_total()
        if self._steady is not None:
            self._steady.print_total()

    def _commit(self, min_age_ms: int = 0, time_ms: int = 0) -> None:
        if self._began_ms is None or (min_age_ms and time_ms - self._began_ms < min_age_ms):
            return
        _patiently(self._client.commit_transaction)
        self._began_ms = None

    def _give_up(self) -> None:
        """End the open transaction, as if it had not been."""
        if self._began_ms is None:
            return
        self._is_given_up = True
        try:
            self._client.abort_transaction(ABORT_S)
        except library().KafkaException as failure:
            warn(f"A transaction is left to its timeout: {error_text(failure.args[0])}")

    def _send(self, payload: bytes) -> int:
        sent_ms = now_ms()
        done = partial(self._done, sent_ms, len(payload), self._steady)
        while True:
            try:
                self._client.produce(self._topic, payload, on_delivery=done)
            except BufferError:
                if not len(self._client):
                    warn("A record could not be sent: it is larger than buffer.memory")
                    return sent_ms
                self._client.poll(FULL_S)
            except library().KafkaException as failure:
                warn(f"A record could not be sent: {error_text(failure.args[0])}")
                return sent_ms
            else:
                break
        self._unheard += 1
        if self._unheard == POLL_EVERY:
            self._unheard = 0
            self._client.poll(0)
        return sent_ms

    def _done(self, sent_ms: int, size: int, steady: Stats | None, error: Any, _: object) -> None:
        if self._is_given_up:
            return
        if error is not None:
            warn(f"A record was not written: {error_text(error)}")
            return
        time_ms = now_ms()
        self._stats.record(time_ms - sent_ms, size, time_ms)
        if steady is not None:
            steady.record(time_ms - sent_ms, size, time_ms)


def _payloads(given: Given) -> Callable[[int], bytes]:
    """The content of each record by its number. Failed if the file has none."""
    chance = random.Random(0)
    path = given.last("payload-file")
    if path is not None:
        delimiter = given.last("payload-delimiter")
        found = _read_payloads(path, "\\n" if delimiter is None else delimiter)
        return lambda _: chance.choice(found)
    size = _number(given, "record-size", 0)
    if size:
        return lambda _: _letters(chance, size)
    return lambda number: b"%d" % number


def _letters(chance: random.Random, size: int) -> bytes:
    """In pieces, as Python's generator gives no more than 256 MiB at once."""
    whole, rest = divmod(size, PIECE_BYTES)
    pieces = [chance.randbytes(PIECE_BYTES) for _ in range(whole)]
    return b"".join((*pieces, chance.randbytes(rest))).translate(LETTERS)


def _read_payloads(path: str, delimiter: str) -> Sequence[bytes]:
    print(f"Reading payloads from: {os.path.abspath(path)}")
    try:
        with open(path, "rb") as file:
            text = java_text(file.read())
    except OSError as error:
        raise Failed(f"{path} can't be read: {error}") from error
    if not text:
        raise Failed("File does not exist or empty file provided.")
    pattern = user_pattern(delimiter, "--payload-delimiter")
    found = [token.encode() for token in _tokens(pattern, text)]
    print(f"Number of records read: {len(found)}")
    if not found:
        raise Failed(f"{path} has no record: it has delimiters only")
    return found


def _tokens(delimiter: re.Pattern[str], text: str) -> Iterator[str]:
    """What is between delimiters, as Java's Scanner finds it: it passes over one before each token,
    the first as well."""
    at = 0
    while True:
        if passed := delimiter.match(text, at):
            at = passed.end()
        if at == len(text):
            return
        behind = delimiter.search(text, at)
        if behind and behind.end() == at:  # an empty one: the token would be empty for ever
            behind = delimiter.search(text, at + 1)
        end = behind.start() if behind else len(text)
        yield text[at:end]
        at = end


def _properties(given: Given) -> dict[str, str]:
    words = "command-property"
    if given.has("producer-props"):
        print(WARNING.format(old="producer-props", new="command-property"))
        words = "producer-props"
    path = given.last("command-config")
    if given.has("producer.config"):
        print(WARNING.format(old="producer.config", new="command-config"))
        path = given.last("producer.config")
    found = {} if path is None else read_client_properties(path)
    for text in given.texts(words):
        name, _, value = text.partition("=")
        if not value or "=" in value:
            raise Failed(f"Invalid property: {text}")
        found[name] = trimmed(value)
    security_of(found)
    found.setdefault("client.id", "perf-producer-client")
    addresses = given.last("bootstrap-server")
    if addresses is not None:
        found["bootstrap.servers"] = addresses
    if not found.get("bootstrap.servers"):
        raise Failed("bootstrap.servers is missing: give --bootstrap-server")
    return found


def _transaction_ms(given: Given, properties: dict[str, str]) -> int | None:
    """How long a transaction is; None without transactions."""
    transactional_id = given.last("transactional-id")
    options = ("transaction-duration-ms", "transactional-id")
    if not any(map(given.has, options)) and "transactional.id" not in properties:
        return None
    if transactional_id is not None:
        properties["transactional.id"] = transactional_id
    properties.setdefault("transactional.id", f"performance-producer-{uuid.uuid4()}")
    return _number(given, "transaction-duration-ms", TRANSACTION_MS)


def _throughput(given: Given) -> float:
    text = given.last("throughput") or ""
    try:
        return float(text)
    except ValueError:
        raise Misused(f"--throughput: {text!r} is no number") from None


def _number(given: Given, name: str, default: int) -> int:
    text = given.last(name)
    return default if text is None else int(text)


def _patiently(call: Callable[[float], object]) -> None:
    """Again and again, while librdkafka says that another try may help. Failed."""
    end_s = time.monotonic() + TRANSACTION_S
    while True:
        try:
            call(CALL_S)
        except library().KafkaException as failure:
            error = failure.args[0]
            if not error.retriable() or time.monotonic() >= end_s:
                raise Failed(f"the transaction failed: {error_text(error)}") from failure
        else:
            return
