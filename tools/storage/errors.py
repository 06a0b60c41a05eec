"""What makes a move impossible."""

from __future__ import annotations


class Refused(Exception):
    """Nothing was changed; the message says why and what to do."""
