"""The carried nodes as a file of JSON that people can read.

    {"kavka_storage": 1, "broker_sequence": 0, "nodes": {"/cluster/id": "{...}", ...}}

Data is text; null where a node has none, and {"base64": ...} where it is not UTF-8.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import Carried

VERSION: Final = 1

BROKER_SEQUENCE_MAX: Final = 2**31 - 1
"""A node's version has 32 bits."""


def encode(carried: Carried) -> bytes:
    """The file's content."""
    document = {
        "kavka_storage": VERSION,
        "broker_sequence": carried.broker_sequence,
        "nodes": {path: _shown(data) for path, data in carried.nodes.items()},
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def decode(content: bytes, path: str) -> Carried:
    """The inverse; Refused, with the file's `path`, for anything else."""
    try:
        document = json.loads(content)
        if document["kavka_storage"] != VERSION:
            raise Refused(f"{path} is of version {document['kavka_storage']}, not {VERSION}")
        nodes = {str(name): _meant(data) for name, data in document["nodes"].items()}
        sequence = int(document["broker_sequence"])
        if not 0 <= sequence <= BROKER_SEQUENCE_MAX:
            raise ValueError(f"{sequence} can't be how many broker ids were generated")
        return Carried(nodes, sequence)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"{path} is not a whole file of `kavka storage export`: {error!r}") from error


def _shown(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _meant(data: Any) -> bytes | None:
    if data is None:
        return None
    if isinstance(data, str):
        return data.encode()
    return base64.b64decode(data["base64"], validate=True)
