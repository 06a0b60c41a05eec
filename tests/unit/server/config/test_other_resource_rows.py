"""Configs of groups and subscriptions: the ones that there are, against the broker's settings.

That names, types and defaults are Apache Kafka's is seen by the differential test.
"""

from __future__ import annotations

from kavka.server.config.other_resource_rows import CLIENT_METRICS, GROUP
from kavka.server.config.rows import Scope, Status
from kavka.server.config.table import broker_row


def test_those_of_share_and_streams_groups_are_taken_with_a_reason() -> None:
    for rows, scope in ((GROUP, Scope.GROUP), (CLIENT_METRICS, Scope.CLIENT_METRICS)):
        for name, row in rows.items():
            idle = name.startswith(("share.", "streams."))
            status = Status.WARNED if idle else Status.HONOURED
            assert (row.name, row.scope, row.status) == (name, scope, status)
            assert bool(row.note) is idle
            assert row.doc.endswith(".")


def test_a_group_s_defaults_are_those_of_the_broker() -> None:
    from_broker = 0
    for row in GROUP.values():
        for key, _ in row.fallback:
            of_broker = broker_row(key)
            assert of_broker is not None, key
            assert (of_broker.type, of_broker.default) == (row.type, row.default)
            from_broker += 1
    assert from_broker == 14
