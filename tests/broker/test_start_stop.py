"""Start and end of a broker's process: ready line, signals, locks, and refusals with a message."""

from __future__ import annotations

import re
import signal
import socket
import struct
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from kavka.compat_tests.raw.codec.batches import Written, build
from support.broker import Kavka, StartBroker, broker_kind, kavka_environment
from support.clients.every import CONFLUENT, KAFKA_PYTHON
from support.clients.idempotent import ConfluentWriter, History
from support.clients.kafka_python import offsets
from support.ports import HOST
from support.process import BrokerProcess
from support.raw import RawConnection
from support.wait import eventually

CLEAN_SHUTDOWN_MARKER = ".kafka_cleanshutdown"
STOPS_WITHIN_S = 30.0
REFUSES_WITHIN_S = 60.0
WITHIN_S = 60.0
SOME_ACKS = 500
MANY_BATCHES = 400_000
"""A recovery of these takes more than a second, and a signal is noticed in milliseconds."""

pytestmark = pytest.mark.skipif(
    broker_kind() is not Kavka, reason="how Kavka itself starts and ends"
)


def refused(*arguments: str) -> str:
    """Run `kavka start` with arguments that it must refuse; what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "kavka", "start", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=REFUSES_WITHIN_S,
        env=kavka_environment(),
    )
    assert done.returncode not in (0, -signal.SIGKILL), done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    assert " ready " not in done.stdout, done.stdout
    return done.stdout


def overrides(**settings: str) -> list[str]:
    """Settings as arguments; an underscore stands for a dot."""
    pairs = (f"{key.replace('_', '.')}={value}" for key, value in settings.items())
    return [argument for pair in pairs for argument in ("--override", pair)]


def test_the_broker_prints_one_ready_line(start_broker: StartBroker) -> None:
    broker = start_broker()
    lines = [line for line in broker.output().splitlines() if "ready" in line]
    assert len(lines) == 1
    assert f"{HOST}:{broker.port}" in lines[0]
    assert str(broker.data_dir) in lines[0]
    taken = re.search(r"\b(\d+) ms\b", lines[0])
    assert taken and 0 < int(taken[1]) < broker.ready_within_s * 1000


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_cleanly_under_load(
    start_broker: StartBroker, signum: signal.Signals
) -> None:
    broker = start_broker()
    KAFKA_PYTHON.create_topic(broker.bootstrap, "load", 2)
    marker = broker.data_dir / CLEAN_SHUTDOWN_MARKER
    history = History()
    writer = ConfluentWriter(broker.bootstrap, "load", 2, history)
    writer.start()
    try:
        for stops in (1, 2):
            eventually(
                partial(history.holds, stops * SOME_ACKS),
                within_s=WITHIN_S,
                what="records acknowledged",
                detail=broker.tail,
            )
            assert not marker.exists()
            broker.stop(signum, within_s=STOPS_WITHIN_S)
            assert marker.exists()
            broker.start()
    finally:
        writer.finish()
    assert not history.failures, history.failures[:10]
    _, ends = offsets(broker.bootstrap, "load", 2)
    found = CONFLUENT.read(broker.bootstrap, "load", ends)
    places = {
        (partition, at): record.value for partition in found for at, record in found[partition]
    }
    assert places == history.acknowledged


def test_an_ignored_sighup_stays_ignored(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under `nohup`, which has the process started so."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        broker = start_broker()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert broker.process is not None
    broker.process.send_signal(signal.SIGHUP)
    KAFKA_PYTHON.create_topic(broker.bootstrap, "after", 1)
    broker.stop()
    assert "SIGHUP" not in broker.output()


def test_the_life_of_topics_and_of_the_broker_is_in_its_log(start_broker: StartBroker) -> None:
    broker = start_broker()
    KAFKA_PYTHON.create_topic(broker.bootstrap, "orders", 3)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.delete_topics(["orders"])
    eventually(lambda: "deleted topic orders" in broker.output(), within_s=WITHIN_S, what="a line")
    broker.stop(signal.SIGHUP)
    said = broker.output()
    created = r"created topic orders with topic id \S{22}: 3 partitions, replication factor 1 "
    assert len(re.findall(created, said)) == 1, said
    assert said.count("INFO deleted topic orders ") == 1
    assert said.count("INFO shutting down: received SIGHUP ") == 1
    assert len(re.findall(r"INFO broker 1 shut down in \d+ ms ", said)) == 1
    assert said.index("received SIGHUP") < said.index(" shut down in ")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_the_middle_of_a_recovery(
    start_broker: StartBroker, signum: signal.Signals
) -> None:
    broker = start_broker()
    KAFKA_PYTHON.create_topic(broker.bootstrap, "big", 1)
    broker.kill()
    log = broker.data_dir / "big-0" / "00000000000000000000.log"
    marker = broker.data_dir / CLEAN_SHUTDOWN_MARKER
    count = MANY_BATCHES
    while not stopped_while_recovering(broker, log, count, signum):
        count *= 2  # it was quicker than this test
        assert count < 20 * MANY_BATCHES
        marker.unlink()
    broker.start()
    assert offsets(broker.bootstrap, "big", 1) == ({0: 0}, {0: count})


def stopped_while_recovering(
    broker: BrokerProcess, log: Path, count: int, signum: signal.Signals
) -> bool:
    """Whether a broker that has `count` batches to recover stops in the middle of it."""
    body = bytes(build([Written(value=b"v")]))[8:]  # the base offset lies outside the checksum
    log.write_bytes(b"".join(struct.pack(">q", base) + body for base in range(count)))
    (broker.data_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    broker.launch()
    eventually(
        lambda: "recovering" in broker.output(), within_s=REFUSES_WITHIN_S, what="it recovers"
    )
    broker.stop(signum, within_s=STOPS_WITHIN_S)
    said = broker.output()
    assert ("stopping before the start is over" in said) != (" ready " in said), said
    return not (broker.data_dir / CLEAN_SHUTDOWN_MARKER).exists()  # all logs had been loaded


def test_waiting_clients_do_not_hold_it_up(start_broker: StartBroker) -> None:
    broker = start_broker()
    KAFKA_PYTHON.create_topic(broker.bootstrap, "quiet", 1)
    with (
        closing(socket.create_connection((HOST, broker.port))),
        RawConnection(HOST, broker.port) as waiting,
    ):
        waiting.begin_fetch("quiet", 0, max_wait_ms=60_000)
        with RawConnection(HOST, broker.port) as later:
            assert later.end_offset("quiet", 0) == 0  # so the broker has met the other request
        broker.stop(within_s=STOPS_WITHIN_S)


def test_a_second_process_on_the_directory_is_refused(start_broker: StartBroker) -> None:
    broker = start_broker()
    said = refused(*overrides(listeners=f"PLAINTEXT://{HOST}:0", log_dirs=str(broker.data_dir)))
    assert str(broker.data_dir) in said
    assert re.search(r"lock|in use|another", said, re.IGNORECASE)
    KAFKA_PYTHON.create_topic(broker.bootstrap, "still-there", 1)
    broker.stop()
    broker.start()  # the lock went with its process


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(
            *overrides(listeners=f"PLAINTEXT://{HOST}:{port}", log_dirs=str(tmp_path / "data"))
        )
    assert str(port) in said


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.segment.bytes", "many"),
        ("num.partitions", "0"),
        ("listeners", "nonsense"),
        ("compression.type", "rar"),
    ],
)
def test_a_bad_value_is_named(tmp_path: Path, key: str, value: str) -> None:
    said = refused(*overrides(log_dirs=str(tmp_path / "data")), "--override", f"{key}={value}")
    assert key in said
    assert value in said


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.properties"
    assert str(missing) in refused("--config", str(missing))


def test_settings_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# As Apache Kafka reads it\n"
        f"listeners = PLAINTEXT://{HOST}:0\n"
        f"log.dirs={tmp_path / 'from-file'}\n"
        "num.partitions: 4\n"
    )
    broker = FromFile(tmp_path / "home")
    broker.config = path
    try:
        broker.start()
        KAFKA_PYTHON.create_topic(broker.bootstrap, "of-default-size", -1)
        partitions = sorted(path.name for path in (tmp_path / "from-file").glob("of-default*"))
        assert partitions == [f"of-default-size-{number}" for number in range(4)]
        broker.stop()
    finally:
        broker.close()


class FromFile(Kavka):
    """A broker that is given a file and no overrides."""

    config: Path

    def command(self) -> list[str]:
        return [sys.executable, "-m", "kavka", "start", "--config", str(self.config)]
