"""Which watches a change uses up, and in what order they are called."""

from __future__ import annotations

from kavka.zktree.api import WatchEvent, WatchKind
from kavka.zktree.tree import Watches


def first(event: WatchEvent) -> None: ...


def second(event: WatchEvent) -> None: ...


CREATED, DELETED, DATA_CHANGED, CHILDREN_CHANGED = (
    WatchEvent(kind, "/a")
    for kind in (
        WatchKind.CREATED,
        WatchKind.DELETED,
        WatchKind.DATA_CHANGED,
        WatchKind.CHILDREN_CHANGED,
    )
)


def test_a_watch_is_used_up() -> None:
    watches = Watches()
    watches.add_data("/a", first)
    assert watches.trigger([DATA_CHANGED, DATA_CHANGED]) == [(first, DATA_CHANGED)]
    assert watches.trigger([DELETED]) == []


def test_data_watches_do_not_see_children() -> None:
    watches = Watches()
    watches.add_data("/a", first)
    assert watches.trigger([CHILDREN_CHANGED]) == []
    assert watches.trigger([CREATED]) == [(first, CREATED)]


def test_child_watches_do_not_see_data() -> None:
    watches = Watches()
    watches.add_children("/a", first)
    assert watches.trigger([DATA_CHANGED, CREATED]) == []
    assert watches.trigger([CHILDREN_CHANGED]) == [(first, CHILDREN_CHANGED)]


def test_a_deletion_uses_up_both_kinds_and_calls_each_callable_once() -> None:
    watches = Watches()
    watches.add_data("/a", first)
    watches.add_children("/a", second)
    watches.add_children("/a", first)
    assert watches.trigger([DELETED]) == [(first, DELETED), (second, DELETED)]
    assert watches.trigger([DELETED, CHILDREN_CHANGED]) == []


def test_other_paths_are_left_alone() -> None:
    watches = Watches()
    watches.add_data("/b", first)
    assert watches.trigger([DATA_CHANGED, DELETED]) == []
    assert watches.trigger([WatchEvent(WatchKind.DELETED, "/b")]) == [
        (first, WatchEvent(WatchKind.DELETED, "/b"))
    ]
