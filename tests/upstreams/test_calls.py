"""Servers of other hands at work, reached directly and through a bridge: calls, reads, progress, news, questions."""

from __future__ import annotations

import base64
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gaia_bridge.client import Connection
from gaia_bridge.errors import ProtocolError
from gaia_bridge.model import Progress, ServerSpec
from gaia_bridge.text.json_types import JSON
from tests.upstreams.servers import EVERYTHING, SMALL, Fixtures
from tests.upstreams.ways import ALL_CAPABILITIES, Role, call, connected, published, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]  # many programs start, on a machine that may be busy

Reach = Callable[[str], ServerSpec]
"""Where to connect to for a server."""


@pytest.fixture(params=[pytest.param("directly", marks=pytest.mark.thorough), "through the bridge"])
def reach(request: pytest.FixtureRequest, servers: Fixtures) -> Reach:
    if request.param == "directly":
        return servers.specs.__getitem__
    return functools.partial(published, request.getfixturevalue("bridge_url"))


async def test_times_are_converted(reach: Reach) -> None:
    arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kolkata"}
    async with connected(reach("time")) as connection:
        assert '"time_difference": "+5.5h"' in text_of(await call(connection, "convert_time", **arguments))
        failed = await call(connection, "convert_time", **{**arguments, "target_timezone": "Nowhere"})

    assert failed["isError"] is True


async def test_the_state_of_a_repository_is_told(reach: Reach, servers: Fixtures) -> None:
    repository = str(servers.folder)
    async with connected(reach("git")) as connection:
        status = text_of(await call(connection, "git_status", repo_path=repository))
        log = text_of(await call(connection, "git_log", repo_path=repository))

    assert "new.txt" in status
    assert "Begin" in log


async def test_files_are_read_and_those_elsewhere_are_refused(reach: Reach, servers: Fixtures) -> None:
    async with connected(reach("filesystem")) as connection:
        read = await call(connection, "read_text_file", path=str(servers.folder / "README.md"))
        refused = await call(connection, "read_text_file", path="/etc/hostname")

    assert (text_of(read), read["structuredContent"]) == ("# Milk\n", {"content": "# Milk\n"})
    assert refused["isError"] is True


async def test_what_a_server_remembers_is_found_again(reach: Reach, request: pytest.FixtureRequest) -> None:
    entity = {"name": request.node.name, "entityType": "test", "observations": ["it is — remembered"]}
    async with connected(reach("memory")) as connection:
        await call(connection, "create_entities", entities=[entity])
        found = await call(connection, "search_nodes", query=request.node.name)

    assert found["structuredContent"] == {"entities": [entity], "relations": []}


@pytest.fixture
def page(tmp_path: Path) -> Generator[str]:
    """The URL of a page."""
    (tmp_path / "index.html").write_text("<html><body><h1>Milk</h1><p>Buy <b>milk</b>.</p></body></html>", "utf-8")
    handler = functools.partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


async def test_a_page_is_fetched_by_a_tool_and_for_a_prompt(reach: Reach, page: str) -> None:
    async with connected(reach("fetch")) as connection:
        fetched = text_of(await call(connection, "fetch", url=page))
        prompt = await connection.request("prompts/get", {"name": "fetch", "arguments": {"url": page}})

    assert "Buy **milk**." in fetched
    assert "Buy **milk**." in prompt["messages"][0]["content"]["text"]


@pytest.mark.parametrize("name", SMALL)
async def test_whatever_a_server_is_written_with_everything_of_it_works(name: str, reach: Reach) -> None:
    async with connected(reach(name)) as connection:
        added = await call(connection, "add", a=2.5)
        failed = await call(connection, "fail", reason="no — milk")
        prompt = await connection.request("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
        notes = [await connection.request("resources/read", {"uri": f"note://{day}"}) for day in ("today", "monday")]
        with pytest.raises(ProtocolError):
            await connection.request("prompts/get", {"name": "none"})

    assert (text_of(added), added["structuredContent"]) == ("3.5", {"result": 3.5})
    assert failed["isError"] is True
    assert "fail" in failed["content"][0]["text"]
    assert prompt["messages"][0]["content"] == {"type": "text", "text": "Say hello to Ada."}
    assert [note["contents"][0]["text"] for note in notes] == ["Buy milk — today.", "Buy milk — monday."]


@pytest.mark.requirement("P-11")
@pytest.mark.parametrize("name", EVERYTHING)
async def test_every_kind_of_content_arrives(name: str, reach: Reach) -> None:
    async with connected(reach(name)) as connection:
        echoed = text_of(await call(connection, "echo", message="milk — ☕"))
        image = await call(connection, "get-tiny-image")
        weather = await call(connection, "get-structured-content", location="Chicago")
        links = await call(connection, "get-resource-links", count=2)
        reference = await call(connection, "get-resource-reference", resourceType="Text", resourceId=1)
        [resource, *_] = await connection.list_all("resource")
        read = await connection.request("resources/read", {"uri": resource["uri"]})

    assert echoed == "Echo: milk — ☕"
    [picture] = [block for block in image["content"] if block["type"] == "image"]
    assert base64.b64decode(picture["data"]).startswith(b"\x89PNG")
    assert weather["structuredContent"].keys() == {"temperature", "conditions", "humidity"}
    assert [block["type"] for block in links["content"]] == ["text", "resource_link", "resource_link"]
    assert "resource" in [block["type"] for block in reference["content"]]
    assert read["contents"][0]["uri"] == resource["uri"]


@pytest.mark.requirement("P-6")
@pytest.mark.parametrize("name", EVERYTHING)
async def test_progress_is_reported_step_by_step(name: str, reach: Reach) -> None:
    steps: list[tuple[float, float | None]] = []

    async def on_progress(report: Progress) -> None:
        steps.append((report.progress, report.total))

    arguments = {"name": "trigger-long-running-operation", "arguments": {"duration": 0.4, "steps": 4}}
    async with connected(reach(name)) as connection:
        result = await connection.request("tools/call", arguments, on_progress=on_progress)

    assert "Duration: 0.4 seconds, Steps: 4." in text_of(result)
    assert steps == [(step, 4) for step in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", EVERYTHING)
async def test_prompts_are_filled_in_and_arguments_completed(name: str, reach: Reach) -> None:
    half: JSON = {
        "ref": {"type": "ref/prompt", "name": "completable-prompt"},
        "argument": {"name": "department", "value": "E"},
    }
    async with connected(reach(name)) as connection:
        prompt = await connection.request("prompts/get", {"name": "args-prompt", "arguments": {"city": "Ulm"}})
        completed = await connection.request("completion/complete", half)

    assert "Ulm" in prompt["messages"][0]["content"]["text"]
    assert completed["completion"]["values"] == ["Engineering"]


@asynccontextmanager
async def toggled(connection: Connection, tool: str) -> AsyncGenerator[None]:
    """Something that a tool switches on, and off again; while it is on, the server does not end by itself."""
    await call(connection, tool)
    yield
    await call(connection, tool)


@pytest.mark.parametrize("name", EVERYTHING)
async def test_subscribers_hear_of_updates(name: str, reach: Reach) -> None:
    role = Role()
    async with connected(reach(name), role) as connection:
        [resource, *_] = await connection.list_all("resource")
        await connection.subscribe(resource["uri"])
        async with toggled(connection, "toggle-subscriber-updates"):
            updated = await role.until("notifications/resources/updated")
        await connection.unsubscribe(resource["uri"])

    assert updated["uri"] == resource["uri"]


@pytest.mark.parametrize("name", EVERYTHING)
async def test_log_messages_are_heard(name: str, servers: Fixtures) -> None:
    role = Role()
    async with connected(servers.specs[name], role) as connection:
        await connection.set_log_level("debug")
        async with toggled(connection, "toggle-simulated-logging"):
            logged = await role.until("notifications/message")

    assert logged["data"]


@pytest.mark.parametrize("name", EVERYTHING)
async def test_questions_are_put_to_us_and_a_refusal_is_taken_for_one(name: str, servers: Fixtures) -> None:
    asked: list[str] = []

    def answer(method: str, params: JSON) -> JSON:
        asked.append(method)
        if method == "elicitation/create":
            assert params["requestedSchema"]["properties"]["name"] == {
                "title": "String",
                "type": "string",
                "description": "Your full, legal name",
            }
            return {"action": "decline"}
        if method == "sampling/createMessage":
            raise ProtocolError(-1, "The user does not want that")
        return {"roots": [{"uri": "file:///milk", "name": "Milk"}]}

    role = Role(ALL_CAPABILITIES, answer)
    async with connected(servers.specs[name], role) as connection:
        declined = text_of(await call(connection, "trigger-elicitation-request"))
        refused = await call(connection, "trigger-sampling-request", prompt="Milk?", maxTokens=10)
        roots = text_of(await call(connection, "get-roots-list"))

    assert "declined" in declined
    assert refused["isError"] is True
    assert "The user does not want that" in refused["content"][0]["text"]
    assert "file:///milk" in roots
    assert {"elicitation/create", "sampling/createMessage", "roots/list"} == set(asked)
