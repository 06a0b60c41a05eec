"""Judges how far the clocks of brokers are from this machine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kavka.tools.doctor.findings import Finding, error, ok, warning

STEP: Final = "clock"
APART_MS: Final = 1_000
REFUSED_MS: Final = 3_600_000
"""message.timestamp.after.max.ms by default: a broker refuses records from further ahead."""


class Reading(NamedTuple):
    """A broker's time, and this machine's before it was asked for and after."""

    broker_ms: int
    before_ms: int
    after_ms: int


class Stamp(NamedTuple):
    """The time of a record that a broker has set by its own clock."""

    where: str
    broker_id: int
    time_ms: int


def judge_readings(readings: Mapping[int, Reading]) -> list[Finding]:
    """How far each broker's clock is ahead or behind. By broker."""
    return [_judge(f"broker {broker}", _apart(reading)) for broker, reading in readings.items()]


def judge_stamps(stamps: Sequence[Stamp], now_ms: int) -> list[Finding]:
    """Whether brokers have written in what is the future here. A clock that is behind does not show
    in this."""
    newest: dict[int, Stamp] = {}
    for stamp in stamps:
        if stamp.broker_id not in newest or newest[stamp.broker_id].time_ms < stamp.time_ms:
            newest[stamp.broker_id] = stamp
    findings = [
        _judge(f"broker {broker}", stamp.time_ms - now_ms, at_least=True)
        for broker, stamp in sorted(newest.items())
        if stamp.time_ms - now_ms > APART_MS
    ]
    if findings:
        return findings
    if not stamps:
        found = "can't be compared: no broker has written a record by its own clock"
        return [ok(STEP, "clocks", f"{found}; --write-test does it exactly")]
    return [ok(STEP, "clocks", "no broker has written a record from the future")]


def _apart(reading: Reading) -> int:
    """Ahead of this machine, in ms; negative if behind. Within the time that the answer took, it
    can't be found out."""
    if reading.broker_ms > reading.after_ms:
        return reading.broker_ms - reading.after_ms
    return min(0, reading.broker_ms - reading.before_ms)


def _judge(subject: str, apart_ms: int, *, at_least: bool = False) -> Finding:
    if abs(apart_ms) <= APART_MS:
        return ok(STEP, subject, "goes like this machine's")
    more = "at least " if at_least else ""
    where = "ahead of" if apart_ms > 0 else "behind"
    found = f"is {more}{abs(apart_ms) / 1000:.1f} s {where} this machine's clock"
    advice = "set both clocks by NTP (chronyc tracking, timedatectl)"
    if -apart_ms > REFUSED_MS:
        return error(
            STEP,
            "behind",
            subject,
            f"{found}: it refuses records with the time of this machine (INVALID_TIMESTAMP)",
            advice,
        )
    consequence = "retention, offsets by time and the age of transactions are wrong by as much"
    problem = "ahead" if apart_ms > 0 else "behind"
    return warning(STEP, problem, subject, f"{found}: {consequence}", advice)
