"""Apicurio Registry: schemas that are kept in a topic, and nowhere else."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from kavka.compat_tests.driver import Driver
from kavka.compat_tests.records import Json
from kavka.compat_tests.scenario import Scenario, Trial, becomes, equal

START_S: Final = 150.0
"""The driver itself waits for a part of it."""

API: Final = "/apis/ccompat/v7"
"""The API of Confluent's registry, which serializers of all languages speak."""

OK: Final = 200
NOT_FOUND: Final = 404
CONFLICT: Final = 409
ORDERS: Final = "orders-value"
BILLS: Final = "bills-value"

ID: Final = {"name": "id", "type": "long"}
NOTE: Final = {"name": "note", "type": "string", "default": ""}
AMOUNT: Final = {"name": "amount", "type": "int"}
"""Without a default: old records can't be read with it."""

READ_BACK: Final = ("FindCoordinator", "JoinGroup", "ListOffsets", "Fetch")


class Topics(NamedTuple):
    journal: str
    snapshots: str
    events: str


def avro(*fields: Json) -> Json:
    schema = {"type": "record", "name": "Order", "fields": [*fields]}
    return {"schemaType": "AVRO", "schema": json.dumps(schema)}


def json_schema(*required: str) -> Json:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "total": {"type": "integer"}},
        "required": [*required],
    }
    return {"schemaType": "JSON", "schema": json.dumps(schema)}


async def rest(registry: Driver, method: str, path: str, body: Json | None = None) -> Json:
    return await registry.ask("rest", method=method, path=API + path, body=body)


async def register(registry: Driver, subject: str, schema: Json) -> int:
    """The schema's id."""
    found = await rest(registry, "POST", f"/subjects/{subject}/versions", schema)
    equal(found["status"], OK, f"status of a schema of {subject}")
    schema_id: int = found["body"]["id"]
    return schema_id


async def becomes_answer(registry: Driver, path: str, expected: object) -> None:
    """A registry writes to its topic and answers when it has read that; other registries read it
    a little later."""

    async def ask() -> object:
        found = await rest(registry, "GET", path)
        return sorted(found["body"]) if path == "/subjects" else found["body"]

    await becomes(ask, expected, f"answer to GET {path}")


async def versions(registry: Driver, subject: str) -> list[tuple[int, int, object]]:
    """Version, id and schema of all."""
    found = await rest(registry, "GET", f"/subjects/{subject}/versions")
    rows = []
    for version in found["body"]:
        body = (await rest(registry, "GET", f"/subjects/{subject}/versions/{version}"))["body"]
        rows.append((body["version"], body["id"], json.loads(body["schema"])))
    return rows


async def started(trial: Trial, topics: Topics) -> Driver:
    registry = await trial.driver()
    await registry.ask("start", START_S, **topics._asdict())
    return registry


async def check_topics(trial: Trial, topics: Topics) -> None:
    admin = await trial.reference()
    for topic in topics:
        found = await admin.ask("describe_topic", topic=topic)
        equal(len(found["partitions"]), 1, f"number of partitions of {topic}")
    configs = (await admin.ask("describe_configs", topic=topics.journal))["configs"]
    equal(configs["cleanup.policy"], "delete", "cleanup.policy of the journal")


async def run(trial: Trial) -> None:
    topics = Topics(trial.name("journal"), trial.name("snapshots"), trial.name("events"))
    with trial.step("start a registry, which makes its topics", "CreateTopics", "Metadata"):
        registry = await started(trial, topics)
        await check_topics(trial, topics)
    with trial.step("register schemas and new versions", "Produce", "Fetch"):
        first = await register(registry, ORDERS, avro(ID))
        await rest(registry, "PUT", f"/config/{ORDERS}", {"compatibility": "BACKWARD"})
        second = await register(registry, ORDERS, avro(ID, NOTE))
        bill = await register(registry, BILLS, json_schema("id"))
        equal(len({first, second, bill}), 3, "number of ids")
        equal(await register(registry, ORDERS, avro(ID)), first, "id of a schema that is there")
    with trial.step("have an incompatible schema refused"):
        found = await rest(registry, "POST", f"/subjects/{ORDERS}/versions", avro(ID, AMOUNT))
        equal(found["status"], CONFLICT, "status of an incompatible schema")
    with trial.step("delete a subject", "Produce", "Fetch"):
        gone = await register(registry, "gone", avro(AMOUNT))
        await rest(registry, "DELETE", "/subjects/gone")
        await becomes_answer(registry, "/subjects", [BILLS, ORDERS])
        had = [await versions(registry, subject) for subject in (ORDERS, BILLS)]
        equal([row[1] for row in had[0]], [first, second], "ids of the versions of orders")
    with trial.step("kill it, and find all in another one on the same topic", *READ_BACK):
        await registry.ask("kill")
        registry = await started(trial, topics)
        await becomes_answer(registry, "/subjects", [BILLS, ORDERS])
        equal([await versions(registry, subject) for subject in (ORDERS, BILLS)], had, "versions")
        schema = await rest(registry, "GET", f"/schemas/ids/{second}")
        equal(schema["body"]["schema"], avro(ID, NOTE)["schema"], "schema by its id")
        found = await rest(registry, "GET", "/subjects/gone/versions")
        equal(found["status"], NOT_FOUND, "status of the deleted subject")
    with trial.step("go on with rules and ids of before", "Produce", "Fetch"):
        found = await rest(registry, "POST", f"/subjects/{ORDERS}/versions", avro(ID, AMOUNT))
        equal(found["status"], CONFLICT, "status of an incompatible schema")
        new = await register(registry, BILLS, json_schema("id", "total"))
        equal(new in (first, second, bill, gone), False, "whether the new id was in use")
        await registry.ask("stop")


ALL: Final = (
    Scenario("apicurio", "A registry finds its schemas again in a topic", run, only="apicurio"),
)
