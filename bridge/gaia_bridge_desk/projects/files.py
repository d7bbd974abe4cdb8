"""The files of a new project or agent, as texts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gaia_bridge.version import __version__
from gaia_bridge_desk.editors.vscode import document, stdio_server, to_text
from gaia_bridge_desk.projects.names import AgentNames

_TEMPLATES: Final = Path(__file__).parent / "templates"

_PROGRAM: Final = "${workspaceFolder}/.venv/bin/gaia-bridge"
"""The bridge that the project has installed: VS Code knows nothing of environments that a terminal has activated."""


def project_files(names: AgentNames) -> dict[str, str]:
    """The files of a project with one agent: path to text.

    Args:
        names: What the agent is called.
    """
    server = document(stdio_server(["."], command=_PROGRAM), names.published)
    return {
        ".gitignore": _filled("gitignore", names),
        ".vscode/mcp.json": to_text(server),
        "README.md": _filled("README.md", names),
        "pyproject.toml": _filled("pyproject.toml", names),
        **agent_files(names, tests="tests/"),
    }


def agent_files(names: AgentNames, *, tests: str = "") -> dict[str, str]:
    """The file of an agent, and that of its test: path to text.

    Args:
        names: What it is called.
        tests: The folder of tests, with a slash at its end.
    """
    return {
        f"{names.module}.py": _filled("agent.py", names),
        f"{tests}test_{names.module}.py": _filled("test_agent.py", names),
    }


def _filled(template: str, names: AgentNames) -> str:
    from string import Template

    text = (_TEMPLATES / f"{template}.template").read_text(encoding="utf-8")
    return Template(text).substitute(
        title=names.title,
        published=names.published,
        distribution=names.distribution,
        module=names.module,
        class_name=names.class_name,
        bridge=__version__,
    )
