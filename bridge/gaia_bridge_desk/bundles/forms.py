"""An Agent Plugin: a folder that VS Code, Copilot CLI, Cursor and others install, with servers and skills.

Format: https://agent-plugins.org/specification (1.0.0), and for Claude Code https://code.claude.com/docs/en/plugins-reference.
Neither asks for values: what a server needs is in the variables of whoever starts the editor.
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Final

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.bundles.contents import Contents
from gaia_bridge_desk.bundles.metadata import Metadata
from gaia_bridge_desk.bundles.start import serve_arguments, uvx_arguments

_SCHEMAS: Final = "https://agent-plugins.org/schemas/1.0.0"
_FOLDER: Final = "server"
"""Where agents and configuration are. `agents` is taken: Claude Code keeps descriptions of its own agents there."""

_OPEN_ROOT: Final = "${PLUGIN_ROOT}"
_CLAUDE_ROOT: Final = "${CLAUDE_PLUGIN_ROOT}"
PLUGIN_ROOTS: Final = (_OPEN_ROOT, _CLAUDE_ROOT)
"""What stands for the folder of the plugin, until the editor fills it in."""


class PluginForm(Enum):
    """Whose form a plugin has."""

    AGENT_PLUGIN = "agent-plugin"
    CLAUDE = "claude"


def plugin_files(about: Metadata, contents: Contents, form: PluginForm) -> dict[str, bytes]:
    """The files of a plugin: path to content.

    Args:
        about: What it says of itself.
        contents: What is in it.
        form: Whose form it has.
    """
    is_open = form is PluginForm.AGENT_PLUGIN
    root = f"{_OPEN_ROOT if is_open else _CLAUDE_ROOT}/{_FOLDER}"
    server: JSON = {"command": "uvx", "args": _arguments(contents, root)}
    files = {f"{_FOLDER}/{name}": content for name, content in contents.files.items()}
    files |= {f"skills/{name}": content for name, content in contents.skills.items()}
    files["README.md"] = _readme(about, contents).encode()
    if is_open:
        files["plugin.json"] = _text({"$schema": f"{_SCHEMAS}/plugin.schema.json", **_manifest(about)})
        entry = {"type": "stdio", **server}
        files["mcp.json"] = _text({"$schema": f"{_SCHEMAS}/mcp.schema.json", "mcpServers": {about.name: entry}})
    else:
        files[".claude-plugin/plugin.json"] = _text(_manifest(about))
        files[".mcp.json"] = _text({"mcpServers": {about.name: server}})
    return dict(sorted(files.items()))


def _arguments(contents: Contents, root: str) -> list[str]:
    """The arguments of `uvx`. A package has all that is needed, and a program of its own name."""
    if contents.package is not None:
        return [contents.package, *serve_arguments(contents.agents, None)]
    config = f"{root}/{contents.config}" if contents.config is not None else None
    arguments = serve_arguments([f"{root}/{agent}" for agent in contents.agents], config)
    return uvx_arguments(contents.requirements, arguments)


def _manifest(about: Metadata) -> JSON:
    author = {key: value for key, value in (("name", about.author), ("email", about.email)) if value is not None}
    told: JSON = {
        "name": about.name,
        "version": about.version,
        "description": about.description,
        "author": author or None,
        "homepage": about.homepage,
        "repository": about.repository,
        "license": about.license,
        "keywords": list(about.keywords) or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def _readme(about: Metadata, contents: Contents) -> str:
    lines = [
        f"# {about.name}",
        "",
        about.description,
        "",
        "It needs `uvx`, a part of [uv](https://docs.astral.sh/uv/).",
    ]
    if contents.variables:
        lines += ["", "Start the editor with these variables:", "", "| variable | for | otherwise |", "|---|---|---|"]
    for variable in contents.variables:
        users = _cell(", ".join(variable.users)) or "the agents"
        default = "" if variable.default is None else f"`{_cell(variable.default)}`"
        lines.append(f"| `{variable.name}` | {users} | {default} |")
    return "\n".join((*lines, ""))


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


def _text(document: JSON) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
