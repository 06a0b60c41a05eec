"""`python -m support.many_rounds N`: starts, uses and ends N brokers in this process, one after the
other; prints what is left after the first fifth of them, and at the end, as two lines of JSON.

A process of its own: what others do in that of the tests would count as growth.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from pathlib import Path

from kavka.testing import Broker


def main() -> None:
    rounds = int(sys.argv[1])
    for number in range(rounds):
        if number == rounds // 5:  # all is loaded that is loaded once
            print(json.dumps(left_behind()))
        one_round(number)
    print(json.dumps(left_behind()))


def one_round(number: int) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        broker.produce("t", bytes(1000))
        if number % 5 == 0:
            broker.kill()


def left_behind() -> dict[str, int]:
    """What should not grow with the number of brokers; memory in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "threads": threading.active_count(),
        "open files": len(os.listdir("/proc/self/fd")),
        "brokers": sum(type(item).__name__ == "Instance" for item in gc.get_objects()),
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
    }


if __name__ == "__main__":
    main()
