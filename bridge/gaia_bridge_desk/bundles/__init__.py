"""Bundles: agents and servers in forms that others install without a configuration of their own.

An Agent Plugin for VS Code and others, an MCPB bundle for Claude Desktop, `server.json` for the MCP registry, and links
that an editor installs a server by. What a bundle starts on another machine is the bridge from PyPI, with the agents'
files and a configuration from inside the bundle: no path of this machine, and no secret, is in any of them.
"""

from __future__ import annotations

from gaia_bridge_desk.bundles.contents import Contents, gathered, of_package
from gaia_bridge_desk.bundles.forms import PluginForm, mcpb_bytes, mcpb_files, plugin_files
from gaia_bridge_desk.bundles.links import EDITORS_WITH_LINKS, install_links
from gaia_bridge_desk.bundles.metadata import Metadata, Project, described, read_project
from gaia_bridge_desk.bundles.placeholders import in_plugin
from gaia_bridge_desk.bundles.server_json import (
    claim_of,
    expect_program,
    project_arguments,
    readme_claims,
    registry_name,
    server_document,
)
from gaia_bridge_desk.bundles.travelling import Variable
from gaia_bridge_desk.bundles.writing import differences, written

__all__ = [
    "EDITORS_WITH_LINKS",
    "Contents",
    "Metadata",
    "PluginForm",
    "Project",
    "Variable",
    "claim_of",
    "described",
    "differences",
    "expect_program",
    "gathered",
    "in_plugin",
    "install_links",
    "mcpb_bytes",
    "mcpb_files",
    "of_package",
    "plugin_files",
    "project_arguments",
    "read_project",
    "readme_claims",
    "registry_name",
    "server_document",
    "written",
]
