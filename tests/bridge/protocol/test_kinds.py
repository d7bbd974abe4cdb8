"""One table has the names of each kind of definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gaia_bridge
from gaia_bridge.model import ChangeKind, ServerFeatures, ServerInfo
from gaia_bridge.protocol.kinds import KINDS, LIST_CHANGED, LISTS, SKILL, TOOL, DefinitionKind, list_changed
from gaia_bridge.protocol.parameters import METHOD_TABLE
from gaia_bridge.protocol.skills import SKILLS_EXTENSION

_CORE = Path(gaia_bridge.__file__).parent


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_a_kind_has_a_method_that_is_served_a_list_and_a_notification(kind: DefinitionKind) -> None:
    assert kind.method in METHOD_TABLE
    assert LIST_CHANGED[list_changed(kind.change)] is kind.change in LISTS
    definition = {kind.key: "x"}
    lists: dict[str, Any] = {kind.attribute: (definition,)}
    features = ServerFeatures(ServerInfo("a", "1"), **lists)
    assert kind.of(features) == (definition,)
    assert list(kind.listed(features)) == [(definition, definition)]


def test_a_definition_that_only_one_era_sees_is_paired_with_nothing() -> None:
    old = ServerFeatures(ServerInfo("a", "1"), tools=({"name": "both"}, {"name": "old"}), modern=False)
    new = ServerFeatures(ServerInfo("a", "1"), tools=({"name": "new"}, {"name": "both"}), modern=True, other=old)
    pairs = [tuple(item and item["name"] for item in pair) for pair in TOOL.listed(new)]
    assert pairs == [("new", None), ("both", "both"), (None, "old")]


def test_a_list_is_declared_by_a_capability_or_by_an_extension() -> None:
    assert TOOL.is_declared({"tools": {}})
    assert not TOOL.is_declared({"prompts": {}})
    assert SKILL.is_declared({"extensions": {SKILLS_EXTENSION: {}}})
    assert not SKILL.is_declared({"skills": {}})


def test_no_other_module_of_the_core_writes_the_names_of_lists() -> None:
    names = [f'"{name}"' for kind in KINDS.values() for name in (kind.method, list_changed(kind.change))]
    names += ['"resourceTemplates"', '"toolsListChanged"']
    places = {
        path.relative_to(_CORE).as_posix()
        for path in _CORE.rglob("*.py")
        if any(name in path.read_text("utf-8") for name in names)
    }
    assert places == {"protocol/kinds.py", "protocol/skills.py"}
    assert ChangeKind.INTRODUCTION not in LISTS
