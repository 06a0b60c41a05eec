"""The frames themselves: the same ones from the same seed, and not those of another."""

from __future__ import annotations

from uuid import UUID

from fuzz.frames import BLOCK, Frames
from fuzz.mutations import KINDS
from fuzz.requests import World, served

WORLD = World(1, {"fuzz-a": UUID(int=5), "fuzz-b": UUID(int=7)})
COUNT = 40 * BLOCK


def test_seed_and_number_give_a_frame() -> None:
    frames, again = Frames(7, WORLD), Frames(7, WORLD)
    made = list(frames.each(COUNT))
    assert [frame.number for frame in made] == list(range(COUNT))
    for number in (0, 1, BLOCK - 1, BLOCK, COUNT - 1):
        assert again.frame(number) == made[number]
    other = list(Frames(8, WORLD).each(COUNT))
    assert (
        sum(frame.stream == another.stream for frame, another in zip(made, other, strict=True))
        < COUNT / 10
    )


def test_every_served_api_and_version_is_a_target() -> None:
    frames = Frames(7, WORLD)
    assert sorted(frames.targets) == sorted(f"{api.name} v{version}" for api, version in served())


def test_every_kind_of_damage_is_done() -> None:
    frames = Frames(7, WORLD)
    seen = {frame.kind for frame in frames.each(400 * BLOCK)}
    assert seen == set(range(len(KINDS) + 2)), "and the two kinds of bombs"
