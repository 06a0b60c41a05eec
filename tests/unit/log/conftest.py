"""Property tests on a busy machine: how long an example takes is no finding."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")
