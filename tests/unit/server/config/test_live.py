"""The settings in force, and who is notified when they change."""

from __future__ import annotations

import pytest

from kavka.server.config import BrokerSettings
from kavka.server.config.live import LiveSettings


def settings(*overrides: str) -> BrokerSettings:
    return BrokerSettings.load(overrides=overrides)


def test_what_is_put_in_force_is_read_from_then_on() -> None:
    live = LiveSettings(settings())
    changed = settings("num.partitions=7")
    live.change(changed)
    assert live.now is changed


def test_watchers_are_notified_in_order_and_find_the_new_settings_in_force() -> None:
    before, after = settings(), settings("num.partitions=7")
    live = LiveSettings(before)
    received: list[object] = []
    live.on_change(lambda old, new: received.append(("first", old is before, live.now is new)))
    live.on_change(lambda old, new: received.append(("second", old is before, new is after)))
    live.change(after)
    assert received == [("first", True, True), ("second", True, True)]


def test_equal_settings_are_no_change() -> None:
    live = LiveSettings(settings())
    received: list[object] = []
    live.on_change(lambda old, new: received.append(new))
    live.change(settings())
    assert received == []
    live.change(settings("num.partitions=7"))
    assert len(received) == 1


def test_a_listener_that_fails_hides_the_change_from_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    live = LiveSettings(settings())
    received: list[object] = []

    def broken(old: BrokerSettings, new: BrokerSettings) -> None:
        raise ValueError("broken")

    live.on_change(broken)
    live.on_change(lambda old, new: received.append(new))
    for count in (7, 8):
        changed = settings(f"num.partitions={count}")
        live.change(changed)
        assert received.pop() is changed
    assert caplog.text.count("ValueError: broken") == 2
