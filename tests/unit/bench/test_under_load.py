"""What is made of a client's notes while brokers die."""

from __future__ import annotations

import threading
import time

import pytest
from bench.under_load import Client, Done, History, longest_gap_ns


def test_the_longest_gap_lies_between_two_that_were_done_in_one_partition() -> None:
    done = [Done(0, 10), Done(0, 20), Done(0, 70), Done(0, 75)]
    assert longest_gap_ns(done) == 50


def test_another_partition_does_not_fill_a_gap() -> None:
    done = [Done(0, 10, 0), Done(0, 40, 1), Done(0, 70, 0), Done(0, 75, 1)]
    assert longest_gap_ns(done) == 60


@pytest.mark.parametrize("done", [[], [Done(0, 10)], [Done(0, 10, 0), Done(0, 90, 1)]])
def test_nothing_after_is_no_gap(done: list[Done]) -> None:
    assert longest_gap_ns(done) == 0


def test_what_began_before_does_not_count() -> None:
    history = History()
    history.note(Done(90, 110))
    history.note(Done(100, 120))
    history.note(Done(105, 130))
    assert history.first_after(100, within_s=0) == Done(100, 120)


def test_one_waits_until_it_is_done() -> None:
    history = History()
    history.note(Done(90, 110))
    found: list[Done] = []
    waiting = threading.Thread(target=lambda: found.append(history.first_after(100, within_s=60)))
    waiting.start()
    history.note_error("broker down")
    history.note(Done(101, 140))
    waiting.join(60)
    assert found == [Done(101, 140)]
    assert history.errors == ("broker down",)


def test_who_waits_too_long_hears_the_last_error() -> None:
    history = History()
    history.note(Done(90, 110))
    history.note_error("first")
    history.note_error("last")
    with pytest.raises(RuntimeError, match="nothing was done within 0 s: last"):
        history.first_after(100, within_s=0)


class Worker(Client):
    def work(self) -> None:
        self.history.note(Done(time.monotonic_ns(), time.monotonic_ns()))
        self._stopping.wait()


class Failing(Client):
    def work(self) -> None:
        raise ValueError("no such thing")


def test_a_client_works_until_the_block_ends() -> None:
    with Worker("nowhere:1") as client:
        client.history.first_after(0, within_s=60)
    assert len(client.history.done) == 1
    assert not client.history.errors


def test_a_client_that_fails_is_no_silent_one() -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        with Failing("nowhere:1"):
            pass


def test_what_failed_meanwhile_is_told_rather_than_the_client() -> None:
    with pytest.raises(RuntimeError, match=r"nothing was done.*no such thing"):
        with Failing("nowhere:1") as client:
            client._thread.join(60)
            client.history.first_after(0, within_s=0)
