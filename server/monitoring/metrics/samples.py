"""What a metric's row reads: values with their labels."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kavka.server.runtime.histogram import Histogram


class Summary(NamedTuple):
    """A summary's value: recent quantiles, and the total count."""

    histogram: Histogram
    times: int
    """The total count; the histogram may have only a sample."""


Value: TypeAlias = "int | float | Summary"
Sample: TypeAlias = "tuple[tuple[str, ...], Value]"
"""Label values, in order, and the metric's value; trailing labels may be left out."""
