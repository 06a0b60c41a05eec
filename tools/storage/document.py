"""The exported nodes as a readable JSON file.

    {"kavka_storage": 1, "broker_sequence": 0, "nodes": {"/cluster/id": "{...}", ...}}

A node's data is text, null if it has none, or {"base64": ...} if it is not UTF-8.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from kavka.tools.storage.errors import Refused
from kavka.tools.storage.nodes import ClusterMetadata

VERSION: Final = 1

BROKER_SEQUENCE_MAX: Final = 2**31 - 1
"""A node's version has 32 bits."""


def encode(metadata: ClusterMetadata) -> bytes:
    """The file's content."""
    document = {
        "kavka_storage": VERSION,
        "broker_sequence": metadata.broker_sequence,
        "nodes": {path: _to_json(data) for path, data in metadata.nodes.items()},
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def decode(content: bytes, path: str) -> ClusterMetadata:
    """The inverse; Refused, with the file's `path`, for anything else."""
    try:
        document = json.loads(content)
        if document["kavka_storage"] != VERSION:
            raise Refused(f"{path} is of version {document['kavka_storage']}, not {VERSION}")
        nodes = {str(name): _from_json(data) for name, data in document["nodes"].items()}
        sequence = int(document["broker_sequence"])
        if not 0 <= sequence <= BROKER_SEQUENCE_MAX:
            raise ValueError(f"{sequence} can't be how many broker ids were generated")
        return ClusterMetadata(nodes, sequence)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"{path} is not a whole file of `kavka storage export`: {error!r}") from error


def _to_json(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _from_json(data: Any) -> bytes | None:
    if data is None:
        return None
    if isinstance(data, str):
        return data.encode()
    return base64.b64decode(data["base64"], validate=True)
