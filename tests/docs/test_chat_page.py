"""What `docs/chat.md` shows is what happens, with a model server that plays along."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.scripted_model import ModelHandle, call, rule, say, script, scripted_model

PAGE = Path(__file__).parents[2] / "docs" / "chat.md"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Generator[ModelHandle]:
    with scripted_model() as server:
        monkeypatch.setenv("GAIA_BASE_URL", server.base_url)
        yield server


def run(word: str) -> None:
    """Run the example that has a word in it."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    [code] = [block for block in blocks if word in block]
    exec(code, {"__name__": "__main__"})


@pytest.mark.requirement("S0-64", "S2-25", "S2-26", "S2-27")
def test_the_examples_print_what_the_model_makes_of_them(
    model: ModelHandle, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model.play(script(call("price_of", flower="rose", count=7), say("They cost $result.")))
    run("ShopAgent")
    assert capsys.readouterr().out == "They cost 17.5.\n"
    assert model.requests()[0].system.startswith("You help in a flower shop.")

    model.play(script(rules=[rule(r"is called (\w+)", say("Hello $1.")), rule("What is my dog called", say("Bello."))]))
    run("create_session")
    created, hello, answer, listed, destroyed = capsys.readouterr().out.splitlines()
    assert (created, hello, answer, destroyed) == ("ada", "Hello Bello.", "Bello.", "ada")
    assert "'session_id': 'ada'" in listed and "'plan': 'free'" in listed and listed.endswith(" 5")
    contents = [message["content"] for message in model.requests()[-1].messages]
    assert contents == ["You help Ada.", "My dog is called Bello.", "Hello Bello.", "What is my dog called?"]
    assert (tmp_path / "sessions.db").exists()
