"""What a server answers of its skills is looked at before a client has it."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from msgspec.structs import replace

from gaia_bridge.contract import ClientRequest
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import NamingPolicy, ServerFeatures, ServerInfo, SourceKind
from gaia_bridge.protocol.skills import DIRECTORY_READ, SKILLS_EXTENSION, SOURCE_KEY, skill_problem
from gaia_bridge.server.catalog import Catalog
from gaia_bridge.server.introduction import capabilities_of
from gaia_bridge.server.skill_methods import SkillMethods
from gaia_bridge.settings import Settings, UpstreamLimits
from gaia_bridge.sources.composition.composed import ComposedSource
from gaia_bridge.sources.composition.steps import Filtered
from gaia_bridge.text.json_types import JSON
from tests.bridge.server.test_skill_uris import named, skill
from tests.support.fixed_sources import FixedSource

pytestmark = pytest.mark.anyio

_SKILLS: JSON = {"extensions": {SKILLS_EXTENSION: {"directoryRead": True}}}


class Answering(FixedSource):
    """A server that answers `skills/get` with one and the same entry."""

    def __init__(self, answer: JSON) -> None:
        super().__init__("evil", kind=SourceKind.SERVER)
        self.features = ServerFeatures(
            ServerInfo("evil", "1"),
            skills=(skill("refunds"),),
            capabilities=frozenset({"resources"}),
            extras=_SKILLS,
            declared=_SKILLS,
        )
        self.answer = answer

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        if method == DIRECTORY_READ:
            return self.answer
        if self.answer.get("code"):
            raise ProtocolError(self.answer["code"], "no")
        return {"skill": self.answer}


def asked(source: FixedSource) -> SkillMethods:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    for one in (source, named("desk", skill("desk")), named("shop", skill("shop"))):
        catalog.add(one)
    return SkillMethods(catalog, Settings())


def call(method: str, uri: str) -> Any:
    return SimpleNamespace(params={"uri": uri}, modern=True, method=method, served_by="")


async def got(answer: JSON) -> JSON:
    return await asked(Answering(answer)).get(call("skills/get", "skill://refunds/SKILL.md"))


async def test_the_entry_that_was_asked_for_is_passed_on() -> None:
    assert (await got(skill("refunds", "more.md")))["skill"]["resources"][1]["uri"] == "skill://refunds/more.md"


@pytest.mark.parametrize("other", ["other-one", "acme/refunds"])
async def test_the_entry_of_another_skill_is_not(other: str) -> None:
    with pytest.raises(ProtocolError, match="was asked for"):
        await got(skill(other))


@pytest.mark.parametrize("code", [-32602, -32002])
async def test_a_skill_that_its_server_no_longer_has_is_unknown(code: int) -> None:
    with pytest.raises(ProtocolError, match="No skill is served") as caught:
        await got({"code": code})
    assert caught.value.code == -32602


async def test_a_directory_holds_what_is_directly_in_it_and_nothing_of_others() -> None:
    uris = ("", "/", "/SKILL.md", "/a/b.md", "/..", "/%2e%2e", "/templates")
    listed: list[Any] = [{"uri": f"skill://refunds{rest}", "name": "x"} for rest in uris]
    listed += [{"uri": "skill://desk/SKILL.md", "name": "x"}, {"uri": 5, "name": "x"}, {"name": "x"}, None]
    listed += [{"uri": "skill://refunds/no-name"}]
    methods = asked(Answering({"resources": listed}))
    found = await methods.read_directory(call(DIRECTORY_READ, "skill://refunds"))
    assert [item["uri"] for item in found["resources"]] == ["skill://refunds/SKILL.md", "skill://refunds/templates"]


class Partial(Answering):
    """A server that lists one of its skills only, and cannot read directories."""

    def __init__(self, name: str, *unlisted: JSON) -> None:
        super().__init__({})
        self.name = name
        extras: JSON = {"extensions": {SKILLS_EXTENSION: {}}}
        listed = skill(f"{name}-listed")
        resources = ({"uri": listed["uri"], "name": "x"},)
        self.features = replace(self.features, skills=(listed,), resources=resources, extras=extras, declared=extras)
        self.unlisted = {entry["uri"]: entry for entry in unlisted}

    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        if (entry := self.unlisted.get(params["uri"])) is None:
            raise ProtocolError(-32602, "no")
        return {"skill": entry}


class Hanging(Partial):
    async def forward(self, method: str, params: JSON, request: ClientRequest) -> JSON:
        await anyio.sleep_forever()
        return {}


def partial_catalog() -> tuple[Catalog, SkillMethods]:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    one = Partial("one", skill("hidden", "a/b.md"))
    for source in (named("desk", skill("desk")), Hanging("slow"), one, Partial("two", skill("hidden"))):
        catalog.add(source)
    settings = Settings(upstream=UpstreamLimits(first_look=0.05, first_list=0.05))
    return catalog, SkillMethods(catalog, settings)


@pytest.mark.parametrize(("path", "owner"), [("hidden", "one"), ("one/hidden", "one"), ("two/hidden", "two")])
async def test_a_skill_that_no_list_has_is_found_at_its_server_with_all_its_files(path: str, owner: str) -> None:
    catalog, methods = partial_catalog()
    for other in ("one/hidden", "hidden", path):  # whatever was asked for before
        entry = (await methods.get(call("skills/get", f"skill://{other}/SKILL.md")))["skill"]
        assert entry["uri"] == f"skill://{other}/SKILL.md"
    assert (entry["uri"], entry["_meta"][SOURCE_KEY]) == (f"skill://{path}/SKILL.md", owner)
    assert skill_problem(entry) is None
    for file in entry["resources"]:
        source, own = catalog.resource(file["uri"])
        assert source.name == owner
        assert own.startswith("skill://hidden/")
    listed = await methods.read_directory(call(DIRECTORY_READ, f"skill://{path}"))
    assert listed["resources"][0]["uri"] == f"skill://{path}/SKILL.md"


@pytest.mark.parametrize("uri", ["skill://none/SKILL.md", "skill://desk/none/SKILL.md", "skill://hidden/a/b.md", "x"])
async def test_what_no_server_has_is_unknown_however_long_one_of_them_takes(uri: str) -> None:
    _, methods = partial_catalog()
    with pytest.raises(ProtocolError, match="No skill is served") as caught:
        await methods.get(call("skills/get", uri))
    assert caught.value.code == -32602


@pytest.mark.parametrize("modern", [True, False])
def test_whoever_declares_skills_declares_resources(modern: bool) -> None:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    odd = Partial("odd")
    odd.features = replace(odd.features, skills=(), capabilities=frozenset({"tools"}))
    for source in (FixedSource("one", "a"), odd, FixedSource("two", "b")):
        catalog.add(source)
    told = capabilities_of(catalog, modern=modern)
    assert SKILLS_EXTENSION in told["extensions"]
    assert "resources" in told


async def test_a_skill_that_no_list_has_can_be_read_by_its_uri_alone() -> None:
    _, methods = partial_catalog()
    source, own = await methods.reader("skill://two/hidden/SKILL.md", call("resources/read", ""))
    assert (source.name, own) == ("two", "skill://hidden/SKILL.md")
    source, own = await methods.reader("skill://hidden/SKILL.md", call("resources/read", ""))
    assert (source.name, own) == ("one", "skill://hidden/SKILL.md")
    with pytest.raises(ProtocolError):
        await methods.reader("skill://none/SKILL.md", call("resources/read", ""))


@pytest.mark.parametrize(
    ("denied", "kind", "known"), [("x", "tool", True), ("skill://hidden/.*", "skill", False), ("x", "skill", False)]
)
async def test_what_no_list_has_passes_a_filter_that_is_about_something_else(
    denied: str, kind: Any, known: bool
) -> None:
    catalog = Catalog(ServerInfo("bridge", "1"), NamingPolicy.DEFAULT)
    catalog.add(
        ComposedSource(
            cast(Any, Partial("one", skill("hidden"))), [Filtered(frozenset({kind}), deny=(re.compile(denied),))]
        )
    )
    for other in ("two", "three"):
        catalog.add(Partial(other))
    asking = SkillMethods(catalog, Settings()).get(call("skills/get", "skill://hidden/SKILL.md"))
    if known:
        assert (await asking)["skill"]["uri"] == "skill://hidden/SKILL.md"
    else:
        with pytest.raises(ProtocolError, match="No skill is served"):
            await asking
