"""The schemas that Kavka has of messages which kafka-python lacks are Apache Kafka's own."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from support import java, java_compiler
from support.paths import ROOT

SCHEMAS: Final = ROOT / "wire" / "codec" / "schemas"
NAMES: Final = sorted(path.stem for path in SCHEMAS.glob("*.json"))
COMMENT_LINES: Final = re.compile(r"(?m)^\s*//.*$")
WORDS: Final = (
    "about",
    "entityType",
    "listeners",
    "mapKey",
    "ignorable",
    "latestVersionUnstable",
    "zeroCopy",
)
"""What changes no byte."""

DROPPED_BY_4: Final = re.compile(
    "(LeaderAndIsr|StopReplica|UpdateMetadata|ControlledShutdown|AlterPartition)(Request|Response)"
)
"""Messages of which Apache Kafka 4 has not all versions, or none: 3.9's count."""


def of_apache_kafka(name: str) -> Any:
    """The schema in its jar."""
    libs = java_compiler.libs() if DROPPED_BY_4.fullmatch(name) else java.kafka_libs()
    (jar,) = Path(libs).glob("kafka-clients-*.jar")
    with zipfile.ZipFile(jar) as opened:
        text = opened.read(f"common/message/{name}.json").decode()
    return json.loads(COMMENT_LINES.sub("", text))


def whole(schema: Any) -> Any:
    """With the fields of a shared struct where its name is."""
    shared = {struct["name"]: struct["fields"] for struct in schema.pop("commonStructs", ())}

    def fill_in(fields: Any) -> None:
        for field in fields:
            name = field["type"].removeprefix("[]")
            if name in shared:
                field["fields"] = shared[name]
            fill_in(field.get("fields", ()))

    fill_in(schema["fields"])
    return schema


def essence(part: Any) -> Any:
    """Without words for readers."""
    if isinstance(part, dict):
        return {key: essence(value) for key, value in part.items() if key not in WORDS}
    return [essence(element) for element in part] if isinstance(part, list) else part


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_that_of_apache_kafka(name: str) -> None:
    ours = json.loads(COMMENT_LINES.sub("", (SCHEMAS / f"{name}.json").read_text("utf-8")))
    assert essence(whole(ours)) == essence(whole(of_apache_kafka(name)))
