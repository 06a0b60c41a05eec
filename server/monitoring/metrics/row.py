"""What one row of the table of metrics is, and how it is named in Prometheus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from kavka.server.runtime.histogram import Histogram

if TYPE_CHECKING:
    from kavka.server.monitoring.metrics.view import View

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_]")


class Kind(Enum):
    """What a number does, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    UNTYPED = "untyped"
    """It counts up, by a name of Apache Kafka's that no counter may have there: without _total."""


class Spread(NamedTuple):
    """A summary's value: quantiles of late, and how many there were in all."""

    histogram: Histogram
    times: int
    """How often it happened; the histogram may hold only some."""


Value: TypeAlias = "int | float | Spread"
Sample: TypeAlias = "tuple[tuple[str, ...], Value]"
"""Values of the labels, from the first on; those left out are not given."""


class Metric(NamedTuple):
    """One row.

    `name` is Apache Kafka's: domain, type and name of the MBean as its documentation writes them,
    and `#attribute` where the attribute is what is measured and not the usual one (Count, Value).
    A name without a domain is a Prometheus name as it is: Kavka's own, or a common one.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    read: Callable[[View], Iterable[Sample]]

    @property
    def prometheus(self) -> str:
        """The name in Prometheus, as the JMX exporter's example rules for Kafka make it."""
        domain, colon, rest = self.name.partition(":")
        if not colon:
            return self.name
        properties, _, attribute = rest.partition("#")
        parts = [domain, *(one.partition("=")[2] for one in properties.split(","))]
        if self.kind is Kind.COUNTER and not attribute:
            parts[-1] = parts[-1].removesuffix("PerSec")
            parts.append("total")
        if attribute:
            parts.append(attribute)
        return _NOT_IN_NAMES.sub("_", "_".join(parts).lower())
