"""Files that wait for their removal: how long, and in which order they go."""

from __future__ import annotations

from kavka.log.deferred_deletes import Garbage


def test_a_path_goes_after_its_delay() -> None:
    garbage = Garbage()
    garbage.add(["/a", "/b"], 60_000)
    assert garbage.due(100.0) == [], "from now on they wait"
    assert garbage.due(159.9) == []
    assert len(garbage) == 2
    assert garbage.due(160.0) == ["/a", "/b"]
    assert garbage.due(1000.0) == [] and len(garbage) == 0


def test_each_has_a_delay_of_its_own() -> None:
    garbage = Garbage()
    garbage.add(["/slow"], 5000)
    garbage.add(["/now"], 0)
    assert garbage.due(1.0) == ["/now"]
    garbage.add(["/quick"], 2000)
    assert garbage.due(2.0) == []
    assert garbage.due(100.0) == ["/quick", "/slow"]


def test_all_can_be_had_at_once() -> None:
    garbage = Garbage()
    garbage.add(["/waits"], 60_000)
    garbage.due(0.0)
    garbage.add(["/new"], 60_000)
    assert sorted(garbage.take()) == ["/new", "/waits"]
    assert garbage.take() == []
