"""A row of the table of metrics, and its name in Prometheus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.server.monitoring.metrics.samples import Sample

if TYPE_CHECKING:
    from kavka.server.monitoring.metrics.view import View

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_]")


class Kind(Enum):
    """The type of a metric, by Prometheus' name."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    UNTYPED = "untyped"
    """A counter whose name, from Apache Kafka, lacks the _total that Prometheus requires."""


class Metric(NamedTuple):
    """One row.

    `name` is Apache Kafka's: domain, type and name of the MBean as its documentation writes them,
    and `#attribute` if the measured attribute is not the usual one (Count, Value).
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
        parts = [domain, *(pair.partition("=")[2] for pair in properties.split(","))]
        if self.kind is Kind.COUNTER and not attribute:
            parts[-1] = parts[-1].removesuffix("PerSec")
            parts.append("total")
        if attribute:
            parts.append(attribute)
        return _NOT_IN_NAMES.sub("_", "_".join(parts).lower())
