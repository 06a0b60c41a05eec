"""What producer-perf-test counts and prints, line by line as Apache Kafka's."""

from __future__ import annotations

from typing import Final

from kavka.tools.java_numbers import fixed_text, ratio
from kavka.tools.perf.client import now_ms

SAMPLES_MAX: Final = 500_000
MEBIBYTE: Final = 1024 * 1024
PERCENTILES: Final = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))


class Stats:
    """Of all records, or of those after the warm-up."""

    def __init__(self, records: int, interval_ms: int, *, is_steady: bool) -> None:
        self._sampling = records // min(records, SAMPLES_MAX)
        self._interval_ms = interval_ms
        self._is_steady = is_steady
        self._start_ms = now_ms()
        self._samples: list[int] = []
        self._count = self._bytes = self._total_ms = self._max_ms = 0
        self.is_silent = False
        self._window_start_ms = self._start_ms
        self._window_count = self._window_bytes = 0
        self._window_total_ms = self._window_max_ms = 0

    def record(self, latency_ms: int, size: int, time_ms: int) -> None:
        """One record was acknowledged."""
        if self._count % self._sampling == 0:
            self._samples.append(latency_ms)
        self._count += 1
        self._bytes += size
        self._total_ms += latency_ms
        self._window_count += 1
        self._window_bytes += size
        self._window_total_ms += latency_ms
        if latency_ms > self._window_max_ms:
            self._window_max_ms = latency_ms
            self._max_ms = max(self._max_ms, latency_ms)
        if time_ms - self._window_start_ms >= self._interval_ms:
            if self._is_steady and self._count == self._window_count:
                print("In steady state.")
            if not self.is_silent:
                self._print_window()
            self._begin_window()

    def print_total(self) -> None:
        """The last line."""
        elapsed_ms = now_ms() - self._start_ms
        per_s, mb_per_s = _rates(self._count, self._bytes, elapsed_ms)
        self._samples.sort()
        shares = ", ".join(f"{self._percentile(share)} ms {name}" for share, name in PERCENTILES)
        average = fixed_text(ratio(self._total_ms, self._count), 2)
        print(
            f"{self._count}{' steady state' if self._is_steady else ''} records sent, "
            f"{fixed_text(per_s, 6)} records/sec ({fixed_text(mb_per_s, 2)} MB/sec), "
            f"{average} ms avg latency, {fixed_text(self._max_ms, 2)} ms max latency, {shares}."
        )

    def _percentile(self, share: float) -> int:
        return self._samples[int(share * len(self._samples))] if self._samples else 0

    def _print_window(self) -> None:
        elapsed_ms = now_ms() - self._window_start_ms
        per_s, mb_per_s = _rates(self._window_count, self._window_bytes, elapsed_ms)
        average = fixed_text(ratio(self._window_total_ms, self._window_count), 1)
        print(
            f"{self._window_count} records sent, {fixed_text(per_s, 1)} records/sec "
            f"({fixed_text(mb_per_s, 2)} MB/sec), {average} ms avg latency, "
            f"{fixed_text(self._window_max_ms, 1)} ms max latency.",
            flush=True,
        )

    def _begin_window(self) -> None:
        self._window_start_ms = now_ms()
        self._window_count = 0
        self._window_bytes = 0
        self._window_total_ms = 0
        self._window_max_ms = 0


def _rates(count: int, size: int, elapsed_ms: int) -> tuple[float, float]:
    """Records and mebibytes a second."""
    return ratio(1000 * count, elapsed_ms), ratio(1000 * size, elapsed_ms) / MEBIBYTE
