"""The picture of the rooms of `server/` in docs/architecture.md."""

from __future__ import annotations

from lint import rooms


def test_the_picture_shows_what_is_imported() -> None:
    assert rooms.PAGE.read_text() == rooms.page(), "run `make pages`"


def test_every_room_says_what_it_is() -> None:
    assert all(rooms.about(room) for layer in rooms.layers() for room in layer)
