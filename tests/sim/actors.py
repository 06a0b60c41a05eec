"""What all client programs of a world have in common."""

from __future__ import annotations

import random

from sim.client import Client
from sim.history import History


class Actor:
    """A client program: it speaks to the broker through `client`, draws from `chance` what it does,
    and records in `history` what it has seen, for the judges."""

    def __init__(self, client: Client, history: History, chance: random.Random) -> None:
        self.name = client.process.name
        self.client = client
        self.history = history
        self.chance = chance
        self.is_done = False
