"""The folder of a plugin, where an editor has not filled it in."""

from __future__ import annotations

from pathlib import Path

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_desk.bundles import in_plugin


@pytest.mark.parametrize(
    ("mark", "variable", "manifest"),
    [
        ("${PLUGIN_ROOT}", "PLUGIN_ROOT", "plugin.json"),
        ("${CLAUDE_PLUGIN_ROOT}", "CLAUDE_PLUGIN_ROOT", ".claude-plugin/plugin.json"),
    ],
)
def test_it_is_the_one_of_the_environment_or_else_the_current_one(
    tmp_path: Path, mark: str, variable: str, manifest: str
) -> None:
    path = f"{mark}/server/agent.py:Agent"
    assert in_plugin(path, {variable: "/plugins/x"}, tmp_path) == "/plugins/x/server/agent.py:Agent"
    for environ in ({}, {variable: mark}):
        with pytest.raises(ConfigError, match="--form claude"):
            in_plugin(path, environ, tmp_path)
    (tmp_path / manifest).parent.mkdir(exist_ok=True)
    (tmp_path / manifest).write_text("{}", "utf-8")
    assert in_plugin(path, {}, tmp_path) == f"{tmp_path}/server/agent.py:Agent"


def test_every_other_path_stays_as_it_is(tmp_path: Path) -> None:
    for path in ("agent.py", "/x/${PLUGIN_ROOT}/agent.py", "pkg.module:Agent"):
        assert in_plugin(path, {}, tmp_path) == path
