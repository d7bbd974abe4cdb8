"""What a called tool asks is asked on the terminal; where there is none, that is said."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tests.cli.terminals import CTRL_C, CTRL_D, Terminal, terminal
from tests.support.scripted_model import rule, say, scripted_model

SERVER = Path(__file__).parents[2] / "servers" / "asking_server.py"
DEFAULTS = {"count": 2, "day": "sat"}


@pytest.fixture(
    params=[
        pytest.param("", id="by requests"),
        pytest.param("modern-only", id="by results", marks=pytest.mark.thorough),
    ]
)
def mode(request: pytest.FixtureRequest) -> str:
    """How the server `asker` asks."""
    mode: str = request.param
    configure(mode)
    return mode


def configure(mode: str = "") -> None:
    file = Path("~/.gaia/mcp_servers.json").expanduser()
    file.parent.mkdir(exist_ok=True)
    entry = {"command": sys.executable, "args": ["-S", str(SERVER), mode]}
    file.write_text(json.dumps({"mcpServers": {"asker": entry}}), encoding="utf-8")


def fill_in(screen: Terminal, *answers: tuple[str, str]) -> None:
    for prompt, keys in answers:
        screen.until(prompt)
        screen.shown = ""
        screen.type(keys)


def answered(screen: Terminal) -> Any:
    """What the tool was told, which it repeats."""
    assert screen.ended() == 0
    return json.loads(screen.left.strip().splitlines()[-1])


@pytest.mark.requirement("F-363")
@pytest.mark.usefixtures("mode")
def test_a_form_is_filled_in_field_by_field() -> None:
    with terminal("call", "asker", "form") as screen:
        screen.until("asker asks: A table?\r\nFor \\x1b[2Kwhom?\r\n")
        assert "asker: info: about to ask form" in screen.shown
        fill_in(
            screen,
            ("Who comes\r\nName: ", "A\n"),
            ("shorter than 2 characters\r\nName: ", "Ann\n"),
            ("count [2]: ", "3\n"),
            ("window (y/n): ", "yes\n"),
            ("1) Friday\r\n  2) Saturday\r\nday [Saturday]: ", "1\n"),
            ("1) Soup\r\n  2) b\r\ndishes (several, with commas) (optional): ", "soup, 2\n"),
            ("note (optional): ", "\n"),
        )
        content = {"name": "Ann", "count": 3, "window": True, "day": "fri", "dishes": ["a", "b"]}
        assert answered(screen) == {"action": "accept", "content": content}


@pytest.mark.requirement("F-363")
@pytest.mark.parametrize(("keys", "action"), [(CTRL_C, "cancel"), (CTRL_D, "decline"), ("\n", "decline")])
def test_a_form_is_declined_or_cancelled_at_any_field(mode: str, keys: str, action: str) -> None:
    with terminal("call", "asker", "form") as screen:
        fill_in(screen, ("Name: ", "Ann\n"), ("count [2]: ", "\n"), ("window (y/n): ", keys))
        assert answered(screen) == {"action": action}


@pytest.mark.requirement("F-363")
@pytest.mark.parametrize(("tool", "question"), [("agree", "Accept? [y/N]: "), ("link", "in your browser? [y/N]: ")])
@pytest.mark.parametrize(("keys", "action"), [("y\n", "accept"), ("\n", "decline")])
def test_somebody_agrees_or_does_not(tool: str, question: str, keys: str, action: str) -> None:
    configure()
    with terminal("call", "asker", tool) as screen:
        screen.until(question)
        assert ("  https://pay.example/1?a=b\r\n" in screen.shown) is (tool == "link")
        screen.type(keys)
        assert answered(screen)["action"] == action


@pytest.mark.requirement("F-363")
def test_what_was_typed_before_the_question_is_no_answer() -> None:
    configure()
    with terminal("call", "asker", "agree") as screen:
        screen.until("connecting to asker")
        screen.type("y\n")
        screen.until("Accept? [y/N]: ")
        screen.type("n\n")
        assert answered(screen) == {"action": "decline"}


@pytest.mark.requirement("F-363")
def test_the_second_ctrl_c_ends_the_command() -> None:
    configure()
    with terminal("call", "asker", "linger") as screen:
        screen.until("Accept? [y/N]: ")
        screen.type(CTRL_C)
        screen.until("(cancelled)")
        screen.type(CTRL_C)
        assert screen.ended() == 130
    assert "Traceback" not in screen.shown


@pytest.mark.requirement("F-363")
@pytest.mark.parametrize("option", [[], ["--json"]])
@pytest.mark.usefixtures("mode")
def test_where_nobody_can_be_asked_nothing_is_declared_and_the_failure_says_so(option: list[str]) -> None:
    result = run("call", "asker", "form", *option)
    hint = "the tool asks a question, and nobody can answer here: run the command in a terminal, without --json"
    assert result.returncode in (1, 69)
    assert hint in result.stderr


@pytest.mark.requirement("F-363")
def test_with_json_nobody_is_asked() -> None:
    configure()
    with terminal("call", "asker", "greeted", "--json") as screen:
        assert screen.ended() == 0
    assert '\\"capabilities\\": {}' in screen.shown


SAMPLES = """
from gaia.agents.base import MCPAgent, tool
from gaia_bridge import RequestContext

class GuideAgent(MCPAgent):
    @tool
    def describe(self, city: str, request: RequestContext) -> str:
        texts = [request.sample(f"{ask} {city}", 50, systemPrompt="Be short.")["content"]["text"] for ask in "ab"]
        return " / ".join(texts)
"""


@pytest.fixture
def guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent that asks for its client's model twice; no model server is configured or running."""
    monkeypatch.setenv("GAIA_BASE_URL", "http://127.0.0.1:1/v1")
    (tmp_path / "guide.py").write_text(SAMPLES, encoding="utf-8")
    return tmp_path


def test_a_tool_that_asks_for_a_model_is_answered_by_the_configured_one_once_the_user_agrees(
    guide: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_model(rules=[rule("a Rome", say("A city.")), rule("b Rome", say("A port."))]) as server:
        monkeypatch.setenv("GAIA_BASE_URL", server.base_url)
        with terminal("call", "guide.py", "describe", "city=Rome", cwd=guide) as screen:
            screen.until("guide asks for the answer of a model:\r\n  system: Be short.\r\n  user: a Rome\r\n")
            fill_in(screen, (" answer? [Y/n; n: you type the answer]: ", "\n"))
            screen.until("user: b Rome")  # all that is sent is shown
            assert screen.ended() == 0
        assert screen.left.strip().splitlines()[-1] == "A city. / A port."
        first, _ = server.requests()
        assert [message["role"] for message in first.body["messages"]] == ["system", "user"]
        assert first.body["max_tokens"] == 50


@pytest.mark.parametrize("agreed", ["\n", "n\n"])
def test_without_a_model_the_person_types_the_answer(guide: Path, agreed: str) -> None:
    with terminal("call", "guide.py", "describe", "city=Rome", cwd=guide) as screen:
        fill_in(screen, ("Have the model of http://127.0.0.1:1/v1 answer?", agreed))
        fill_in(screen, ("Type the answer: ", "old\n"), ("Type the answer: ", "big\n"))
        assert screen.ended() == 0
    assert screen.left.strip().splitlines()[-1] == "old / big"


def test_nobody_has_to_answer_for_a_model(guide: Path) -> None:
    with terminal("call", "guide.py", "describe", "city=Rome", cwd=guide) as screen:
        fill_in(screen, (" answer? [Y/n", CTRL_C))
        assert screen.ended() == 1
    assert "User rejected sampling request" in screen.left
    result = run("call", "guide.py", "describe", "city=Rome", cwd=guide)
    assert result.returncode == 69
    assert "nobody can answer here: run the command in a terminal, without --json" in result.stderr
