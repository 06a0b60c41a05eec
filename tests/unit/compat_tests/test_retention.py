"""Retention is not waited for where a broker looks for old segments rarely."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from kavka.compat_tests.broker import Broker
from kavka.compat_tests.driver import Drivers
from kavka.compat_tests.errors import NotHere
from kavka.compat_tests.scenario import Trial
from kavka.compat_tests.scenarios.positions import CHECKS, run_retention
from kavka.tools.admin.cluster_client import ClusterClient
from unit.compat_tests.test_driver import FAKE


class Slow(Broker):
    """A broker of which one setting is known."""

    interval_ms: str | None = None

    async def config(self, name: str) -> str | None:
        assert name == CHECKS
        return self.interval_ms


@pytest.mark.parametrize("interval_ms", ["300000", "30001", None])
async def test_it_is_not_tried_and_the_setting_is_named(
    tmp_path: Path, interval_ms: str | None
) -> None:
    broker = Slow("127.0.0.1:1", cast(ClusterClient, None))
    broker.interval_ms = interval_ms
    nobody = Drivers(FAKE, broker.bootstrap, tmp_path)
    with pytest.raises(NotHere, match=rf"{CHECKS} is {interval_ms}: .* 30000 at most"):
        await run_retention(Trial(broker, nobody, nobody, (), "label"))
