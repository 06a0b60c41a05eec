"""CI's form of the fuzz: 20,000 damaged frames against one broker. `make fuzz` sends more."""

from __future__ import annotations

import json
from pathlib import Path

from fuzz.client import OUTCOMES
from fuzz.session import Session

FRAMES = 20_000
SEED = 20_260_101
ANSWERED, CLOSED = OUTCOMES[0], OUTCOMES[2]


def test_a_broker_outlives_damaged_frames_of_every_api(tmp_path: Path) -> None:
    report = Session(tmp_path, SEED, FRAMES).run()
    print(json.dumps(report, indent=1))
    assert report["frames"] == FRAMES
    for name, outcomes in report["by_api"].items():
        assert outcomes.get(ANSWERED), f"no frame of {name} got as far as an answer"
        assert outcomes.get(CLOSED), f"no frame of {name} was refused"
    for name, outcomes in report["by_kind"].items():
        assert outcomes, f"there was no {name!r}"
