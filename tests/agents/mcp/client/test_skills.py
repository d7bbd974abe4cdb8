"""`MCPClient` and the skills of a server."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from gaia.mcp.client import MCPClient
from gaia_bridge import SkillChangedError
from gaia_bridge.text.json_types import JSON
from tests.support.gaia_clients import FakeTransport

TEXT = "---\nname: one\ndescription: x\n---\n"
URI = "skill://one/SKILL.md"
SKILL: JSON = {
    "uri": URI,
    "frontmatter": {"name": "one", "description": "x"},
    "resources": [{"uri": URI, "digest": f"sha256:{hashlib.sha256(TEXT.encode()).hexdigest()}", "size": len(TEXT)}],
}


def connected(**answers: Any) -> tuple[MCPClient, FakeTransport]:
    transport = FakeTransport(**answers)
    client = MCPClient("shop", transport)
    assert client.connect()
    return client, transport


def test_skills_are_listed_and_a_file_is_read_once_it_is_what_its_entry_says() -> None:
    client, transport = connected(
        **{
            "skills/list": {"result": {"skills": [SKILL]}},
            "skills/get": {"result": {"skill": SKILL}},
            "resources/read": {"result": {"contents": [{"uri": URI, "text": TEXT}]}},
        }
    )
    assert client.list_skills() == [SKILL]
    assert transport.requests[1:] == [("skills/list", None)]
    assert client.get_skill(URI) == SKILL
    assert client.read_skill(SKILL) == TEXT.encode()
    with pytest.raises(SkillChangedError, match="no such file"):
        client.read_skill(SKILL, "other.md")
    assert [method for method, _ in transport.requests[1:]] == ["skills/list", "skills/get", "resources/read"]


def test_what_differs_from_its_entry_is_refused() -> None:
    client, _ = connected(**{"resources/read": {"result": {"contents": [{"uri": URI, "text": TEXT + "evil"}]}}})
    with pytest.raises(SkillChangedError, match="get the skill's entry anew"):
        client.read_skill(SKILL)


def test_an_error_of_the_server_says_whose_it_is() -> None:
    client, _ = connected(**{"skills/list": {"error": {"code": -32601, "message": "Method not found"}}})
    with pytest.raises(RuntimeError, match="'shop' refused skills/list: .*Method not found"):
        client.list_skills()
    client.disconnect()
    with pytest.raises(RuntimeError, match="Not connected"):
        client.list_skills()
