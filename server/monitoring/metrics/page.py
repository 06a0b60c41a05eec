"""Prints `docs/metrics.md` from the table of metrics; `make pages` puts it there."""

from __future__ import annotations

from typing import Final

from kavka.server.monitoring.metrics.row import Metric
from kavka.server.monitoring.metrics.table import TABLE

_HEAD: Final = """\
# Metrics

This page is generated from the table of metrics in `server/monitoring/metrics`: change it there,
then run `make pages`. How to read them: [monitoring.md](monitoring.md).

Names, labels and meanings are Apache Kafka's, by MBean: its `name`, or for `app-info` and
`socket-server-metrics` its attribute. Their Prometheus names are those that the example rules for
Kafka of Prometheus' JMX exporter (`kafka-2_0_0.yml`) produce, so dashboards made for them work.

A summary has the quantiles 0.50, 0.75, 0.95, 0.98, 0.99 and 0.999 of the last two and a half to
five minutes, accurate to about 6 %, and also `_sum`, which the JMX exporter lacks. An API has rows
after its first request. A topic's counts are removed with the topic; those without a topic label
include deleted topics.
"""

_TABLE_HEAD: Final = (
    "| Apache Kafka's name | Prometheus name | Kind | Labels | Meaning |",
    "|---|---|---|---|---|",
)


def page() -> str:
    """The whole page."""
    lines = [_HEAD]
    for title, rows in _sections():
        lines += [f"## {title}", "", *_table(rows), ""]
    lines += ["## Not in Apache Kafka", "", *_own_table(), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _sections() -> list[tuple[str, list[Metric]]]:
    """Apache Kafka's rows by their MBean, in the table's order."""
    found: dict[str, list[Metric]] = {}
    for row in TABLE:
        if ":" in row.name:
            bean = row.name.partition(",name=")[0].partition("#")[0]
            found.setdefault(f"`{bean}`", []).append(row)
    return list(found.items())


def _table(rows: list[Metric]) -> list[str]:
    lines = list(_TABLE_HEAD)
    for row in rows:
        name = row.name.partition(",name=")[2] or row.name.partition("#")[2]
        lines.append(f"| `{name}` {_cells(row)}")
    return lines


def _own_table() -> list[str]:
    return [
        "| Prometheus name | Kind | Labels | Meaning |",
        "|---|---|---|---|",
        *(_cells(row) for row in TABLE if ":" not in row.name),
    ]


def _cells(row: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in row.labels) or "none"
    return f"| `{row.prometheus}` | {row.kind.value} | {labels} | {row.doc} |"


if __name__ == "__main__":
    print(page(), end="")
