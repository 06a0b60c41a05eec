"""All scenarios, in the order of the matrix."""

from __future__ import annotations

from typing import Final

from kavka.compat_tests.scenarios import (
    administration,
    changes,
    codecs,
    groups,
    positions,
    producing,
    quotas,
    round_trip,
    transactions,
)
from kavka.compat_tests.scenarios.applications import (
    apicurio,
    connect,
    faststream,
    flink,
    mirror_maker,
    streams,
)

SCENARIOS: Final = (
    *round_trip.ALL,
    *codecs.ALL,
    *producing.ALL,
    *transactions.ALL,
    *positions.ALL,
    *groups.ALL,
    *administration.ALL,
    *changes.ALL,
    *quotas.ALL,
    *streams.ALL,
    *connect.ALL,
    *mirror_maker.ALL,
    *faststream.ALL,
    *flink.ALL,
    *apicurio.ALL,
)
