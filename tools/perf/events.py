"""Events of the verifiable clients: a line of JSON each."""

from __future__ import annotations

import json
from typing import Any

from kavka.tools.perf.client import now_ms


def print_event(name: str, **content: Any) -> None:
    """With the time."""
    event = {"timestamp": now_ms(), "name": name, **content}
    print(json.dumps(event, ensure_ascii=False, separators=(",", ":")), flush=True)
