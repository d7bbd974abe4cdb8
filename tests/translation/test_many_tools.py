"""As many tools as one server may have, behind two of the bridge, for a client that does not take so many."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from gaia_bridge.model import HttpServerSpec
from tests.interaction.connecting import DEADLINE, ERAS, client_of, serving
from tests.interaction.many_tools_agent import ManyToolsAgent
from tests.interaction.results import call
from tests.interaction.test_talking import Person
from tests.support.on_demand import mcp_types
from tests.translation.legacy_only import forget_discovery
from tests.translation.through import AT_ONCE, NAME, published

pytestmark = pytest.mark.anyio

VS_CODE: dict[str, Any] = {"name": "Visual Studio Code", "version": "1.138.0"}


@pytest.mark.parametrize("upstream_era", ERAS)
@pytest.mark.parametrize("era", ERAS)
async def test_vs_code_calls_one_of_hundreds_of_tools_of_a_server(era: str, upstream_era: str) -> None:
    person = Person()
    told: list[Any] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    with anyio.fail_after(DEADLINE):
        async with serving({"many": ManyToolsAgent()}) as (url, upstream):
            if upstream_era == "legacy":
                forget_discovery(upstream)
            spec = HttpServerSpec(NAME, f"{url}/mcp", options=AT_ONCE)
            async with (
                published(spec, "http", upstream_era) as reach,
                client_of(reach(), era, client_info=mcp_types.Implementation(**VS_CODE), **person.callbacks) as client,
            ):
                assert [tool.name for tool in (await client.list_tools()).tools] == ["tool_search", "call_tool"]
                assert "convert_distance" in str(await call(client, "tool_search", query="kilometres"))
                wrong = await call(client, "call_tool", name="convert_distance", arguments={"kilometres": "ten"})
                assert wrong["isError"]
                asked = await client.call_tool("call_tool", {"name": "ask"}, progress_callback=on_progress)
                assert asked.structured_content == {"action": "accept", "size": 42}
    assert told == [(1, "asking")]
    assert [question["message"] for question in person.asked] == ["Which size?"]
