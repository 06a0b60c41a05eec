"""A broker on a thread of its own, used by a program that does not await."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.testing import ApiError, Broker, BrokerFailed, ConfigError, ErrorCode, StartError
from support import strict_arenas
from support.broker import kavka_environment
from support.wait import eventually

ENDS_WITHIN_S = 120
ROUNDS = 150
GROWTH_BYTES_MAX = 12 << 20
"""What 120 rounds may add to the process: 100 KB each. Some MB come and go with free lists."""


def threads() -> list[str]:
    """The names of the threads that Kavka has in this process."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kavka")]


def can_connect(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ENDS_WITHIN_S).close()
    except ConnectionError:
        return False
    return True


def test_a_whole_life() -> None:
    with Broker(num_partitions=3, auto_create_topics_enable=False) as broker:
        assert broker.is_running and not broker.has_failed
        address, directory = broker.bootstrap_servers, broker.data_dir
        assert address.startswith("127.0.0.1:") and can_connect(address)
        assert list(broker.addresses.values()) == [address]
        cluster = broker.cluster_id
        broker.create_topic("t", 2, configs={"max.message.bytes": 100_000})
        assert broker.produce("t", b"1", key=b"k", headers=[("h", None)], timestamp_ms=5) == 0
        broker.restart()
        assert broker.produce("t", b"2") == 1
        broker.kill()
        assert not broker.is_running and not can_connect(address)
        broker.start()
        first, second = broker.read("t", 0, at_least=2)
        assert (first.key, first.value, first.headers, first.timestamp_ms) == (
            b"k",
            b"1",
            [("h", None)],
            5,
        )
        assert (second.offset, second.value) == (1, b"2")
        assert broker.end_offsets("t") == {0: 2, 1: 0}
        assert broker.topics() == ["t"]
        broker.delete_topic("t")
        assert broker.topics() == []
        assert (broker.bootstrap_servers, broker.cluster_id) == (address, cluster)
    assert not directory.exists() and not can_connect(address) and not threads()


def test_errors_are_raised_in_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean num_partitions"):
        Broker(num_partition=1)
    with Broker(data_dir=tmp_path) as broker:
        with pytest.raises(StartError, match="in use by another broker"):
            Broker(data_dir=tmp_path).start()
        with pytest.raises(StartError, match="can't listen"), broker_at(broker.bootstrap_servers):
            raise AssertionError("it can't be")
        with pytest.raises(ApiError) as caught:
            broker.delete_topic("t")
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(TimeoutError):
            broker.create_topic("t")
            broker.read("t", at_least=1, within_s=0.01)
        with pytest.raises(RuntimeError, match="runs already"):
            broker.start()
    with pytest.raises(RuntimeError, match=r"does not run: start\(\) it first"):
        broker.topics()
    assert not threads()


def test_stopping_a_broker_that_does_not_run() -> None:
    broker = Broker(num_partitions=2)
    broker.stop()
    broker.restart()
    broker.create_topic("t")
    broker.produce("t", b"kept", partition=1)
    for end in (broker.kill, broker.kill, broker.stop, broker.stop):
        end()
        assert not broker.is_running
        assert not threads()
    broker.restart()
    assert broker.end_offsets("t") == {0: 0, 1: 1}
    broker.close()
    broker.stop()
    assert not threads()


def broker_at(address: str) -> Broker:
    return Broker(listeners=f"PLAINTEXT://{address}")


def test_it_can_be_used_without_a_block() -> None:
    broker = Broker()
    assert broker.start() is broker
    directory = broker.data_dir
    broker.create_topic("t")
    broker.stop()
    assert directory.exists()
    broker.close()
    assert not directory.exists()
    broker.close()
    assert not threads()


def test_several_at_once_used_by_several_threads() -> None:
    """All share the codec; so what one answers may not be seen by the other."""
    with Broker() as first, Broker() as second:
        wrong: list[str] = []

        def use(broker: Broker, name: str) -> None:
            for number in range(100):
                topic = f"{name}-{number % 10}"
                if number < 10:
                    broker.create_topic(topic)
                broker.produce(topic, f"{name}{number}".encode())
                if not all(found.startswith(name[0]) for found in broker.topics()):
                    wrong.append(name)

        users = [
            threading.Thread(target=use, args=(broker, name))
            for broker, name in ((first, "a"), (second, "b"), (first, "aa"), (second, "bb"))
        ]
        for user in users:
            user.start()
        for user in users:
            user.join()
        assert not wrong
        assert len(first.topics()) == len(second.topics()) == 20
        values = [record.value for record in first.read("a-3")]
        assert values == [b"a%d" % number for number in range(3, 100, 10)]


def test_threads_that_start_and_end_it_do_so_one_after_another() -> None:
    broker = Broker()
    refusals: list[str] = []

    def all_at_once(action: Callable[[], object]) -> None:
        def act() -> None:
            begin.wait()
            try:
                action()
            except Exception as error:
                refusals.append(str(error))

        begin = threading.Barrier(3)
        users = [threading.Thread(target=act) for _ in range(3)]
        for user in users:
            user.start()
        for user in users:
            user.join()

    for _ in range(5):
        all_at_once(broker.start)
        assert refusals == ["the broker runs already"] * 2
        refusals.clear()
        broker.create_topic("t")
        all_at_once(broker.close)
        assert not refusals
    assert not threads()


def test_it_runs_beside_the_callers_own_loop() -> None:
    async def main() -> None:
        with Broker() as broker:
            host, _, port = broker.bootstrap_servers.rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            broker.create_topic("t")
            assert asyncio.all_tasks() == {asyncio.current_task()}
            writer.close()

    asyncio.run(main())


def test_the_program_is_left_as_it_was() -> None:
    def state() -> list[object]:
        return [
            signal.getsignal(signal.SIGINT),
            signal.getsignal(signal.SIGTERM),
            gc.get_threshold(),
            gc.isenabled(),
            gc.get_freeze_count(),
            logging.root.level,
            list(logging.root.handlers),
            logging.getLogger("kavka").level,
            asyncio.get_event_loop_policy(),
            sys.getswitchinterval(),
            os.environ.copy(),
        ]

    strict_arenas.include_all()  # the tests freeze objects themselves
    before = state()
    with Broker() as broker:
        broker.create_topic("t")
        assert state() == before
    assert state() == before


def test_a_broker_that_fails_later_is_reported_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from kavka.log.fs import OsFile

    def refuse(self: OsFile, data: object, offset: int) -> None:
        raise OSError("planted")

    with pytest.raises(BrokerFailed), Broker() as broker:
        monkeypatch.setattr(OsFile, "pwrite", refuse)
        with pytest.raises((ApiError, RuntimeError, BrokerFailed)):
            broker.create_topic("t")
        eventually(lambda: broker.has_failed, within_s=ENDS_WITHIN_S, what="it fails")
    assert not threads()


# -- the end of the process -----------------------------------------------------------------


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        env=kavka_environment(),
    )


def test_a_forgotten_broker_does_not_outlive_the_program() -> None:
    done = run(
        "from kavka.testing import Broker\n"
        "one, other = Broker().start(), Broker().start()\n"
        "other.stop()\n"
        "print(one.data_dir, other.data_dir)"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not any(Path(path).exists() for path in done.stdout.split())


def test_a_forked_child_has_no_part_in_it() -> None:
    """It ends as a program does, through `with` and `atexit`; and while it lives and has all that
    was open, its parent can restart the broker."""
    done = run(
        "import os, sys\n"
        "from kavka.testing import Broker\n"
        "with Broker() as broker:\n"
        "    go, ended = os.pipe()\n"
        "    broker.create_topic('t')\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        os.close(ended)\n"
        "        try:\n"
        "            broker.topics()\n"
        "        except RuntimeError as refusal:\n"
        "            print(refusal, flush=True)\n"
        "        os.read(go, 1)\n"
        "        sys.exit(0)\n"
        "    broker.restart()\n"
        "    broker.kill()\n"
        "    broker.start()\n"
        "    os.close(ended)\n"
        "    print(os.waitpid(child, 0)[1], broker.topics(), broker.data_dir.exists())\n"
    )
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert "is not in this process" in child
    assert parent == "0 ['t'] True"


# -- nothing is left ------------------------------------------------------------------------


def test_many_rounds_leave_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "support.many_rounds", str(ROUNDS)],
        capture_output=True,
        text=True,
        env={**kavka_environment(), "TMPDIR": str(tmp_path)},
        timeout=ENDS_WITHIN_S * 4,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after = map(json.loads, done.stdout.splitlines())
    assert not list(tmp_path.iterdir())
    assert after.pop("memory") - before.pop("memory") < GROWTH_BYTES_MAX
    assert after == before
