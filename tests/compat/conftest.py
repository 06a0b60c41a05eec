"""Where the suite's clients are kept while it is tested."""

from __future__ import annotations

import pytest

from support.paths import CACHE


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the repository's other downloads, not in the user's cache."""
    monkeypatch.setenv("KAVKA_COMPAT_CACHE", str(CACHE / "compat"))
