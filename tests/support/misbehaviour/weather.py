"""What may happen to a request on its way, how often it does, and what is on its way now."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Final

from support.misbehaviour.produced import Batch


class Fate(Enum):
    """What becomes of a Produce request."""

    ARRIVES = "arrives"
    DOUBLED = "doubled"
    """It arrives twice at once."""
    COMES_AGAIN = "comes again"
    """It arrives, and long after its answer once more, on another connection."""
    OVERTAKEN = "overtaken"
    """The next one arrives before it."""
    LOST = "lost"
    """It does not arrive, those behind it do; the connection breaks some time after."""
    ANSWER_LOST = "answer lost"
    """It arrives; neither its answer nor a later one gets back, and the connection breaks."""
    CUT = "cut"
    """The connection breaks in the middle of it."""
    STRAGGLES = "straggles"
    """The connection breaks for the client; it arrives all the same, but late."""


HARMFUL: Final = (Fate.OVERTAKEN, Fate.LOST)
"""Others arrive before it. A broker that knows nothing yet of a producer lets it begin with any
sequence, so what has the first is spared these: Apache Kafka's log would be wrong too."""

SHARE_OF_FAULTS: Final = 0.12
"""Of Produce requests, while the weather is bad."""

SHARE_OF_ERRORS_SENT: Final = 0.3
"""Many a producer is at its end then."""


class Weather:
    """Chance, and the count of all that it did. Used by one thread but for `is_bad`."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.is_bad = False
        self.fates: Counter[Fate] = Counter()
        self.refusals: Counter[int] = Counter()
        """Error codes in answers to Produce, also to copies that no client knows of."""
        self.in_flight_max = 0
        """Of Produce requests on one connection."""
        self._on_the_way: Counter[Batch] = Counter()

    def fate(self, batches: Iterable[Batch]) -> Fate:
        """What is to become of a request with these batches."""
        fate = Fate.ARRIVES
        if self.is_bad and self.chance.random() < SHARE_OF_FAULTS:
            fate = self.chance.choice([fate for fate in Fate if fate is not Fate.ARRIVES])
            if fate in HARMFUL and any(batch.sequence == 0 for batch in batches):
                fate = Fate.ARRIVES
        self.fates[fate] += 1
        return fate

    def departs(self, batches: Iterable[Batch]) -> None:
        """A request, or a copy of one, is on its way."""
        self._on_the_way.update(batches)

    def ends(self, batches: Iterable[Batch]) -> None:
        """It is answered, or will never arrive."""
        self._on_the_way.subtract(batches)

    def tells_errors(self, batches: Iterable[Batch]) -> bool:
        """Whether a client gets errors: never while a copy of its batch is under way."""
        is_last = not any(self._on_the_way[batch] > 0 for batch in batches)
        return is_last and self.chance.random() < SHARE_OF_ERRORS_SENT
