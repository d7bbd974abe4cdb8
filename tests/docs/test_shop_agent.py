"""The agent of the README that thinks: run as a program, and served as a model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from gaia_bridge.bridge.discovery import load_agent
from tests.support.chat_endpoint import chatting
from tests.support.on_demand import openai
from tests.support.scripted_model import call, say, scripted_model

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
QUESTION = "What do seven roses cost?"


@pytest.fixture
def shop_agent(tmp_path: Path) -> Path:
    [code] = [block.partition("```")[0] for block in README.split("```python\n")[1:] if "ShopAgent" in block]
    file = tmp_path / "shop_agent.py"
    file.write_text(code, encoding="utf-8")
    return file


@pytest.mark.requirement("S0-64")
def test_it_answers_as_a_program(shop_agent: Path) -> None:
    with scripted_model(call("price_of", flower="rose", count=7), say("They cost $result euros.")) as server:
        environment = {**os.environ, "GAIA_BASE_URL": server.base_url}
        done = subprocess.run([sys.executable, shop_agent], env=environment, capture_output=True, text=True, timeout=30)
        first, _ = server.requests()
    assert done.stdout == "They cost 17.5 euros.\n", done.stderr
    assert "Tool: price_of" in done.stderr
    assert first.system.startswith("You help in a flower shop.")
    assert first.messages[-1]["content"] == QUESTION


@pytest.mark.anyio
async def test_it_answers_as_a_model(shop_agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_model(call("price_of", flower="tulip", count=2), say("That is $result.")) as server:
        monkeypatch.setenv("GAIA_BASE_URL", server.base_url)
        [shop] = load_agent(str(shop_agent))
        async with chatting(named={shop.name: shop.agent}) as bridge:
            client = openai.OpenAI(base_url=str(bridge.client.base_url.join("/v1")), api_key="none")

            def ask() -> str | None:
                with client:
                    answer = client.chat.completions.create(
                        model="gaia-shop", messages=[{"role": "user", "content": "Two tulips?"}]
                    )
                return answer.choices[0].message.content

            assert await anyio.to_thread.run_sync(ask) == "That is 2.4."
