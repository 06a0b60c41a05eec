"""Apache Kafka's console producer and consumer, each run a JVM of its own.

What they can't express, the corpus for them leaves out: partition and timestamp (the producer
places records by key and stamps them itself), line breaks, and bytes that are no UTF-8. The
consumer prints keys, values and header values as the bytes they are, so it reads what any other
client wrote. It runs once a partition: `--partition` takes one, and without it there's a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from support import java
from support.clients.client import Ack, Found
from support.clients.corpus import Record, Shapes

# Longer than any chance: these never occur in the corpus. No regular expression's characters,
# since the producer takes its header separator as one.
FIELD = b"<~f~>"
HEADER = b"<~h~>"
HEADER_KEY = b"<~k~>"
NULL = b"<~0~>"
LINE = b"<~.~>"
NO_HEADERS = b"NO_HEADERS"

READ_TIMEOUT_MS = 30_000


class Console:
    """Driver of the console tools."""

    name = "java-console"
    shapes = Shapes(text_only=True, placed=False)

    def create_topic(self, bootstrap: str, topic: str, partitions: int) -> None:
        done = java.run(
            java.TOPICS,
            f"--bootstrap-server={bootstrap}",
            "--create",
            f"--topic={topic}",
            f"--partitions={partitions}",
            "--replication-factor=1",
        )
        assert done.exit_code == 0, done.text + done.stderr

    def write(self, bootstrap: str, topic: str, records: Sequence[Record], codec: str) -> list[Ack]:
        reader = {
            "parse.key": "true",
            "parse.headers": "true",
            "key.separator": FIELD.decode(),
            "headers.delimiter": FIELD.decode(),
            "headers.separator": HEADER.decode(),
            "headers.key.separator": HEADER_KEY.decode(),
            "null.marker": NULL.decode(),
        }
        done = java.run(
            java.CONSOLE_PRODUCER,
            f"--bootstrap-server={bootstrap}",
            f"--topic={topic}",
            f"--compression-codec={codec}",
            "--request-required-acks=all",
            "--request-timeout-ms=30000",
            "--timeout=5",
            *(f"--reader-property={key}={value}" for key, value in reader.items()),
            stdin=b"".join(_line(record) for record in records),
        )
        # It logs a failed send and still ends with 0.
        assert (done.exit_code, done.stderr) == (0, ""), done.stderr
        return []

    def read(self, bootstrap: str, topic: str, ends: Mapping[int, int]) -> dict[int, list[Found]]:
        nonempty = [partition for partition, end in ends.items() if end]
        runs = [_consumer(bootstrap, topic, partition, ends[partition]) for partition in nonempty]
        found: dict[int, list[Found]] = {partition: [] for partition in ends}
        for partition, done in zip(nonempty, java.run_all(runs), strict=True):
            assert done.exit_code == 0, done.stderr
            found[partition] = list(_parse(done.stdout))
        return found


def _line(record: Record) -> bytes:
    headers = [key.encode() + HEADER_KEY + _or_null(value) for key, value in record.headers]
    fields = (
        HEADER.join(headers) if headers else NULL,
        _or_null(record.key),
        _or_null(record.value),
    )
    return FIELD.join(fields) + b"\n"


def _or_null(field: bytes | None) -> bytes:
    return NULL if field is None else field


def _consumer(bootstrap: str, topic: str, partition: int, count: int) -> java.Run:
    formatter = {
        "print.timestamp": "true",
        "print.partition": "true",
        "print.offset": "true",
        "print.headers": "true",
        "print.key": "true",
        "key.separator": FIELD.decode(),
        "headers.separator": HEADER.decode(),
        "line.separator": LINE.decode(),
        "null.literal": NULL.decode(),
    }
    return java.Run(
        java.CONSOLE_CONSUMER,
        [
            f"--bootstrap-server={bootstrap}",
            f"--topic={topic}",
            f"--partition={partition}",
            "--offset=earliest",
            f"--max-messages={count}",
            f"--timeout-ms={READ_TIMEOUT_MS}",
            *(f"--formatter-property={key}={value}" for key, value in formatter.items()),
        ],
    )


def _parse(output: bytes) -> Iterator[Found]:
    *lines, rest = output.split(LINE)
    assert rest == b"", rest
    for line in lines:
        timestamp, partition, offset, headers, key, value = line.split(FIELD)
        yield Found(
            int(offset.removeprefix(b"Offset:")),
            Record(
                _parse_null(key),
                _parse_null(value),
                tuple(_parse_headers(headers)),
                int(partition.removeprefix(b"Partition:")),
                int(timestamp.removeprefix(b"CreateTime:")),
            ),
        )


def _parse_null(field: bytes) -> bytes | None:
    return None if field == NULL else field


def _parse_headers(field: bytes) -> Iterator[tuple[str, bytes | None]]:
    if field != NO_HEADERS:
        for header in field.split(HEADER):
            key, _, value = header.partition(b":")
            yield key.decode(), _parse_null(value)
