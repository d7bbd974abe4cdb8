"""Which files belong to an agent, and which cannot be taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.bundles.contents import agent_files, gathered
from tests.support.bundled import write_project


def test_the_modules_beside_an_agent_are_taken_as_far_as_it_imports_them(tmp_path: Path) -> None:
    agent = write_project(tmp_path)
    package = tmp_path / "words"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("from words.english import HELLO\n", "utf-8")
    (package / "english.py").write_text("import json, colours\nHELLO = 'Hello'\n", "utf-8")
    (package / "list.txt").write_text("Hello\n", "utf-8")
    (package / "__pycache__" / "english.pyc").write_bytes(b"")
    (tmp_path / "colours.py").write_text("", "utf-8")
    (tmp_path / "greetings.py").write_text(
        "def greeting(name):\n    from words import HELLO\n    return HELLO\n", "utf-8"
    )
    found = agent_files(f"{agent.name}:HelloAgent", tmp_path)
    assert found.reference == "hello_agent.py:HelloAgent"
    assert set(found.files) == {
        "hello_agent.py",
        "greetings.py",
        "colours.py",
        "words/__init__.py",
        "words/english.py",
        "words/list.txt",
    }
    assert found.imports == frozenset()


def test_a_package_without_an_init_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "english.py").write_text("import colours\n", "utf-8")
    (tmp_path / "colours").mkdir()
    (tmp_path / "colours" / "list.txt").write_text("", "utf-8")
    (tmp_path / "agent.py").write_text("from words.english import HELLO\n", "utf-8")
    found = agent_files("agent.py", tmp_path)
    assert set(found.files) == {"agent.py", "words/english.py"}
    assert found.imports == {"colours"}


def test_an_agent_in_a_package_brings_the_package(tmp_path: Path) -> None:
    package = tmp_path / "weather" / "agents"
    package.mkdir(parents=True)
    for name in ("weather/__init__.py", "weather/units.py", "weather/agents/__init__.py"):
        (tmp_path / name).write_text("", "utf-8")
    (package / "tides.py").write_text("from ..units import metre\nTides = metre\n", "utf-8")
    found = agent_files("weather/agents/tides.py:Tides", tmp_path)
    assert found.reference == "weather/agents/tides.py:Tides"
    assert set(found.files) == {
        "weather/__init__.py",
        "weather/agents/__init__.py",
        "weather/agents/tides.py",
        "weather/units.py",
    }


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("# Greet\n", "has no frontmatter"),
        ("---\nname: greet\n---\n", "its description is None"),
        ("---\nname: Greet\ndescription: x\n---\n", "its name is 'Greet'"),
        ("---\nname: greets\ndescription: x\n---\n", "says the name 'greets' in the folder 'greet'"),
        ("---\nname: greet\ndescription: [x\n---\n", "clients leave the skill out"),
    ],
)
def test_a_skill_that_clients_would_leave_out_is_refused(tmp_path: Path, header: str, problem: str) -> None:
    write_project(tmp_path)
    (tmp_path / "skills" / "greet" / "SKILL.md").write_text(header, "utf-8")
    with pytest.raises(ConfigError, match=problem):
        agent_files("hello_agent.py", tmp_path)


@pytest.mark.parametrize(
    ("reference", "problem"),
    [("none.py", "there is no such file"), ("code", "is no Python file"), ("broken.py", "is not valid Python")],
)
def test_what_is_no_file_of_an_agent_is_refused(tmp_path: Path, reference: str, problem: str) -> None:
    (tmp_path / "broken.py").write_text("def (", "utf-8")
    with pytest.raises(ConfigError, match=problem):
        agent_files(reference, tmp_path)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("Nope", "it defines Tides, make"), ("tides", "did you mean 'Tides'?"), ("", "it defines Tides, make")],
)
def test_a_name_that_the_file_does_not_have_is_refused_with_those_that_it_has(
    tmp_path: Path, name: str, hint: str
) -> None:
    (tmp_path / "agent.py").write_text("class Tides: ...\ndef make(): ...\ndef _own(): ...\n", "utf-8")
    with pytest.raises(ConfigError, match=f"there is no '{name}' in the file") as caught:
        agent_files(f"agent.py:{name}", tmp_path)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    from other import Tides\nexcept ImportError:\n    Tides = None\n",
        "if (Tides := 1): ...\n",
        "def make():\n    global Tides\n    Tides = 1\nmake()\n",
        "from other import *\n",
        "def __getattr__(name): ...\n",
        "class Tides:\n    class Inner: ...\n",
    ],
)
def test_a_name_that_the_file_may_have_is_taken(tmp_path: Path, source: str) -> None:
    (tmp_path / "agent.py").write_text(source, "utf-8")
    assert agent_files("agent.py:Tides.Inner", tmp_path).reference == "agent.py:Tides.Inner"


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    write_project(folder)
    (tmp_path / "key").write_text("secret", "utf-8")
    os.symlink(tmp_path / "key", folder / "skills" / "greet" / "key.md")
    with pytest.raises(ConfigError, match="leads out of"):
        agent_files("hello_agent.py", folder)


def package_in(folder: Path) -> Path:
    """A package with an agent, which brings all that is in it."""
    package = folder / "weather"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "agent.py").write_text("", "utf-8")
    return package


def test_what_is_hidden_or_installed_or_made_beside_an_agent_is_not_taken(tmp_path: Path) -> None:
    package = package_in(tmp_path)
    for name in (
        ".env",
        ".git/config",
        ".venv/pyvenv.cfg",
        "venv/pyvenv.cfg",
        "venv/lib/big.py",
        "data/env/pyvenv.cfg",
        "data/env/x.py",
        "node_modules/x/index.js",
        "__pycache__/agent.pyc",
        "data/__pycache__/x.txt",
    ):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret", "utf-8")
    (package / "data" / "words.txt").write_text("Hello\n", "utf-8")
    found = agent_files("weather/agent.py", tmp_path)
    assert set(found.files) == {"weather/__init__.py", "weather/agent.py", "weather/data/words.txt"}


@pytest.mark.parametrize(
    "name", ["id_rsa", "id_ed25519", "data/server.key", "prod.env", "credentials.json", "store.p12", "chain.pem"]
)
def test_a_key_beside_an_agent_is_refused(tmp_path: Path, name: str) -> None:
    package = package_in(tmp_path)
    (package / "data").mkdir()
    (package / name).write_text("first line\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n", "utf-8")
    with pytest.raises(ConfigError, match="looks like a key") as caught:
        agent_files("weather/agent.py", tmp_path)
    assert name in str(caught.value) and "b3Blbn" not in str(caught.value)
    (package / name).unlink()
    for harmless in ("id_rsa.pub", "keys.py", "certificate.pem", "environment.txt"):
        (package / harmless).write_text("# -----BEGIN CERTIFICATE-----\n", "utf-8")
    assert "weather/certificate.pem" in agent_files("weather/agent.py", tmp_path).files


def test_a_link_to_a_hidden_file_is_not_followed(tmp_path: Path) -> None:
    package = package_in(tmp_path)
    (package / ".env").write_text("KEY=secret\n", "utf-8")
    os.symlink(".env", package / "settings.txt")
    with pytest.raises(ConfigError, match="leads to a hidden file"):
        agent_files("weather/agent.py", tmp_path)


def test_a_folder_full_of_data_is_refused_before_it_is_read(tmp_path: Path) -> None:
    package = package_in(tmp_path)
    for number in range(5):
        with (package / f"{number}.bin").open("wb") as file:
            file.truncate(15 * 2**20)
    with pytest.raises(ConfigError, match="64 MiB"):
        agent_files("weather/agent.py", tmp_path)


def test_two_agents_whose_files_have_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"# {name}\n", "utf-8")
        (tmp_path / name / f"{name}.py").write_text("import helper\n", "utf-8")
    with pytest.raises(ConfigError, match=r"helper\.py: two agents have different files of this name"):
        gathered(["one/one.py", "two/two.py"], tmp_path, {}, tmp_path)
    (tmp_path / "two" / "helper.py").write_text("# one\n", "utf-8")
    assert gathered(["one/one.py", "two/two.py"], tmp_path, {}, tmp_path).agents == ("one.py", "two.py")
