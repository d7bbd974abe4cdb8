"""Skills over MCP (SEP-2640): an agent's folder, a server of another hand that has the same skill, and one without."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from gaia_bridge import Bridge, Client, ProtocolError, Settings, SkillChangedError, StdioServerSpec, source
from gaia_bridge.middleware import CallNext, McpRequest, Middleware
from gaia_bridge.protocol.codes import METHOD_NOT_FOUND
from gaia_bridge.protocol.skills import SKILL_KEY, SKILLS_EXTENSION, SOURCE_KEY
from gaia_bridge.text.json_types import JSON
from tests.support.agents import ScriptedAgent, one_tool
from tests.support.bridges import both_eras, running_bridge
from tests.support.installed_programs import WITH_FASTMCP, needs, with_fastmcp
from tests.support.upstreams import sdk_server, until_ready
from tests.support.waiting import Changing

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]  # on a busy machine, FastMCP takes long to start

ERAS = ("legacy", "modern")
SERVER = Path(__file__).parents[1] / "servers" / "fastmcp_skills.py"
OURS = "skill://refunds/SKILL.md"
THEIRS = "skill://shop/refunds/SKILL.md"


def write(folder: Path, path: str, description: str, body: str = "body\n") -> Path:
    """A skill below a folder; returns its `SKILL.md`."""
    file = folder / path / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {file.parent.name}\ndescription: {description}\n---\n{body}", "utf-8")
    return file


def desk(folder: Path | None, **more: Any) -> ScriptedAgent:
    """An agent whose skills are in a folder."""
    agent = one_tool(lambda _: "done")
    agent.__dict__.update(mcp_skills=False if folder is None else folder, **more)
    return agent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The agent's skills."""
    skills = tmp_path / "skills"
    refunds = write(skills, "refunds", "Ours").parent
    (refunds / "templates").mkdir()
    (refunds / "templates" / "mail.md").write_text("Dear customer", "utf-8")
    (refunds / "logo.png").write_bytes(b"\x89PNG\0")
    write(skills, "acme/disputes", "Nobody pays")
    return skills


@asynccontextmanager
async def three_sources(folder: Path) -> AsyncGenerator[Bridge]:
    """The agent, FastMCP with a skill of the same name, and a server of the SDK without skills."""
    interpreter, variables = with_fastmcp()
    shop = folder.parent / "shop"
    (write(shop, "refunds", "Theirs").parent / "prices.csv").write_text("a,b\n", "utf-8")
    spec = StdioServerSpec("shop", interpreter, (str(SERVER), str(shop)), variables)
    async with Bridge(desk(folder), servers=[spec, sdk_server()]) as bridge:
        await until_ready(*bridge.sources)
        yield bridge


@pytest.mark.thorough
@needs(WITH_FASTMCP)
async def test_skills_of_one_name_are_both_there_and_say_whose_they_are(folder: Path) -> None:
    eras: tuple[Literal["legacy", "modern"], ...] = ("modern", "legacy", "modern")
    async with three_sources(folder) as bridge:
        for era in eras:  # what a connection of another era says must not change what is there
            async with Client(bridge, era=era) as client:
                assert client.capabilities["extensions"][SKILLS_EXTENSION] == {"directoryRead": True}
                skills = {skill["uri"]: skill for skill in await client.list_skills()}
                assert set(skills) == {OURS, THEIRS, "skill://acme/disputes/SKILL.md"}
                assert skills[OURS]["_meta"][SOURCE_KEY] != skills[THEIRS]["_meta"][SOURCE_KEY] == "shop"
                for uri, skill in skills.items():
                    assert await client.get_skill(uri) == skill
                    root = uri.removesuffix("SKILL.md")
                    for file in skill["resources"]:
                        content = await client.read_skill(skill, file["uri"].removeprefix(root))
                        assert file["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
                assert b"Theirs" in await client.read_skill(skills[THEIRS])
                assert await client.read_skill(skills[THEIRS], "prices.csv") == b"a,b\n"
                listed = await client.request("resources/directory/read", {"uri": "skill://shop/refunds"})
                assert [item["uri"] for item in listed["resources"]] == [THEIRS, "skill://shop/refunds/prices.csv"]
                assert listed["resources"][1]["mimeType"] == "text/csv"


@needs(WITH_FASTMCP)
async def test_the_endpoint_of_one_server_is_as_that_server_and_changes_there_are_seen(folder: Path) -> None:
    async with three_sources(folder) as bridge, Client(bridge, endpoint="shop", era="modern") as client:
        [skill] = await client.list_skills()
        assert skill["uri"] == OURS
        assert "_meta" not in skill
        assert await client.get_skill(OURS) == skill
        assert client.capabilities["extensions"][SKILLS_EXTENSION] == {}
        with pytest.raises(ProtocolError) as caught:
            await client.request("resources/directory/read", {"uri": "skill://refunds"})
        assert caught.value.code == METHOD_NOT_FOUND
        await _change(folder, bridge)


async def _change(folder: Path, bridge: Bridge) -> None:
    """A change at a server is there with the next question."""
    async with Client(bridge, era="modern") as client:
        before = await client.get_skill(THEIRS)
        write(folder.parent / "shop", "refunds", "Theirs", "changed\n")
        with pytest.raises(SkillChangedError):
            await client.read_skill(before)
        after = await client.get_skill(THEIRS)
        assert b"changed" in await client.read_skill(after)


@pytest.mark.thorough
@needs(WITH_FASTMCP)
async def test_clients_that_know_no_skills_have_resources_and_prompts(folder: Path) -> None:
    async with three_sources(folder) as bridge:
        await _see_older_client(bridge, "legacy")
        await _see_older_client(bridge, "modern")


async def _see_older_client(bridge: Bridge, era: Literal["legacy", "modern"]) -> None:
    async with Client(bridge, era=era) as client:
        prompts = {prompt["name"]: prompt for prompt in await client.list_prompts()}
        assert prompts["refunds"]["description"] == "Ours"
        assert prompts["shop__refunds"]["_meta"][SKILL_KEY] == THEIRS
        skill, files = (await client.get_prompt("shop__refunds"))["messages"]
        assert skill["content"]["text"].endswith("description: Theirs\n---\nbody\n")
        assert "'shop'" in files["content"]["text"]
        assert "skill://shop/refunds/prices.csv" in files["content"]["text"]
        resources = {item["uri"]: item for item in await client.list_resources()}
        assert resources[OURS]["name"] == "refunds"
        assert resources[OURS]["description"] == "Ours"
        assert resources[OURS]["mimeType"] == "text/markdown"
        assert "skill://refunds/logo.png" not in resources
        templates = [item["uriTemplate"] for item in await client.list_resource_templates()]
        assert "skill://refunds/{+path}" in templates
        [logo] = await client.read_resource("skill://refunds/logo.png")
        assert logo == {"uri": "skill://refunds/logo.png", "mimeType": "image/png", "blob": "iVBORwA="}


@both_eras
async def test_clients_that_know_skills_have_no_prompts_for_them(folder: Path, mode: str) -> None:
    from mcp.client.extension import ClientExtension

    class Skills(ClientExtension):
        identifier = SKILLS_EXTENSION

    async with running_bridge(desk(folder)) as running, running.client(mode, extensions=[Skills()]) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == []


@pytest.mark.parametrize("era", ERAS)
async def test_what_is_no_skill_is_refused(folder: Path, era: Any) -> None:
    async with Bridge(desk(folder)) as bridge, Client(bridge, era=era) as client:
        for method, uri in (
            ("skills/get", "skill://none/SKILL.md"),
            ("skills/get", "skill://refunds/templates/mail.md"),
            ("resources/directory/read", OURS),
            ("resources/directory/read", "skill://refunds/none"),
        ):
            with pytest.raises(ProtocolError) as caught:
                await client.request(method, {"uri": uri})
            assert caught.value.code == -32602
            assert uri in str(caught.value)
        with pytest.raises(ProtocolError, match="uri"):
            await client.request("skills/get", {})


@pytest.mark.parametrize("era", ERAS)
async def test_without_skills_there_are_no_such_methods(era: Any) -> None:
    async with Bridge(desk(None)) as bridge, Client(bridge, era=era) as client:
        assert "extensions" not in client.capabilities
        assert "prompts" not in client.capabilities
        for method in ("skills/list", "skills/get", "resources/directory/read"):
            with pytest.raises(ProtocolError) as caught:
                await client.request(method, {"uri": OURS})
            assert caught.value.code == METHOD_NOT_FOUND


async def test_a_session_that_was_told_of_skills_keeps_their_methods_when_the_server_leaves(folder: Path) -> None:
    async with Bridge(one_tool(lambda _: "done")) as bridge:
        await bridge.add(desk(folder), "desk")
        async with Client(bridge, era="legacy") as client:
            assert len(await client.list_skills()) == 2
            await bridge.remove("desk")
            assert await client.list_skills() == []
            with pytest.raises(ProtocolError) as caught:
                await client.get_skill(OURS)
            assert caught.value.code == -32602


class Heard(Changing):
    """The notifications that a client was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.methods: list[str] = []

    def hear(self, method: str, _: JSON) -> None:
        self.methods.append(method)
        self._changed()


async def test_a_change_in_the_folder_is_announced_and_listed(folder: Path) -> None:
    heard = Heard()
    settings = Settings(agent=replace(Settings().agent, skill_interval=0.01))
    async with Bridge(desk(folder), settings=settings) as bridge, Client(bridge, on_change=heard.hear) as client:
        before = await client.get_skill(OURS)
        await client.subscribe(OURS)
        write(folder, "refunds", "Ours, but new")
        await heard.until(lambda: "notifications/resources/list_changed" in heard.methods)
        await heard.until(lambda: "notifications/prompts/list_changed" in heard.methods)
        await heard.until(lambda: "notifications/resources/updated" in heard.methods)
        after = await client.get_skill(OURS)
        assert after["frontmatter"]["description"] == "Ours, but new"
        assert before != after


@pytest.mark.parametrize("era", ERAS)
async def test_a_folder_that_is_empty_for_a_while_keeps_its_methods(tmp_path: Path, era: Any) -> None:
    async with Bridge(desk(tmp_path)) as bridge, Client(bridge, era=era) as client:
        assert client.capabilities["extensions"][SKILLS_EXTENSION] == {"directoryRead": True}
        assert "resources" in client.capabilities
        assert await client.list_skills() == []
        write(tmp_path, "one", "x")
        assert [skill["uri"] for skill in await client.list_skills()] == ["skill://one/SKILL.md"]
        (tmp_path / "one" / "SKILL.md").unlink()
        assert await client.list_skills() == []
        with pytest.raises(ProtocolError) as caught:
            await client.get_skill("skill://one/SKILL.md")
        assert caught.value.code == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_that_makes_skills_and_has_none_now_declares_resources(era: Any) -> None:
    async with Bridge(desk(None, get_mcp_skills=list)) as bridge, Client(bridge, era=era) as client:
        assert SKILLS_EXTENSION in client.capabilities["extensions"]
        assert "resources" in client.capabilities
        assert await client.list_skills() == []


async def test_what_is_read_is_what_is_listed_right_after_a_change(folder: Path) -> None:
    async with Bridge(desk(folder)) as bridge, Client(bridge) as client:
        for number in range(5):
            file = write(folder, "refunds", "Ours", f"{number}\n")
            for skill in (await client.get_skill(OURS), (await client.list_skills())[1]):
                assert await client.read_skill(skill) == file.read_bytes()
            file = write(folder, "refunds", "Ours", f"{number + 1}\n")
            [content] = await client.read_resource(OURS)
            assert content["text"] == file.read_text("utf-8")
            assert await client.read_skill(await client.get_skill(OURS)) == file.read_bytes()


async def test_a_skill_that_a_filter_takes_away_can_neither_be_listed_nor_read(folder: Path) -> None:
    kept = source(desk(folder), "desk").filtered(deny=["skill://refunds/*"], kinds=["skill", "resource"])
    async with Bridge(kept) as bridge, Client(bridge) as client:
        assert [skill["uri"] for skill in await client.list_skills()] == ["skill://acme/disputes/SKILL.md"]
        for method in ("skills/get", "resources/read"):
            with pytest.raises(ProtocolError):
                await client.request(method, {"uri": OURS})
        with pytest.raises(ProtocolError):
            await client.request("resources/read", {"uri": "skill://refunds/templates/mail.md"})
        await client.get_skill("skill://acme/disputes/SKILL.md")
        await client.read_resource("skill://acme/disputes/SKILL.md")


async def test_a_filter_of_resources_is_about_the_files_of_skills_as_well(folder: Path) -> None:
    kept = source(desk(folder), "desk").filtered(deny=["*.png", OURS], kinds=["resource"])
    async with Bridge(kept) as bridge, Client(bridge) as client:
        await client.read_resource("skill://refunds/templates/mail.md")
        for uri in ("skill://refunds/logo.png", OURS):
            with pytest.raises(ProtocolError):
                await client.read_resource(uri)


async def test_skills_pass_a_chain_of_bridges_with_one_prompt_each(folder: Path) -> None:
    async with Bridge(desk(folder)) as inner, Bridge(desk(folder)) as outer:
        await outer.add(inner, "inner")
        await until_ready(*outer.sources)
        async with Client(outer) as client:
            skills = {skill["uri"]: skill for skill in await client.list_skills()}
            assert {OURS, "skill://inner/refunds/SKILL.md"} < set(skills)
            assert b"Ours" in await client.read_skill(skills["skill://inner/refunds/SKILL.md"])
            prompts = {prompt["name"]: prompt["_meta"][SKILL_KEY] for prompt in await client.list_prompts()}
            assert prompts == {
                "refunds": OURS,
                "disputes": "skill://acme/disputes/SKILL.md",
                "inner__refunds": "skill://inner/refunds/SKILL.md",
                "inner__disputes": "skill://inner/acme/disputes/SKILL.md",
            }
            [message, _] = (await client.get_prompt("inner__refunds"))["messages"]
            assert "Ours" in message["content"]["text"]


async def test_middleware_is_around_the_methods_of_skills(folder: Path) -> None:
    class Seen(Middleware):
        def __init__(self) -> None:
            self.methods: list[str] = []

        async def on_request(self, request: McpRequest, call_next: CallNext) -> JSON:
            self.methods.append(request.method)
            return await call_next(request)

        async def on_list(self, request: McpRequest, call_next: CallNext) -> JSON:
            return {**await call_next(request), "skills": []}

    seen = Seen()
    async with Bridge(desk(folder), middleware=[seen]) as bridge, Client(bridge) as client:
        assert await client.list_skills() == []
        await client.get_skill(OURS)
        await client.request("resources/directory/read", {"uri": "skill://refunds"})
        assert seen.methods[-3:] == ["skills/list", "skills/get", "resources/directory/read"]


async def test_an_agent_can_make_its_skills_itself() -> None:
    entry: JSON = {
        "uri": "skill://daily/SKILL.md",
        "frontmatter": {"name": "daily", "description": "Of today"},
        "resources": "dynamic",
    }
    text = "---\nname: daily\ndescription: Of today\n---\nnow\n"

    def read(uri: str) -> str:
        assert uri == entry["uri"]
        return text

    agent = desk(None, get_mcp_skills=lambda: [entry, {"uri": "skill://x"}], read_mcp_resource=read)
    async with Bridge(agent) as bridge, Client(bridge) as client:
        assert await client.list_skills() == [entry]
        assert await client.read_skill(entry) == text.encode()
        listed = await client.request("resources/directory/read", {"uri": "skill://daily"})
        assert [item["uri"] for item in listed["resources"]] == [entry["uri"]]


async def test_a_folder_beside_the_file_of_functions_is_published(tmp_path: Path) -> None:
    write(tmp_path / "skills", "stamping", "How to stamp")
    (tmp_path / "office.py").write_text(
        'from gaia_bridge import tool\n\n@tool\ndef stamp() -> str:\n    """Stamp."""\n    return "x"\n', "utf-8"
    )
    async with Client(tmp_path / "office.py") as client:
        assert [skill["frontmatter"]["name"] for skill in await client.list_skills()] == ["stamping"]


async def test_long_lists_come_in_pages(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, f"one-{number}", "x")
    settings = Settings(pages=replace(Settings().pages, items=2))
    async with Bridge(desk(tmp_path), settings=settings) as bridge, Client(bridge) as client:
        first = await client.request("skills/list")
        assert len(first["skills"]) == 2
        assert len(await client.list_skills()) == 5
