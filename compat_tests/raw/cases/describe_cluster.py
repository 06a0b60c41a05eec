"""DescribeCluster: with and without operations and fenced brokers, and every kind of endpoint."""

from __future__ import annotations

from itertools import product

from kavka.compat_tests.raw.case import Cases, Ground, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("DescribeCluster")

BROKERS = 1


def asking(endpoint_type: int = BROKERS, operations: bool = False, fenced: bool = False) -> Values:
    return {
        "include_cluster_authorized_operations": operations,
        "endpoint_type": endpoint_type,
        "include_fenced_brokers": fenced,
    }


for operations, fenced in product((False, True), repeat=2):
    with_operations = " with operations" if operations else ""
    with_fenced = " with fenced brokers" if fenced else ""

    def brokers(on: Ground, operations: bool = operations, fenced: bool = fenced) -> Values:
        return asking(operations=operations, fenced=fenced)

    since = 2 if fenced else 0
    CASES.add(f"brokers{with_operations}{with_fenced}", brokers, since=since, topics=[])

for endpoint_type, operations in product((-128, -1, 0, 2, 3, 127), (False, True)):

    def others(
        on: Ground, endpoint_type: int = endpoint_type, operations: bool = operations
    ) -> Values:
        return asking(endpoint_type, operations)

    with_operations = " with operations" if operations else ""
    CASES.add(f"endpoint type {endpoint_type}{with_operations}", others, since=1, topics=[])

add_frames(CASES, lambda on: asking(operations=True, fenced=True), topics=[])
