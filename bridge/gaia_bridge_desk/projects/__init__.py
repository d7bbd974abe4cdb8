"""New projects and agents for people to begin with. `templates/` holds the files, with `$names` to be filled in."""

from __future__ import annotations

from gaia_bridge_desk.projects.writing import (
    AgentNames,
    agent_files,
    names_of,
    names_of_file,
    project_files,
    write_files,
    write_folder,
)

__all__ = [
    "AgentNames",
    "agent_files",
    "names_of",
    "names_of_file",
    "project_files",
    "write_files",
    "write_folder",
]
