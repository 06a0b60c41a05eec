"""Suggestions for misspelled setting names."""

from __future__ import annotations

from kavka.server.config.table import TOPIC, base_name, broker_rows


def suggestion(key: str) -> str:
    """The broker setting whose name is closest to `key`, "" if none is. Takes milliseconds."""
    base = base_name(key)
    if base in TOPIC and TOPIC[base].fallback:
        return TOPIC[base].fallback[0][0]
    from difflib import get_close_matches  # lazy import: rarely needed

    near = get_close_matches(base, [row.name for row in broker_rows()], n=1, cutoff=0.75)
    return key.removesuffix(base) + near[0] if near else ""
