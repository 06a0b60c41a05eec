"""Prints `docs/conformance.md` from the tables of cases and the list of what may differ.

`make pages` puts it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kavka.compat_tests.raw.allowed import ALLOWED, Allowed
from kavka.compat_tests.raw.case import Cases, Outcome
from kavka.compat_tests.raw.cases import tables
from kavka.compat_tests.raw.judges import NEW, OLD, judge_of
from kavka.compat_tests.raw.nature import NATURE
from kavka.compat_tests.raw.playing import ranges
from kavka.compat_tests.raw.unordered import UNORDERED

_HEAD: Final = """\
# Conformance

Does Kavka answer as Apache Kafka does? A test sends the same requests to both, good ones and bad
ones, for every API and every version that Kavka serves, and compares the answers field by field;
where Apache Kafka closes the connection, Kavka must close it too. The judge is Apache Kafka {new},
and for versions that Kafka 4 dropped Apache Kafka {old} in ZooKeeper mode. Answers are read by
kafka-python's codec as it is published, and those that it lacks by the schemas that Apache Kafka
publishes.

This page is made from the test's tables: run `make pages` when they change. The test itself is
part of `make test`, and needs Java; `PYTHONPATH=src:tests python -m differential --api 2`
runs the cases of one API and prints what differs.

## What is compared

{runs} requests or short scripts of requests ({cases} cases, each in every version that it is for).
A script of a group has several members, each on a connection of its own; some wait for others, and
all pass on what they received: ids, generations, epochs. A star marks what Apache Kafka {old}
judges.

| key | API | cases | runs | in each version |
|--:|---|--:|--:|---|
"""

_DIFFERENCES: Final = """\

## What differs on purpose

The test fails on any other difference, and on an entry that no longer occurs.

| API | versions | cases | field | Kavka | Apache Kafka | why |
|---|---|---|---|---|---|---|
"""

_NATURE: Final = """\

## What differs by its nature

Made alike before answers are compared:

"""


def page() -> str:
    """The whole page."""
    ordered = sorted(tables(), key=lambda cases: cases.key)
    counted = [list(cases.runs()) for cases in ordered]
    head = _HEAD.format(
        new=NEW,
        old=OLD,
        runs=f"{sum(map(len, counted)):,}",
        cases=sum(len(cases.cases) for cases in tables()),
    )
    parts = [head, *(_row(cases) for cases in ordered), _DIFFERENCES, *map(_difference, ALLOWED)]
    return "".join([*parts, _NATURE, *_nature()])


def _row(cases: Cases) -> str:
    runs = [version for _, version in cases.runs()]
    counts = {version: runs.count(version) for version in sorted(set(runs))}
    cells = (
        cases.key,
        cases.api,
        len(cases.cases),
        len(runs),
        ", ".join(_per_version(cases, counts)),
    )
    return "| " + " | ".join(map(str, cells)) + " |\n"


def _per_version(cases: Cases, counts: dict[int, int]) -> Iterator[str]:
    """`v0: 12*, v1 to v3: 14`; a star where the older broker is the judge."""
    groups: list[tuple[int, str, list[int]]] = []
    for version, count in counts.items():
        judge = judge_of(cases.api, version)
        if not groups or groups[-1][:2] != (count, judge):
            groups.append((count, judge, []))
        groups[-1][2].append(version)
    for count, judge, versions in groups:
        yield f"v{ranges(versions)}: {count}{'*' if judge == OLD else ''}"


def _difference(entry: Allowed) -> str:
    versions = ranges(range(entry.versions[0], entry.versions[1] + 1))
    cells = (entry.api, versions, entry.cases, entry.path, entry.kavka, entry.kafka, entry.why)
    return "| " + " | ".join(map(_cell, cells)) + " |\n"


def _cell(value: object) -> str:
    text = value.value if isinstance(value, Outcome) else str(value)
    for mark, escaped in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*")):
        text = text.replace(mark, escaped)
    return text


def _nature() -> Iterator[str]:
    for rule in NATURE:
        where = "" if rule.api == "*" else f" in {rule.api}"
        yield f"- {rule.what}{where} (`{rule.path}`): {rule.why}\n"
    yield "- ids that a broker draws for members of groups: named by when a script met them\n"
    for order in UNORDERED:
        yield f"- the order of `{order.path}` in {order.api}: {order.why}\n"


if __name__ == "__main__":
    print(page(), end="")
