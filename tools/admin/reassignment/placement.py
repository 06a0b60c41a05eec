"""Where replicas could be: spread over racks first, and over brokers then, in Apache Kafka's way.

The replicas of a partition come from one rack after the other, and each partition begins with the
next rack, and in a rack with the next broker. The beginnings are chance; once there are as many
partitions as brokers, racks and brokers are shuffled, so that the same sets don't come again.
"""

from __future__ import annotations

from collections.abc import Mapping

from kavka.seams import Random
from kavka.tools.admin.errors import Failed


class _Rack:
    """Brokers in a circle."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self._brokers = sorted(brokers)
        self._first = random.randrange(len(brokers))
        self._taken: int | None = None

    def begin(self) -> None:
        """For another partition: all may be taken again."""
        self._taken = None

    def take(self) -> int | None:
        """The next one; None if all are taken."""
        if self._taken is None:
            self._first += 1
            self._taken = 0
        if self._taken == len(self._brokers):
            return None
        self._taken += 1
        return self._brokers[(self._first + self._taken) % len(self._brokers)]

    def shuffle(self, random: Random) -> None:
        random.shuffle(self._brokers)


def place(
    racks: Mapping[int, str | None], partitions: int, factor: int, random: Random
) -> list[list[int]]:
    """The brokers of each partition. `racks`: each broker's, all of them None or none. Failed if
    there are fewer brokers than `factor`."""
    if not racks:
        raise Failed("None of the brokers in --broker-list is live")
    if factor > len(racks):
        raise Failed(
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(racks)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
    names = sorted({rack or "" for rack in racks.values()})
    order = [
        _Rack([broker for broker, rack in racks.items() if (rack or "") == name], random)
        for name in names
    ]
    first = random.randrange(len(order))
    placed: list[list[int]] = []
    for number in range(partitions):
        if number and number % len(racks) == 0:
            random.shuffle(order)
            for rack in order:
                rack.shuffle(random)
        placed.append(_replicas(order, (first + number) % len(order), factor))
    return placed


def _replicas(racks: list[_Rack], first: int, factor: int) -> list[int]:
    for rack in racks:
        rack.begin()
    found: list[int] = []
    at = first
    while len(found) < factor:
        broker = racks[at % len(racks)].take()
        if broker is not None:
            found.append(broker)
        at += 1
    return found
