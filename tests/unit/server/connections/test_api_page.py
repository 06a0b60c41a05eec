"""`docs/apis.md` is what the list of handlers gives, and the list fits the modules."""

from kavka.server import handlers
from kavka.server.connections.api_page import page
from kavka.server.connections.dispatch import HANDLERS, between_brokers
from support.paths import ROOT

PAGE = ROOT / "docs" / "apis.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run: make pages"


def test_each_module_has_its_row_and_each_row_its_module() -> None:
    rows = (*HANDLERS.values(), *between_brokers().values())
    served = {handler.__module__.rpartition(".")[2] for _, handler in rows}
    for folder in ("server/handlers", "wire/apis"):
        files = {path.stem for path in (ROOT / folder).glob("*.py") if path.stem != "__init__"}
        assert files == served, folder
    assert set(handlers.__all__) < served
