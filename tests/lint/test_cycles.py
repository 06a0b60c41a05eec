"""No module imports itself by way of others, imports for types among them."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

from lint.rooms import import_graph


def test_no_module_is_in_a_cycle() -> None:
    graph = import_graph()
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
