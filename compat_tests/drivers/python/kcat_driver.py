"""The driver of kcat, which is a program: it runs one for what is sent, one for each partition that
is read, and one for each question (see ../README.md).

kcat names no error but in its words, and it tells where records are stored, but not which: so those
of one run all go to one partition.
"""

from __future__ import annotations

import json
import os
import queue
import re
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from brokers import VARIABLE, for_librdkafka
from serve import Arguments, from_base64, given, serve, to_base64

CAN = [
    *("produce", "acks", "gzip", "snappy", "lz4", "zstd", "timeout"),
    *("append_time", "empty_bytes", "keyed", "auto_create", "recreated", "idempotence"),
    *("consume", "isolation", "reset", "reset_none", "small_fetches"),
    *("offsets_for_times", "ends"),
    *("list_topics", "describe_topic"),
]
"""Headers that it sends are words of its command line, which can't hold every byte."""

PRODUCER_SETTINGS = {
    "acks": "acks",
    "codec": "compression.codec",
    "idempotent": "enable.idempotence",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "max_request_bytes": "message.max.bytes",
    "timeout_ms": "message.timeout.ms",
}

CONSUMER_SETTINGS = {
    "reset": "auto.offset.reset",
    "isolation": "isolation.level",
    "fetch_max_bytes": "fetch.max.bytes",
    "partition_fetch_max_bytes": "max.partition.fetch.bytes",
    "metadata_max_age_ms": "topic.metadata.refresh.interval.ms",
}

OFFSETS = {"earliest": "beginning", "latest": "end"}
EARLIEST, LATEST = -2, -1
"""Times by which to ask for the ends of a partition."""

TIMESTAMP_TYPES = {"create": "create", "logappend": "append"}

NAMES = {
    "Broker: Leader not available": "LEADER_NOT_AVAILABLE",
    "Broker: Message size too large": "MESSAGE_TOO_LARGE",
    "Broker: Offset out of range": "OFFSET_OUT_OF_RANGE",
    "Broker: Unknown topic or partition": "UNKNOWN_TOPIC_OR_PARTITION",
}
"""The protocol's names for some of kcat's words."""

OUTCOME = re.compile(
    r"% Message delivered to partition (?P<partition>\d+) \(offset (?P<offset>-?\d+)\)"
    r"|% Delivery failed for message: (?P<failure>.*)"
)
FOUND = re.compile(r"(?P<topic>\S+) \[(?P<partition>\d+)\] offset (?P<offset>-?\d+)")
VERSION = re.compile(r"Version (\S+)")
END_S = 5


class KcatError(Exception):
    """What kcat said before it gave up."""


def error_as_json(failure: Exception) -> dict[str, Any]:
    message = str(failure)
    names = [name for words, name in NAMES.items() if words in message]
    return {"name": names[0] if names else type(failure).__name__, "message": message}


def last_error(said: str) -> KcatError:
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("% ERROR: ")]
    return KcatError((errors or lines or ["kcat said nothing"])[-1])


def as_options(settings: dict[str, Any]) -> list[str]:
    """Settings of librdkafka, in the way of the command line."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
    return [word for name, value in texts.items() for word in ("-X", f"{name}={value}")]


class Kcat:
    """How it is run against the brokers."""

    def __init__(self, bootstrap: str) -> None:
        self._start = ["kcat", "-b", bootstrap]
        if VARIABLE in os.environ:
            # Not on the command line, which everybody may read. The suite removes the directory.
            directory = Path(os.environ[VARIABLE]).parent
            with tempfile.NamedTemporaryFile("w", dir=directory, delete=False) as file:
                settings = for_librdkafka()
                file.writelines(f"{name}={value}\n" for name, value in settings.items())
            os.environ["KCAT_CONFIG"] = file.name

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._start, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def feed(self, data: bytes, *options: str) -> str:
        """Run it with an input: what it says."""
        done = subprocess.run(
            [*self._start, *options], input=data, capture_output=True, check=False
        )
        return done.stderr.decode(errors="replace")

    def ask(self, *options: str) -> str:
        """Run it for its output. KcatError."""
        done = subprocess.run(
            [*self._start, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise last_error(done.stderr)
        return done.stdout


class Producing:
    def __init__(self, kcat: Kcat) -> None:
        self._kcat = kcat
        self._options: list[str] = []

    def producer(self, arguments: Arguments) -> dict[str, Any]:
        self._options = as_options(given(arguments, PRODUCER_SETTINGS))
        return {}

    def send(self, arguments: Arguments) -> dict[str, Any]:
        records = arguments["records"]
        placed: list[Any] = [None] * len(records)
        for numbers in runs_of(records):
            found = self._run(arguments["topic"], [records[number] for number in numbers])
            for number, outcome in zip(numbers, found, strict=True):
                placed[number] = outcome
        return {"placed": placed}

    def _run(self, topic: str, records: Sequence[Arguments]) -> list[dict[str, Any]]:
        """Send records that one run of kcat can send: where they are."""
        try:
            data, options = input_of(records)
        except ValueError as failure:
            return [{"error": error_as_json(failure)} for _ in records]
        said = self._kcat.feed(data, "-P", "-t", topic, "-vvv", *self._options, *options)
        found = [outcome_as_json(outcome) for outcome in OUTCOME.finditer(said)][: len(records)]
        missing = len(records) - len(found)
        return [*found, *[{"error": error_as_json(last_error(said))} for _ in range(missing)]]

    def close_producer(self, _: Arguments) -> dict[str, Any]:
        self._options = []
        return {}


def runs_of(records: Sequence[Arguments]) -> Iterator[list[int]]:
    """The numbers of the records that can share a run, in the order of each partition."""
    of_partition: dict[int, list[int]] = {}
    for number, record in enumerate(records):
        if "partition" in record:
            of_partition.setdefault(record["partition"], []).append(number)
        else:
            yield [number]

    for numbers in of_partition.values():
        for _, run in groupby(numbers, lambda number: records[number].get("value") is None):
            yield list(run)


def input_of(records: Sequence[Arguments]) -> tuple[bytes, list[str]]:
    """The input and the options with which kcat sends records. ValueError if it can't."""
    first = records[0]
    nulls = first.get("value") is None
    end_of_key, end = secrets.token_hex(8), secrets.token_hex(8)
    data = b""
    for record in records:
        key, value = from_base64(record.get("key")), from_base64(record.get("value"))
        if (nulls and key == b"") or (key is None and value == b""):
            raise ValueError("kcat can't tell a null from an empty key here")
        if key is not None or nulls:
            data += (key or b"") + end_of_key.encode()
        data += (value or b"") + end.encode()
    options: list[str] = ["-K", end_of_key, "-D", end]
    if nulls:
        options.append("-Z")
    if "partition" in first:
        options += ["-p", str(first["partition"])]
    return data, options


def outcome_as_json(outcome: re.Match[str]) -> dict[str, Any]:
    if outcome["failure"] is not None:
        return {"error": error_as_json(KcatError(outcome["failure"]))}
    return {"partition": int(outcome["partition"]), "offset": max(int(outcome["offset"]), -1)}


class Reader:
    """A kcat that reads one partition; records go into a queue, and at last its error."""

    def __init__(self, process: subprocess.Popen[bytes], found: queue.SimpleQueue[Any]) -> None:
        self._process = process
        self._found = found
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        for line in self._process.stdout:
            self._found.put(record_as_json(json.loads(line.decode(errors="surrogateescape"))))
        self._found.put(last_error(self._process.stderr.read().decode(errors="replace")))

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()


class Consuming:
    def __init__(self, kcat: Kcat) -> None:
        self._kcat = kcat
        self._options: list[str] = []
        self._readers: list[Reader] = []
        self._found: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._kept: list[dict[str, Any]] = []

    def consumer(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        settings = {"auto.offset.reset": "earliest", **given(arguments, CONSUMER_SETTINGS)}
        if settings["auto.offset.reset"] == "none":
            settings["auto.offset.reset"] = "error"
        self._options = as_options(settings)
        return {}

    def assign(self, arguments: Arguments) -> dict[str, Any]:
        self.close()
        for partition in arguments["partitions"]:
            offset = OFFSETS.get(partition["offset"], str(partition["offset"]))
            place = ("-t", partition["topic"], "-p", str(partition["partition"]), "-o", offset)
            process = self._kcat.start("-C", *place, "-J", "-u", "-q", *self._options)
            self._readers.append(Reader(process, self._found))
        return {}

    def poll(self, arguments: Arguments) -> dict[str, Any]:
        count, until = arguments["records"], time.monotonic() + arguments["timeout_ms"] / 1000
        while len(self._kept) < count and (left_s := until - time.monotonic()) > 0:
            try:
                found = self._found.get(timeout=left_s)
            except queue.Empty:
                break
            if isinstance(found, Exception):
                raise found
            self._kept.append(found)
        records, self._kept = self._kept[:count], self._kept[count:]
        return {"records": records}

    def offsets_for_times(self, arguments: Arguments) -> dict[str, Any]:
        found = [
            self._offset(partition, partition["timestamp"]) for partition in arguments["partitions"]
        ]
        return {
            "offsets": [
                {"offset": None if offset < 0 else offset, "timestamp": None} for offset in found
            ]
        }

    def ends(self, arguments: Arguments) -> dict[str, Any]:
        return {
            "ends": [
                {
                    "earliest": self._offset(partition, EARLIEST),
                    "latest": self._offset(partition, LATEST),
                }
                for partition in arguments["partitions"]
            ]
        }

    def _offset(self, partition: Arguments, time_ms: int) -> int:
        said = self._kcat.ask(
            "-Q", "-t", f"{partition['topic']}:{partition['partition']}:{time_ms}"
        )
        found = FOUND.search(said)
        if found is None:
            raise KcatError(said)
        return int(found["offset"])

    def close_consumer(self, _: Arguments) -> dict[str, Any]:
        self.close()
        return {}

    def close(self) -> None:
        while self._readers:
            self._readers.pop().close()
        self._found, self._kept = queue.SimpleQueue(), []


def to_bytes(text: str | None) -> bytes | None:
    """kcat puts bytes into JSON as they are, be they UTF-8 or not."""
    return None if text is None else text.encode(errors="surrogateescape")


def record_as_json(found: Any) -> dict[str, Any]:
    names_and_values = iter(found.get("headers", ()))
    return {
        "topic": found["topic"],
        "partition": found["partition"],
        "offset": found["offset"],
        "timestamp": found["ts"],
        "timestamp_type": TIMESTAMP_TYPES.get(found["tstype"]),
        "key": to_base64(to_bytes(found["key"])),
        "value": to_base64(to_bytes(found["payload"])),
        "headers": [
            [name, to_base64(to_bytes(next(names_and_values)))] for name in names_and_values
        ],
    }


class Listing:
    def __init__(self, kcat: Kcat) -> None:
        self._kcat = kcat

    def list_topics(self, _: Arguments) -> dict[str, Any]:
        found = json.loads(self._kcat.ask("-L", "-J"))
        return {"topics": sorted(topic["topic"] for topic in found["topics"])}

    def describe_topic(self, arguments: Arguments) -> dict[str, Any]:
        return {
            "partitions": [
                {
                    "partition": partition["partition"],
                    "leader": partition["leader"],
                    "replicas": [replica["id"] for replica in partition["replicas"]],
                    "isr": [replica["id"] for replica in partition["isrs"]],
                }
                for partition in self._partitions(arguments["topic"])
            ]
        }

    def partitions(self, arguments: Arguments) -> dict[str, Any]:
        found = self._partitions(arguments["topic"])
        return {"partitions": [partition["partition"] for partition in found]}

    def _partitions(self, topic: str) -> list[Any]:
        (found,) = json.loads(self._kcat.ask("-L", "-J", "-t", topic))["topics"]
        if "error" in found:
            raise KcatError(found["error"])
        return sorted(found["partitions"], key=lambda partition: partition["partition"])


def version() -> str:
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = VERSION.search(said)
    if found is None:
        raise KcatError(said)
    return found[1]


def main() -> None:
    (bootstrap,) = sys.argv[1:]
    kcat = Kcat(bootstrap)
    producing, consuming, listing = Producing(kcat), Consuming(kcat), Listing(kcat)

    def hello(_: Arguments) -> dict[str, Any]:
        return {"client": "kcat", "version": version(), "can": CAN}

    requests: dict[str, Callable[[Arguments], Any]] = {
        "hello": hello,
        "producer": producing.producer,
        "send": producing.send,
        "partitions": listing.partitions,
        "close_producer": producing.close_producer,
        "consumer": consuming.consumer,
        "assign": consuming.assign,
        "poll": consuming.poll,
        "offsets_for_times": consuming.offsets_for_times,
        "ends": consuming.ends,
        "close_consumer": consuming.close_consumer,
        "list_topics": listing.list_topics,
        "describe_topic": listing.describe_topic,
    }
    serve(requests, error_as_json, consuming.close)


if __name__ == "__main__":
    main()
