"""DeleteGroups. See also the differential cases."""

from __future__ import annotations

import pytest

from kavka.groupcoord import listing
from kavka.server.auth.authorizer import Operation
from kavka.server.handlers import delete_groups
from kavka.wire.apis.delete_groups import API
from kavka.wire.errors import ErrorCode as Code
from support.denied import Denied
from support.group_requests import join, joining, make_topic, occupy
from support.memory_broker import MemoryBroker, scenario
from support.memory_network import until
from support.offset_requests import commit, fetch
from support.virtual import settle

VERSIONS = range(API.lowest, API.highest + 1)


async def delete(broker: MemoryBroker, *names: str, version: int = 2) -> dict[str, int]:
    """A code for each group, in the order of the answer."""
    answer = await broker.ask("DeleteGroups", version, groups_names=names)
    return {one.group_id: one.error_code for one in answer.results}


@pytest.mark.parametrize("version", VERSIONS)
@scenario(topics={"a": 2})
async def test_each_that_can_be_deleted_is(broker: MemoryBroker, version: int) -> None:
    await join(broker)
    for name in ("one", "two"):
        await commit(broker, {("a", 0): 5, ("a", 1): 6}, group_id=name)
    assert await delete(broker, "one", "g", "nobody", "one", version=version) == {
        "one": Code.NONE,
        "g": Code.NON_EMPTY_GROUP,
        "nobody": Code.GROUP_ID_NOT_FOUND,
    }
    await broker.kill()
    assert await fetch(broker, group_id="one") == {}
    assert len(await fetch(broker, group_id="two")) == 2
    answer = await broker.ask("ListGroups", 5, states_filter=[], types_filter=[])
    assert {one.group_id for one in answer.groups} == {"g", "two"}


@scenario(topics={"a": 1})
async def test_who_may_not(broker: MemoryBroker) -> None:
    await make_topic(broker)
    for name in ("one", "two"):
        await commit(broker, {("a", 0): 5}, group_id=name)
    broker.parts.authorizer = Denied((Operation.DELETE, "one"))
    answer = await delete(broker, "one", "two")
    assert list(answer.items()) == [("two", Code.NONE), ("one", Code.GROUP_AUTHORIZATION_FAILED)]


@pytest.mark.parametrize("count", [1, 4, 5, 9])
@scenario(topics={"a": 9})
async def test_while_something_takes_long(
    broker: MemoryBroker, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "OFFSETS_MAX", 4)
    await make_topic(broker)
    await commit(broker, {("a", index): 5 for index in range(count)})
    occupy(broker, monkeypatch)
    assert await delete(broker, "g", "nobody") == {"g": 0, "nobody": Code.GROUP_ID_NOT_FOUND}
    assert await fetch(broker) == {}


@scenario(topics={"a": 1})
async def test_a_coordinator_that_goes_before_it_is_done(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_topic(broker)
    await commit(broker, {("a", 0): 5})
    occupy(broker, monkeypatch)
    asked = broker.client.send("DeleteGroups", 2, groups_names=["g"])
    await settle()
    assert not asked.done()
    broker.parts.groups.close()
    await until(asked.done, "an answer")
    assert asked.result().results[0].error_code == Code.NOT_COORDINATOR


@scenario()
async def test_while_nobody_coordinates(broker: MemoryBroker) -> None:
    assert await delete(broker, "g") == {"g": Code.NOT_COORDINATOR}


@scenario(topics={"a": 9})
async def test_many_offsets_and_groups_go_in_steps(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "OFFSETS_MAX", 4)
    monkeypatch.setattr(delete_groups, "GROUPS_A_STEP", 2)
    await make_topic(broker)
    names = [f"group-{number}" for number in range(5)]
    for name in names:
        await commit(broker, {("a", index): 5 for index in range(9)}, group_id=name)
    assert await delete(broker, *names) == dict.fromkeys(names, 0)
    for name in names:
        assert await fetch(broker, group_id=name) == {}


@scenario(topics={"a": 2500})
async def test_a_group_that_is_joined_meanwhile_keeps_all_or_nothing(broker: MemoryBroker) -> None:
    await make_topic(broker)
    for begin in range(0, 2500, 500):
        await commit(broker, {("a", index): 5 for index in range(begin, begin + 500)})
    deleting = broker.client.send("DeleteGroups", 2, groups_names=["g"])
    joined = joining(broker.connect(), 3)
    await until(deleting.done, "an answer")
    await broker.advance(10_000)
    assert deleting.result().results[0].error_code == Code.NONE
    assert joined.result().error_code == Code.NONE
    assert await fetch(broker) == {}
