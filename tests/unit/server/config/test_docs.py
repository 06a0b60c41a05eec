from __future__ import annotations

from pathlib import Path

from kavka.server.config import BrokerSettings, ConfigError
from kavka.server.config.docs import page
from kavka.server.config.table import TOPIC, broker_rows
from support.server_properties import NAMES, followed, read, without

DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "configuration.md"
FROM_FILES = DOCS / "from-server-properties.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: make pages"


def test_every_setting_is_on_the_page() -> None:
    text = page()
    for row in [*broker_rows(), *TOPIC.values()]:
        if not (row.internal and row.field) and row.name != "internal.segment.bytes":
            assert f"`{row.name}`" in text, row.name


def quoted(text: str) -> list[str]:
    """Lines of the page that show what a start says."""
    indented = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    return [line for line in indented if not line.startswith("kavka start")]


def test_the_page_of_files_shows_the_warnings_of_a_start() -> None:
    said: list[str] = []
    for content in [*map(read, NAMES), without(read("stock-3.9"), b"zookeeper.connect=")]:
        try:
            settings = BrokerSettings.load(content)
        except ConfigError as error:
            said += [*error.problems, *error.warnings]
            settings = BrokerSettings.load(followed(content, error.problems))
        said += settings.warnings
    shown = quoted(FROM_FILES.read_text("utf-8"))
    assert len(shown) > 5
    assert [line for line in shown if line not in said] == []
