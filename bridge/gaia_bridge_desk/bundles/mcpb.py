"""An MCPB bundle: a file that Claude Desktop installs when it is opened, and asks for what the server needs.

Format: https://github.com/modelcontextprotocol/mcpb, manifest 0.4, server type `uv`: Claude Desktop brings Python and
uv, and installs what `pyproject.toml` says. Secrets are kept in the keyring of the system.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Final

from gaia_bridge.errors import ConfigError
from gaia_bridge.text.json_types import JSON
from gaia_bridge_desk.bundles.contents import Contents
from gaia_bridge_desk.bundles.metadata import Metadata
from gaia_bridge_desk.bundles.start import serve_arguments
from gaia_bridge_desk.bundles.travelling import Variable

_PYTHON: Final = ">=3.11"
_MOMENT: Final = (1980, 1, 1, 0, 0, 0)
"""When all files were made: the same files give the same bundle, byte for byte. They are not packed, because what packs
them is another one with each Python."""
_READABLE: Final = 0o100644 << 16
_UNIX: Final = 3
_FOLDER: Final = "server"

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
    """The files of a bundle: path to content.

    Args:
        about: What it says of itself.
        contents: What is in it.

    Raises:
        ConfigError: Something is missing that Claude Desktop asks for.
    """
    if about.author is None:
        raise ConfigError("--author", "the bundle has none, and Claude Desktop shows it", "say who made it")
    files = {f"{_FOLDER}/{name}": content for name, content in contents.files.items()}
    files |= {f"{_FOLDER}/skills/{name}": content for name, content in contents.skills.items()}
    files["server.py"] = _program(contents).encode()
    files["pyproject.toml"] = _project(about, contents).encode()
    files["manifest.json"] = (json.dumps(_manifest(about, contents), indent=2, ensure_ascii=False) + "\n").encode()
    return dict(sorted(files.items()))


def mcpb_bytes(files: Mapping[str, bytes]) -> bytes:
    """The bundle, whose bytes depend on the files alone.

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


def _manifest(about: Metadata, contents: Contents) -> JSON:
    author = {"name": about.author} | ({"email": about.email} if about.email is not None else {})
    config: JSON = {"command": "uv", "args": ["run", "--directory", "${__dirname}", "server.py"]}
    if contents.variables:
        config["env"] = {each.name: f"${{user_config.{each.name}}}" for each in contents.variables}
    told: JSON = {
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
        "user_config": {each.name: _asked(each) for each in contents.variables} or None,
    }
    return {key: value for key, value in told.items() if value is not None}


def _asked(variable: Variable) -> JSON:
    """What Claude Desktop asks for. What has a default that is written in the configuration is no secret."""
    users = ", ".join(variable.users)
    asked: JSON = {
        "type": "string",
        "title": variable.name.replace("_", " ").capitalize(),
        "description": f"{variable.name}, for {users or 'the agents'}",
        "required": variable.default is None,
        "sensitive": not variable.default,
    }
    return asked if variable.default is None else asked | {"default": variable.default}


def _program(contents: Contents) -> str:
    placed = contents.agents if contents.package is not None else [_Placed(each) for each in contents.agents]
    config = None if contents.config is None else _Placed(contents.config)
    words = ", ".join(repr(word) for word in serve_arguments(placed, config))
    return _PROGRAM.format(folder=_FOLDER, arguments=f"[{words}]")


class _Placed(str):
    """A file of the bundle, written as the expression that finds it."""

    def __repr__(self) -> str:
        return f"str(HERE / {str(self)!r})"


def _project(about: Metadata, contents: Contents) -> str:
    needed = "".join(f"  {json.dumps(each, ensure_ascii=False)},\n" for each in contents.requirements)
    return (
        f'[project]\nname = {json.dumps(about.name)}\nversion = "0"\n'
        f'requires-python = "{_PYTHON}"\ndependencies = [\n{needed}]\n\n[tool.uv]\npackage = false\n'
    )
