"""The forms of bundles that hold files: Agent Plugins, and MCPB bundles.

A plugin is a folder that VS Code, Copilot CLI, Cursor and others install, with servers and skills. Format:
https://agent-plugins.org/specification (1.0.0), and for Claude Code https://code.claude.com/docs/en/plugins-reference.
Neither asks for values: the variables of a server come from the environment of the user who starts the editor.

An MCPB bundle is a file that Claude Desktop installs when it is opened, and asks for the values of the server. Format:
https://github.com/modelcontextprotocol/mcpb, manifest 0.4, server type `uv`: Claude Desktop brings Python and uv, and
installs the requirements of `pyproject.toml`. Secrets are kept in the keyring of the system.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from enum import Enum
from typing import Final

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.bundles.contents import Contents
from gaia_bridge_desk.bundles.metadata import Metadata
from gaia_bridge_desk.bundles.start import serve_arguments, uvx_arguments
from gaia_bridge_desk.bundles.travelling import Variable

_SCHEMAS: Final = "https://agent-plugins.org/schemas/1.0.0"
_FOLDER: Final = "server"
"""The folder of agents and configuration. `agents` is taken: Claude Code keeps descriptions of its own agents there."""

_OPEN_ROOT: Final = "${PLUGIN_ROOT}"
_CLAUDE_ROOT: Final = "${CLAUDE_PLUGIN_ROOT}"


class PluginForm(Enum):
    """The format of a plugin."""

    AGENT_PLUGIN = "agent-plugin"
    CLAUDE = "claude"


def plugin_files(about: Metadata, contents: Contents, form: PluginForm) -> dict[str, bytes]:
    """Return the files of a plugin: path to content.

    Args:
        about: The plugin's metadata.
        contents: The plugin's contents.
        form: The plugin's format.
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
    """Return the arguments of `uvx`. A package brings its requirements, and a program of its own name."""
    if contents.package is not None:
        return [contents.package, *serve_arguments(contents.agents, None)]
    config = f"{root}/{contents.config}" if contents.config is not None else None
    arguments = serve_arguments([f"{root}/{agent}" for agent in contents.agents], config)
    return uvx_arguments(contents.requirements, arguments)


def _manifest(about: Metadata) -> JSON:
    author = {key: value for key, value in (("name", about.author), ("email", about.email)) if value is not None}
    manifest: JSON = {
        "name": about.name,
        "version": about.version,
        "description": about.description,
        "author": author or None,
        "homepage": about.homepage,
        "repository": about.repository,
        "license": about.license,
        "keywords": list(about.keywords) or None,
    }
    return {key: value for key, value in manifest.items() if value is not None}


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


_PYTHON: Final = ">=3.11"
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip archive
"""The date of all files, so that the same files give the same bundle, byte for byte. They are not compressed, because
the compression differs between versions of Python."""
_READABLE: Final = 0o100644 << 16
_UNIX: Final = 3
_BUNDLE_FOLDER: Final = "server"

_PROGRAM: Final = '''\
"""Starts the MCP server of this bundle: uv run server.py"""

import sys
from pathlib import Path

from gaia_bridge.cli import main

HERE = Path(__file__).resolve().parent / "{folder}"

if __name__ == "__main__":
    sys.exit(main({arguments}))
'''


def mcpb_files(about: Metadata, contents: Contents) -> dict[str, bytes]:
    """Return the files of an MCPB bundle: path to content.

    Args:
        about: The bundle's metadata.
        contents: The bundle's contents.

    Raises:
        ConfigError: A value that Claude Desktop requires is missing.
    """
    if about.author is None:
        raise ConfigError("--author", "the bundle has none, and Claude Desktop shows it", "say who made it")
    files = {f"{_BUNDLE_FOLDER}/{name}": content for name, content in contents.files.items()}
    files |= {f"{_BUNDLE_FOLDER}/skills/{name}": content for name, content in contents.skills.items()}
    files["server.py"] = _program(contents).encode()
    files["pyproject.toml"] = _project(about, contents).encode()
    files["manifest.json"] = _text(_bundle_manifest(about, contents))
    return dict(sorted(files.items()))


def mcpb_bytes(files: Mapping[str, bytes]) -> bytes:
    """Return the bytes of the bundle, which depend on the files alone.

    Args:
        files: Path to content.
    """
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(name, _MOMENT)
            info.external_attr, info.create_system = _READABLE, _UNIX
            archive.writestr(info, content)
    return target.getvalue()


def _bundle_manifest(about: Metadata, contents: Contents) -> JSON:
    author = {"name": about.author} | ({"email": about.email} if about.email is not None else {})
    config: JSON = {"command": "uv", "args": ["run", "--directory", "${__dirname}", "server.py"]}
    if contents.variables:
        config["env"] = {each.name: f"${{user_config.{each.name}}}" for each in contents.variables}
    manifest: JSON = {
        "manifest_version": "0.4",
        "name": about.name,
        "display_name": about.name.replace("-", " ").replace(".", " ").capitalize(),
        "version": about.version,
        "description": about.description,
        "author": author,
        "repository": {"type": "git", "url": about.repository} if about.repository is not None else None,
        "homepage": about.homepage,
        "license": about.license,
        "keywords": list(about.keywords) or None,
        "server": {"type": "uv", "entry_point": "server.py", "mcp_config": config},
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": _PYTHON}},
        "user_config": {each.name: _setting(each) for each in contents.variables} or None,
    }
    return {key: value for key, value in manifest.items() if value is not None}


def _setting(variable: Variable) -> JSON:
    """Return the setting that Claude Desktop asks for. A value whose default is in the configuration is no secret."""
    users = ", ".join(variable.users)
    setting: JSON = {
        "type": "string",
        "title": variable.name.replace("_", " ").capitalize(),
        "description": f"{variable.name}, for {users or 'the agents'}",
        "required": variable.default is None,
        "sensitive": not variable.default,
    }
    return setting if variable.default is None else setting | {"default": variable.default}


def _program(contents: Contents) -> str:
    placed = contents.agents if contents.package is not None else [_BundledPath(each) for each in contents.agents]
    config = None if contents.config is None else _BundledPath(contents.config)
    words = ", ".join(repr(word) for word in serve_arguments(placed, config))
    return _PROGRAM.format(folder=_BUNDLE_FOLDER, arguments=f"[{words}]")


class _BundledPath(str):
    """A file of the bundle, written as the expression that evaluates to its path."""

    def __repr__(self) -> str:
        return f"str(HERE / {str(self)!r})"


def _project(about: Metadata, contents: Contents) -> str:
    needed = "".join(f"  {json.dumps(each, ensure_ascii=False)},\n" for each in contents.requirements)
    return (
        f'[project]\nname = {json.dumps(about.name)}\nversion = "0"\n'
        f'requires-python = "{_PYTHON}"\ndependencies = [\n{needed}]\n\n[tool.uv]\npackage = false\n'
    )
