"""Whether a cluster has a controller."""

from __future__ import annotations

from kavka.tools.doctor.findings import Level
from kavka.tools.doctor.health import judge_leaders
from kavka.wire.apis.metadata import MetadataResponse


def test_a_cluster_without_a_controller() -> None:
    (found,) = judge_leaders(MetadataResponse(controller_id=-1))
    assert (found.level, found.problem) == (Level.ERROR, "no-controller")
    (found,) = judge_leaders(MetadataResponse(controller_id=0))
    assert (found.level, found.problem) == (Level.OK, "")
