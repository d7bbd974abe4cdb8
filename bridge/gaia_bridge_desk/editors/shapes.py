"""How an entry for one server is written and read: the keys and values that editors differ in. Facts only."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, field

from gaia_bridge_desk.editors.references import NONE, Language
from gaia_bridge_desk.editors.references import VSCODE as VSCODE_LANGUAGE

__all__ = ["VSCODE", "Shape"]


class Shape(Struct, frozen=True, kw_only=True):
    """How one server is written.

    Args:
        stdio: What the entry of a program begins with.
        http: What the entry of an address begins with; `None` where there are none.
        command: The key of the program.
        args: The key of its arguments; `None` where the program and they are one list.
        env: The key of its variables.
        cwd: The key of its folder, where it has one.
        workspace: What stands for the folder that is open, where something does.
        url: The key of the address.
        headers: The key of its headers.
        variable: How the value of a variable of the environment is written, with `{}` for its name.
        bearer_variable: The key of the variable that holds the token, where that is no header.
        further: What every entry ends with.
        timeout: The unit of `timeout`, in seconds; `None` where that key means nothing.
        references: What is filled in where an entry is read.
        env_file: Whether `envFile` names a file of variables.
        plain_url: What an address is reached by that has no type: `sse` or `http`.
    """

    stdio: dict[str, Any] = field(default_factory=dict[str, Any])
    http: dict[str, Any] | None = field(default_factory=dict[str, Any])
    command: str = "command"
    args: str | None = "args"
    env: str = "env"
    cwd: str | None = "cwd"
    workspace: str | None = None
    url: str = "url"
    headers: str = "headers"
    variable: str | None = None
    bearer_variable: str | None = None
    further: dict[str, Any] = field(default_factory=dict[str, Any])
    timeout: float | None = None
    references: Language = NONE
    env_file: bool = False
    plain_url: str = "http"


VSCODE: Final = Shape(
    stdio={"type": "stdio"},
    http={"type": "http"},
    workspace="${workspaceFolder}",
    variable="${{env:{}}}",
    references=VSCODE_LANGUAGE,
    env_file=True,
)
"""https://code.visualstudio.com/docs/agents/reference/mcp-configuration, and `gaia_bridge_desk.editors.vscode`."""
