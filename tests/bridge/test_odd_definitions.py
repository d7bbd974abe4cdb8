"""Whatever a server lists, each published list is valid in its revision and for the official SDK, and complete."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gaia_bridge.model import NamingPolicy, ServerInfo, SourceKind
from gaia_bridge.protocol.kinds import KINDS
from gaia_bridge.protocol.revisions import is_modern
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.client_results import content_for
from gaia_bridge.sources.upstream.listing.feature_lists import no_features, with_list
from gaia_bridge.text.json_types import JSON
from tests.support.fixed_sources import FixedSource
from tests.support.odd_definitions import GOOD, LISTS, odd_definitions
from tests.support.on_demand import mcp_types
from tests.support.schemas import REVISIONS, problems, taken_out

RESULTS = {
    "tool": "ListToolsResult",
    "prompt": "ListPromptsResult",
    "resource": "ListResourcesResult",
    "resource template": "ListResourceTemplatesResult",
}


def catalog_of(kind: str, definitions: list[JSON]) -> Catalog:
    """A merged endpoint with two servers: an odd one, and one that lists what is good."""
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    for name, items in (("odd", definitions), ("fine", [GOOD[kind]])):
        source = FixedSource(name, kind=SourceKind.SERVER)
        features = replace(no_features(name), capabilities=frozenset({"tools", "prompts", "resources"}))
        source.features = with_list(features, KINDS[kind], items)
        catalog.add(source)
    return catalog


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.requirement("F-293")
@given(data=st.data())
def test_a_list_is_valid_in_every_revision_beside_any_definition(kind: str, data: Any) -> None:
    definitions = data.draw(st.lists(odd_definitions[kind], min_size=1, max_size=3))
    catalog = catalog_of(kind, definitions)
    method, field = LISTS[kind]
    for revision in REVISIONS:
        shown = catalog.definitions(kind, modern=is_modern(revision))
        result: JSON = {field: shown}
        if is_modern(revision):
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        elif revision != "2025-11-25":
            result = content_for(revision, method, result)
        assert problems(revision, RESULTS[kind], result) == []
        assert taken_out(revision, RESULTS[kind], result) == []
        parsed = getattr(mcp_types, RESULTS[kind]).model_validate(result)
        assert any(item["name"].endswith("good") for item in shown)
        assert len(parsed.model_dump(by_alias=True)[field]) == len(shown)


def test_a_task_is_offered_as_the_bridge_plays_it_and_to_its_revision_alone() -> None:
    tool = {**GOOD["tool"], "execution": {"taskSupport": "required"}}
    catalog = catalog_of("tool", [tool])
    shown = catalog.definitions("tool", modern=False)
    assert shown[0]["execution"] == {"taskSupport": "optional"}
    assert "execution" not in content_for("2025-06-18", "tools/list", {"tools": shown})["tools"][0]
    assert "execution" not in catalog.definitions("tool", modern=True)[0]


def test_a_schema_that_refers_to_a_definition_at_its_root_is_shown_with_its_properties() -> None:
    args = {"type": "object", "properties": {"a": {"$ref": "#/$defs/Text"}}, "required": ["a"]}
    defs = {"Args": args, "Text": {"type": "string"}}
    schema = {"$ref": "#/$defs/Args", "$defs": defs}
    for modern in (True, False):
        catalog = catalog_of("tool", [{"name": "odd", "inputSchema": schema, "outputSchema": schema}])
        tool = catalog.definitions("tool", modern=modern)[0]
        assert tool["inputSchema"] == tool["outputSchema"] == {**args, "$defs": defs}


def test_a_resource_whose_uri_is_no_url_is_listed_under_one() -> None:
    catalog = catalog_of("resource", [{"uri": "docs/read me", "name": "odd"}])
    [odd, good] = catalog.definitions("resource", modern=True)
    assert (odd["uri"], good["uri"]) == ("mcp://odd/docs/read me", "good://1")
    source, uri = catalog.resource(odd["uri"])
    assert (source.name, uri) == ("odd", "docs/read me")
    assert catalog.addresses.public(source, uri) == odd["uri"]
