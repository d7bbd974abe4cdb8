"""What the page about chat models shows is what happens."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from gaia_bridge.bridge.discovery import load_agent
from gaia_bridge.chat_types import ChatRequest, Reply
from gaia_bridge.server.http import error_bodies
from gaia_bridge_doors.openai_api import app
from tests.support.chat_endpoint import ChatAgent, chatting
from tests.support.on_demand import openai

PAGE = (Path(__file__).parents[2] / "docs" / "openai-endpoint.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def program(word: str) -> str:
    [found] = [text for text in PROGRAMS if word in text]
    return str(found)


async def run(text: str, base_url: str) -> dict[str, Any]:
    """Run a program of the page against a server that listens elsewhere."""
    names: dict[str, Any] = {"__name__": "example"}
    code = text.replace("http://127.0.0.1:8765/v1", base_url)
    assert base_url in code
    await anyio.to_thread.run_sync(partial(exec, code, names))
    return names


@pytest.mark.anyio
async def test_the_agent_of_the_page_talks_is_called_and_is_lent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "notes_agent.py"
    file.write_text(program("class NotesAgent"), encoding="utf-8")
    [notes] = load_agent(str(file))

    async def write(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        [lent] = request.lent_tools
        yield str((await lent.call({"text": "It rains."}))["structuredContent"])

    writer = ChatAgent(write, "gaia-writer")
    async with chatting(named={notes.name: notes.agent, "writer": writer}) as server:
        url = str(server.client.base_url.join("/v1"))
        await run(program('messages=[{"role": "user", "content": "How many'), url)
        await run(program('model="gaia-writer"'), url)
        await run(program("previous_response_id"), url)
    none, noted, one = "You have 0 notes.", "{'notes': 1}", "You have 1 notes."
    assert capsys.readouterr().out.splitlines() == [none, noted, one, one]


@pytest.mark.anyio
async def test_the_session_of_the_page_reaches_the_agent() -> None:
    async def answer(request: ChatRequest) -> AsyncGenerator[str | Reply]:
        yield f"{request.session_id}"

    async with chatting(ChatAgent(answer)) as server:
        names = await run(program("X-Session-Id"), str(server.client.base_url.join("/v1")))
        client: openai.OpenAI = names["client"]
        ask = partial(
            client.chat.completions.create, model="gaia-test", messages=[{"role": "user", "content": "Who am I?"}]
        )
        completion: Any = await anyio.to_thread.run_sync(ask)
        client.close()
    assert completion.choices[0].message.content == "ada:monday"


def test_every_code_that_the_page_lists_is_one_that_is_given() -> None:
    doors = Path(app.__file__).parents[1]
    files = [path for room in ("conversation", "openai_api") for path in sorted((doors / room).rglob("*.py"))]
    files.append(Path(error_bodies.__file__))
    source = "".join(path.read_text(encoding="utf-8") for path in files)
    rows = re.findall(r"^\| [\d, ]+ \| (.*?) \|", PAGE, re.MULTILINE)
    codes = {code for row in rows for code in re.findall(r"`(\w+)`", row)}
    assert len(codes) > 20
    assert [code for code in sorted(codes) if f'"{code}"' not in source] == []
