"""Property tests here are about bytes, not about time: a slow machine is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("no clock", suppress_health_check=list(HealthCheck))
settings.load_profile("no clock")
