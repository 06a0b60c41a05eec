"""What confluent-kafka and kafka-python raise ends no tool with a stack trace: one line says what
is wrong, also where a property is none of Java's clients but means something to them."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.serializer import Serializer

from kavka.cli import main
from kavka.tools.admin.stops import TOGETHER_S
from kavka.tools.unacknowledged import WAITING
from support.broker import Kavka, kavka_environment
from support.clients.kafka_python import create_topic, offsets
from support.process import running
from support.wait import eventually

TEN = "--topic t --num-records 1 --record-size 10 --throughput -1"
LATENCY = "--topic t --num-records 1 --producer-acks 1 --record-size"

REFUSED = {
    "console-consumer --include [": "--include [ is no regular expression",
    "console-consumer --topic=": "--topic is empty",
    "console-consumer --topic t --command-property max.poll.records=0": "it is 1 at least",
    "console-consumer --topic t --group=": "group.id should not be an empty string",
    "console-consumer --topic t --partition 0 --offset 9999999999999999999": "is incorrect",
    "console-producer --topic t --command-property batch.size=-1": "it is 0 at least",
    "console-producer --topic t --command-property buffer.memory=much": "it is no number",
    "console-producer --topic t --max-memory-bytes -1": "it is 0 at least",
    f"consumer-perf-test {TEN.partition(' --record')[0]} --reporting-interval ²": "Cannot parse",
    f"consumer-perf-test {TEN.partition(' --record')[0]} --timeout=²": "Cannot parse",
    f"e2e-latency {LATENCY} 10 --num-headers ²": "Cannot parse",
    f"e2e-latency {LATENCY} 9000 --command-config SMALL": "larger than buffer.memory",
    f"e2e-latency {LATENCY} 2000000": "MSG_SIZE_TOO_LARGE",
    f"producer-perf-test {TEN} --command-property compression.type=none,": "Invalid value",
    "producer-perf-test --topic t --num-records 1 --record-size 2000000000 --throughput -1": (
        "1000000000 at most"
    ),
    "verifiable-consumer --topic= --group-id g": "_INVALID_ARG",
    "verifiable-consumer --topic ^[ --group-id g": "_INVALID_ARG",
    "verifiable-consumer --topic t --group-id=": "group.id is empty",
}
"""Command lines that end with 1, and what the last line on standard error says."""

LEFT_OUT = (
    *("default.topic.config", "error_cb", "logger", "oauth_cb", "on_delivery", "stats_cb"),
    "throttle_cb",
)
"""Properties of confluent-kafka's alone."""

LEFT_OUT_BY_CONSOLE = (
    *("api.version", "kafka.client", "metric.reporters", "partitioner", "proxy.url", "selector"),
    *("socket.options", "value_serializer"),
)
"""Those of kafka-python's alone; metric.reporters are Java classes in Java's."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kavka]:
    kavka = Kavka(tmp_path_factory.mktemp("broker"), {"group.initial.rebalance.delay.ms": "0"})
    with running([kavka]):
        create_topic(kavka.bootstrap, "t", 1)
        yield kavka


def words(line: str, broker: Kavka, place: Path) -> Sequence[str]:
    """With the broker's address, and a properties file."""
    (place / "small").write_text("buffer.memory=2000\n")
    name, *rest = line.replace("SMALL", str(place / "small")).split()
    return [name, "--bootstrap-server", broker.bootstrap, *rest]


@pytest.mark.parametrize("line", REFUSED)
def test_one_line_says_what_is_wrong(
    line: str, broker: Kavka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(words(line, broker, tmp_path)) == 1
    assert REFUSED[line] in capfd.readouterr().err.splitlines()[-1]


def test_properties_of_confluent_kafka_alone_have_no_effect(
    broker: Kavka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = " ".join(f"{name}=x" for name in LEFT_OUT)
    line = f"producer-perf-test {TEN} --command-property {given}"
    assert main(words(line, broker, tmp_path)) == 0
    said = capfd.readouterr()
    assert said.err.splitlines() == [
        f"The property {name} has no effect here." for name in LEFT_OUT
    ]
    assert said.out.startswith("1 records sent")


@pytest.mark.parametrize(
    "line", ["console-producer --topic t", "console-consumer --topic t --max-messages 0"]
)
def test_properties_of_kafka_python_alone_have_no_effect(
    line: str,
    broker: Kavka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a line\n")))
    given = " ".join(f"--command-property {name}=x" for name in LEFT_OUT_BY_CONSOLE)
    assert main(words(f"{line} {given}", broker, tmp_path)) == 0
    said = capfd.readouterr().err.splitlines()[: len(LEFT_OUT_BY_CONSOLE)]
    assert said == [f"The property {name} has no effect here." for name in LEFT_OUT_BY_CONSOLE]


def test_kafka_python_writes_no_null_value_of_a_header(broker: Kavka) -> None:
    """Neither from the caller nor from a serializer. Once it does, the console producer can."""

    class ForgetsValues(Serializer):  # type: ignore[misc]  # the library has no types
        def serialize(self, topic: str, headers: list[tuple[str, Any]], data: bytes) -> bytes:
            headers[:] = [(name, None) for name, _ in headers]
            return data

    create_topic(broker.bootstrap, "headers", 1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, value_serializer=ForgetsValues())
    with pytest.raises(TypeError, match="must be .str, bytes. tuples"):
        producer.send("headers", b"value", headers=[("name", None)])
    with pytest.raises(TypeError, match="has no len"):
        producer.send("headers", b"value", headers=[("name", b"")])
    producer.close(timeout=0)


def test_a_name_that_no_topic_can_have_ends_reading(
    broker: Kavka, capfd: pytest.CaptureFixture[str]
) -> None:
    """With 0, as Apache Kafka's tool."""
    line = ["console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", "a b"]
    assert main(line) == 0
    said = capfd.readouterr().err.splitlines()
    assert said[0].startswith("Reading ends with an error: ")
    assert said[1:] == ["Processed a total of 0 messages"]


def test_without_standard_input_there_is_nothing_to_send(
    broker: Kavka, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As behind `<&-`."""
    monkeypatch.setattr("sys.stdin", None)
    assert main(["console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "t"]) == 1
    assert capfd.readouterr().err == "standard input is closed: there are no lines to send\n"


def test_a_record_that_never_fits_is_not_waited_for(
    broker: Kavka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = f"producer-perf-test {TEN} --command-property buffer.memory=2000".replace("10", "9000")
    assert main(words(line, broker, tmp_path)) == 0
    said = capfd.readouterr()
    assert said.err == "A record could not be sent: it is larger than buffer.memory\n"
    assert said.out.startswith("0 records sent")


@contextlib.contextmanager
def started(*arguments: str, stdout: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kavka", *arguments],
        env=kavka_environment(),
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def in_transactions(broker: Kavka, name: str, duration_ms: int) -> list[str]:
    """A command line that writes for ever, and prints lines."""
    line = (
        f"producer-perf-test --topic t --num-records 100000000 --record-size 10 --throughput 500 "
        f"--reporting-interval 50 --transactional-id {name} --transaction-duration-ms {duration_ms}"
    )
    first, *rest = line.split()
    return [first, "--bootstrap-server", broker.bootstrap, *rest]


def test_ctrl_c_leaves_no_open_transaction(
    broker: Kavka, capfd: pytest.CaptureFixture[str]
) -> None:
    with started(*in_transactions(broker, "stopped", 50_000)) as process:
        assert process.stdout is not None
        assert "records sent" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, said) == (130, "")
    assert main(["transactions", "--bootstrap-server", broker.bootstrap, "list"]) == 0
    (found,) = (line for line in capfd.readouterr().out.splitlines() if "stopped" in line)
    assert found.split()[-1] in ("PrepareAbort", "CompleteAbort")


def test_ctrl_c_is_heard_in_a_commit_that_nobody_answers(tmp_path: Path) -> None:
    dying = Kavka(tmp_path)
    with running([dying]):
        create_topic(dying.bootstrap, "t", 1)
        with started(*in_transactions(dying, "unheard", 1)) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert "records sent" in process.stdout.readline()
            dying.kill()
            while "Connection refused" not in process.stderr.readline():
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in said


def write_many(process: subprocess.Popen[str]) -> None:
    """More lines than a pipe holds: some are taken."""
    assert process.stdin is not None
    process.stdin.write("line\n" * 100_000)
    process.stdin.flush()


def await_refused(process: subprocess.Popen[str]) -> None:
    """Wait until its client has seen that the broker is gone: it goes on writing meanwhile."""
    assert process.stderr is not None
    while "Connection refused" not in process.stderr.readline():
        assert process.poll() is None


@pytest.mark.parametrize(
    ("tool", "until_some_wait"),
    [("console-producer", write_many), ("verifiable-producer --throughput 500", await_refused)],
    ids=lambda value: value.split()[0] if isinstance(value, str) else "",
)
def test_ctrl_c_says_that_it_waits_for_records(
    tmp_path: Path, tool: str, until_some_wait: Callable[[subprocess.Popen[str]], None]
) -> None:
    dying = Kavka(tmp_path)
    with running([dying]):
        create_topic(dying.bootstrap, "t", 1)
        words = (*tool.split(), "--bootstrap-server", dying.bootstrap, "--topic", "t")
        with started(*words, stdout=subprocess.DEVNULL) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write("first\n")
            process.stdin.flush()
            eventually(
                lambda: offsets(dying.bootstrap, "t", 1)[1] != {0: 0},
                within_s=60,
                what="a record is written",
            )
            dying.kill()
            until_some_wait(process)
            process.send_signal(signal.SIGINT)
            while WAITING not in process.stderr.readline():
                assert process.poll() is None
            with contextlib.suppress(subprocess.TimeoutExpired):  # else it is the same signal again
                process.wait(2 * TOGETHER_S)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_reader_that_goes_away_is_no_ctrl_c(broker: Kavka) -> None:
    """As `| head -1`."""
    words = ("verifiable-producer", "--bootstrap-server", broker.bootstrap, "--topic", "t")
    with started(*words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "startup_complete" in process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 1
    assert said == ""


def test_the_latency_test_is_quiet_where_it_creates_its_topic(
    broker: Kavka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """An admin client of librdkafka's has something to say when it ends, in some runs."""
    for number in range(8):
        line = f"e2e-latency --topic new{number} --num-records 1 --producer-acks 1 --record-size 9"
        assert main(words(line, broker, tmp_path)) == 0
        said = capfd.readouterr()
        assert said.err == ""
        assert f'Topic "new{number}" does not exist.' in said.out
    line = f"e2e-latency --topic=a/b {LATENCY.partition(' t ')[2]} 9"
    assert main(words(line, broker, tmp_path)) == 1
    said = capfd.readouterr()
    assert said.out.endswith("Creation of topic a/b failed\n")
    assert said.err.startswith("INVALID_TOPIC_EXCEPTION: ") and said.err.count("\n") == 1
