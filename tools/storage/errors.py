"""Why an import or export is not possible."""

from __future__ import annotations


class Refused(Exception):
    """Nothing was changed; the message says why and what to do."""
