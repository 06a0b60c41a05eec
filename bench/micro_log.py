from collections.abc import Callable, Iterator
from pathlib import Path
def calls(scratch: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    yield from ()
