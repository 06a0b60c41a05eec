"""Files that wait for their removal: how long, and in which order they go."""

from __future__ import annotations

from kavka.log.deferred_deletes import DeferredDeletes


def test_a_path_is_due_after_its_delay() -> None:
    deletes = DeferredDeletes()
    deletes.add(["/a", "/b"], 60_000)
    assert deletes.due(100.0) == [], "from now on they wait"
    assert deletes.due(159.9) == []
    assert len(deletes) == 2
    assert deletes.due(160.0) == ["/a", "/b"]
    assert deletes.due(1000.0) == [] and len(deletes) == 0


def test_each_has_a_delay_of_its_own() -> None:
    deletes = DeferredDeletes()
    deletes.add(["/slow"], 5000)
    deletes.add(["/now"], 0)
    assert deletes.due(1.0) == ["/now"]
    deletes.add(["/quick"], 2000)
    assert deletes.due(2.0) == []
    assert deletes.due(100.0) == ["/quick", "/slow"]


def test_take_all_returns_paths_before_they_are_due() -> None:
    deletes = DeferredDeletes()
    deletes.add(["/waits"], 60_000)
    deletes.due(0.0)
    deletes.add(["/new"], 60_000)
    assert sorted(deletes.take_all()) == ["/new", "/waits"]
    assert deletes.take_all() == []
