"""A file that is only read."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from kavka.tools.admin.errors import Failed


class InputFile:
    """An open file, and the size that it has now. A context manager. Failed if it can't be read."""

    def __init__(self, path: str, size_max: int | None = None) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise unreadable(path, error) from error
        self.size = os.fstat(self._fd).st_size
        if size_max is not None and self.size > size_max:
            os.close(self._fd)
            raise Failed(
                f"The size of segment {path} ({self.size}) is larger than the maximum allowed "
                f"segment size of {size_max}"
            )

    def read(self, position: int, size: int) -> bytes:
        """As many bytes as that; fewer only at the end of the file."""
        parts = []
        try:
            while size > 0 and (part := os.pread(self._fd, size, position)):
                parts.append(part)
                position += len(part)
                size -= len(part)
        except OSError as error:
            raise unreadable(self.path, error) from error
        return b"".join(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._fd)


def read_file(path: str) -> bytes:
    """A whole file. Failed if it can't be read."""
    with InputFile(path) as file:
        return file.read(0, file.size)


def unreadable(path: str, error: OSError) -> Failed:
    """In words."""
    return Failed(f"{path} can't be read: {error.strerror}")
