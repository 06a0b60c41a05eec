"""What a tool ends with, in words for its user."""

from __future__ import annotations


class Misused(Exception):
    """The command line asks for nothing that could be done; the message says what is wrong."""


class Failed(Exception):
    """What was asked for could not be done; the message says why."""
