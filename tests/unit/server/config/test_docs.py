from __future__ import annotations

from pathlib import Path

from kavka.server.config.docs import page
from kavka.server.config.table import TOPIC, broker_rows

PAGE = Path(__file__).parents[4] / "docs" / "configuration.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: python -m kavka.server.config.docs > " + str(
        PAGE
    )


def test_every_setting_is_on_the_page() -> None:
    text = page()
    for row in [*broker_rows(), *TOPIC.values()]:
        if not (row.internal and row.field) and row.name != "internal.segment.bytes":
            assert f"`{row.name}`" in text, row.name
