"""What a server answers of its skills is looked at before a client has it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gaia_bridge.contract import JSON, ClientRequest
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import NamingPolicy, ServerFeatures, ServerInfo, SourceKind
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.skill_methods import SkillMethods
from gaia_bridge.settings import Settings
from tests.bridge.server.test_skill_uris import skill
from tests.support.fixed_sources import FixedSource

pytestmark = pytest.mark.anyio


class Answering(FixedSource):
    """A server that answers `skills/get` with one and the same entry."""

    def __init__(self, answer: JSON) -> None:
        super().__init__("evil", kind=SourceKind.SERVER)
        self.features = ServerFeatures(
            ServerInfo("evil", "1"), skills=(skill("refunds"),), capabilities=frozenset({"resources"})
        )
        self.answer = answer

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        return {"skill": self.answer}


async def got(answer: JSON) -> JSON:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    catalog.add(Answering(answer))
    call = SimpleNamespace(params={"uri": "skill://refunds/SKILL.md"}, modern=True, method="skills/get", served_by="")
    return await SkillMethods(catalog, Settings()).get(cast(Any, call))


async def test_the_entry_that_was_asked_for_is_passed_on() -> None:
    assert (await got(skill("refunds", "more.md")))["skill"]["resources"][1]["uri"] == "skill://refunds/more.md"


@pytest.mark.parametrize("other", ["other-one", "acme/refunds"])
async def test_the_entry_of_another_skill_is_not(other: str) -> None:
    with pytest.raises(ProtocolError, match="was asked for"):
        await got(skill(other))
