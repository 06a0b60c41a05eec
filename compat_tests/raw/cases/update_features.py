"""UpdateFeatures: each feature up and down, what is refused, and what clients see after it."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from kavka.compat_tests.raw.case import Cases, Function, Ground, Script, Step, Values
from kavka.compat_tests.raw.frames import add_frames

CASES = Cases("UpdateFeatures")

UPGRADE, SAFE, UNSAFE = 1, 2, 3
TRANSACTION, GROUP, METADATA = "transaction.version", "group.version", "metadata.version"
TIMEOUT_MS: Final = 10_000

Update = tuple[str, int, int]


def asking(*updates: Update, validate_only: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "timeout_ms": TIMEOUT_MS,
        "feature_updates": [
            {"feature": name, "max_version_level": level, "upgrade_type": how}
            for name, level, how in updates
        ],
        "validate_only": validate_only,
        **more,
    }


def described(on: Ground, name: str, level: int) -> Step:
    """What clients are given of a feature once it is at this level."""

    def shown(answer: Any) -> Any:
        return [feature for feature in answer["finalized_features"] if feature["name"] == name]

    def is_other(answer: Any) -> bool:
        found = shown(answer)
        return (found[0]["max_version_level"] if found else 0) != level

    software: dict[str, Any] = {"client_software_name": "me", "client_software_version": "1"}
    return on.other("ApiVersions", 4, shown=shown, again=is_other, **software)


# -- what only validates ---------------------------------------------------------------------

LEVELS: Final = {
    TRANSACTION: (-1, 0, 1, 2, 3, 30),
    GROUP: (-1, 0, 1, 2),
    METADATA: (-1, 0, 6, 7, 29, 30, 31, 32_767),
    "kraft.version": (-1,),
    "share.version": (-1, 0),
    "no.such": (-1, 0, 1),
    "": (0, 1),
}
HOWS: Final = {UPGRADE: "up", SAFE: "down", UNSAFE: "down unsafely", 0: "how 0", 4: "how 4"}


def validating(*updates: Update) -> Function:
    return lambda on: asking(*updates, validate_only=True)


for (name, levels), how in product(LEVELS.items(), HOWS):
    for level in levels:
        if (name, level, how) == ("share.version", 0, UPGRADE):
            continue  # a change where the feature is there
        title = f"{name or 'no name'} {HOWS[how]} to {level}"
        CASES.add(title, validating((name, level, how)), since=1, topics=[])

SEVERAL: Final = {
    "nothing": (),
    "two": ((TRANSACTION, 1, SAFE), (GROUP, 0, SAFE)),
    "one of them is refused": ((TRANSACTION, 1, SAFE), (GROUP, 5, UPGRADE)),
    "one twice": ((TRANSACTION, 1, SAFE), (TRANSACTION, 1, SAFE)),
    "one twice, to other levels": ((TRANSACTION, 1, SAFE), (TRANSACTION, 0, SAFE)),
    "one twice, the first is refused": ((TRANSACTION, 9, SAFE), (TRANSACTION, 1, SAFE)),
    "one twice, the second is refused": ((TRANSACTION, 1, SAFE), (TRANSACTION, 9, SAFE)),
}
for title, updates in SEVERAL.items():
    CASES.add(title, validating(*updates), since=1, topics=[])

for timeout_ms in (0, -1, 2**31 - 1):

    def timed(on: Ground, timeout_ms: int = timeout_ms) -> Values:
        return asking((TRANSACTION, 2, UPGRADE), timeout_ms=timeout_ms)

    CASES.add(f"a timeout of {timeout_ms}", timed, topics=[])

# -- of version 0, which does not only validate -----------------------------------------------

OLD: Final = {
    "the level that it has": (TRANSACTION, 2),
    "a level above": (TRANSACTION, 3),
    "a level below": (TRANSACTION, 1),
    "no such feature": ("no.such", 1),
    "metadata below": (METADATA, 29),
}
for (title, (name, level)), allowed in product(OLD.items(), (False, True)):

    def old(on: Ground, name: str = name, level: int = level, allowed: bool = allowed) -> Values:
        update = {"feature": name, "max_version_level": level, "allow_downgrade": allowed}
        return {"timeout_ms": TIMEOUT_MS, "feature_updates": [update]}

    may = "may" if allowed else "may not"
    CASES.add(f"{title}, {may} be downgraded", old, until=0, topics=[])

# -- what changes something ------------------------------------------------------------------


@CASES.case(since=1, topics=[])
def down_and_up_again(on: Ground) -> Script:
    for how in (SAFE, UNSAFE):
        for level in (1, 0):
            yield on.ask(**asking((TRANSACTION, level, how)))
            yield described(on, TRANSACTION, level)
        for level in (0, 1, 2):
            yield on.ask(**asking((TRANSACTION, level, UPGRADE)))
            yield described(on, TRANSACTION, level)


@CASES.case(since=1, topics=[])
def only_validated(on: Ground) -> Script:
    yield on.ask(**asking((TRANSACTION, 1, SAFE), validate_only=True))
    yield described(on, TRANSACTION, 2)


@CASES.case(since=1, topics=[])
def all_or_none(on: Ground) -> Script:
    yield on.ask(**asking((TRANSACTION, 1, SAFE), (GROUP, 2, UPGRADE)))
    yield described(on, TRANSACTION, 2)


@CASES.case(since=1, topics=[])
def two_features(on: Ground) -> Script:
    yield on.ask(**asking((TRANSACTION, 1, SAFE), (GROUP, 0, SAFE)))
    yield described(on, TRANSACTION, 1)
    yield described(on, GROUP, 0)
    yield on.ask(**asking((GROUP, 1, UPGRADE), (TRANSACTION, 2, UPGRADE)))
    yield described(on, TRANSACTION, 2)
    yield described(on, GROUP, 1)


@CASES.case(since=1, topics=[])
def without_the_consumer_protocol(on: Ground) -> Script:
    """Members that use it are refused, groups of it not described."""
    describe = on.other("ConsumerGroupDescribe", 1, group_ids=["a", "b"])
    yield on.ask(**asking((GROUP, 0, SAFE)))
    yield described(on, GROUP, 0)
    yield describe
    yield on.other("ConsumerGroupHeartbeat", 1, group_id="g", member_id="m", member_epoch=0)
    yield on.other("ConsumerGroupHeartbeat", 0, group_id="", member_id="", member_epoch=-1)
    yield on.ask(**asking((GROUP, 1, UPGRADE)))
    yield described(on, GROUP, 1)
    yield describe


add_frames(CASES, lambda on: asking((TRANSACTION, 2, UPGRADE), validate_only=True), topics=[])
