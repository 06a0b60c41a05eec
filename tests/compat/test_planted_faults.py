"""The suite finds errors of a broker and names the API: a proxy before Kavka plants each."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from compat.faults import FAULTS, Fault
from compat.planting import planted
from compat.protocol_faults import PROTOCOL_FAULTS, ProtocolFault
from kavka.compat_tests.broker import Broker, own
from kavka.compat_tests.clients.table import CLIENTS
from kavka.compat_tests.raw.checking import check
from kavka.compat_tests.results import Cell, Status
from kavka.compat_tests.scenarios.every import SCENARIOS
from kavka.compat_tests.suite import Suite

CLIENT = next(client for client in CLIENTS if client.name == "kafka-python")
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def title(fault: Fault | ProtocolFault) -> str:
    return f"{fault.api}: {fault.name}"


@pytest.mark.parametrize("fault", FAULTS, ids=title)
async def test_a_planted_fault_is_found(fault: Fault) -> None:
    cells: list[Cell] = []
    async with own() as kavka:
        host, _, port = kavka.bootstrap.rpartition(":")
        async with planted((host, int(port)), fault.api, fault.change) as proxy:
            behind = Broker(f"127.0.0.1:{proxy.port}", kavka.admin)
            suite = Suite(behind, 1, lambda cell, _: cells.append(cell))
            await suite.run([CLIENT], [BY_NAME[fault.scenario]], "planted")
    (cell,) = cells
    assert proxy.changed
    assert cell.status == Status.FAILED, cell
    assert fault.api in cell.apis, cell


@pytest.mark.parametrize("fault", PROTOCOL_FAULTS, ids=title)
async def test_a_planted_fault_is_found_without_clients(fault: ProtocolFault) -> None:
    async with own() as kavka:
        host, _, port = kavka.bootstrap.rpartition(":")
        address = host, int(port)
        async with planted(address, fault.api, fault.change, fault.versions_back) as proxy:
            outcomes = await check(f"127.0.0.1:{proxy.port}", [fault.api])
    assert proxy.changed
    found = [
        failure
        for outcome in outcomes
        for failure in outcome.failures
        if failure.asked == fault.api
    ]
    assert [failure for failure in found if fnmatchcase(failure.path, fault.field)], found[:5]


def test_thirty_faults_are_planted() -> None:
    assert len({(fault.api, fault.name) for fault in FAULTS}) >= 30


def test_faults_have_names_of_their_own() -> None:
    for faults in (FAULTS, PROTOCOL_FAULTS):
        assert len(set(map(title, faults))) == len(faults)
