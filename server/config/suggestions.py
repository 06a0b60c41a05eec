"""What was probably meant by a name that is no setting."""

from __future__ import annotations

from kavka.server.config.table import TOPIC, base_name, broker_rows


def suggestion(key: str) -> str:
    """The setting of brokers that `key` comes near to, "" if there is none. Takes milliseconds."""
    base = base_name(key)
    if base in TOPIC and TOPIC[base].fallback:
        return TOPIC[base].fallback[0][0]
    from difflib import get_close_matches  # only for who needs it

    near = get_close_matches(base, [row.name for row in broker_rows()], n=1, cutoff=0.75)
    return key.removesuffix(base) + near[0] if near else ""
