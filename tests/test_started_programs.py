"""Every place that starts a program is known, and has a reason why nothing of the current folder is run there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

STARTERS = frozenset({"Popen", "open_process", "run_process", "startfile", "system", "popen", "fork", "forkpty"})
OF_SUBPROCESS = frozenset({"run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"})
PREFIXES = ("create_subprocess_", "posix_spawn", "exec", "spawn")

ANY_STARTER = re.compile("subprocess|" + "|".join((*STARTERS, *PREFIXES)))
"""Text without which nothing is started, so that most files need not be parsed."""

PLACES = {
    "bridge/gaia_bridge_cli/background.py": "our own program goes on as another process",
    "bridge/gaia_bridge_cli/at_login.py": "systemctl by its name, which loads nothing of the current folder",
    "bridge/gaia_bridge/client/transports/children/guardian_client.py": "Python with -I, in /; `ps` by its name",
    "bridge/gaia_bridge/client/transports/children/process.py": "each spec has its folder: see launching/workplaces.py",
    "bridge/gaia_bridge_desk/doctor/checks.py": "in /",
    "bridge/gaia_bridge_daemon/front/launching.py": "Python with -P",
    "bridge/gaia_bridge/sources/upstream/late_listing.py": "Python with -P",
    "agents/gaia_agents/git.py": "git, which is told to run nothing that a repository configures",
    "agents/gaia_agents/isolation.py": "Python with -I and -S",
}
"""Where programs are started, and the reason."""


def starts(tree: ast.AST) -> Iterator[str]:
    """The calls that start a program."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(value=ast.Name(id="subprocess"), attr=name) if name in OF_SUBPROCESS:
                yield name
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in ("os", "asyncio", "anyio"):
                if name in STARTERS or name.startswith(PREFIXES):
                    yield name
            case ast.Attribute(attr="Popen") | ast.Name(id="Popen"):
                yield "Popen"
            case _:
                pass


def test_every_place_that_starts_a_program_has_a_reason_why_it_runs_nothing_of_the_current_folder() -> None:
    found = {
        str(path.relative_to(ROOT))
        for folder in ("bridge", "agents")
        for path in (ROOT / folder).rglob("*.py")
        if ANY_STARTER.search(text := path.read_text("utf-8")) and any(starts(ast.parse(text)))
    }
    assert found == PLACES.keys()


def test_every_spec_of_a_program_that_is_made_in_code_says_where_it_is_started() -> None:
    made = {
        str(path.relative_to(ROOT))
        for folder in ("bridge", "agents")
        for path in (ROOT / folder).rglob("*.py")
        if any(name in (text := path.read_text("utf-8")) for name in ("StdioServerSpec", "parse_entry"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("StdioServerSpec", "parse_entry")
    }
    assert made == {
        "agents/gaia/mcp/client/server_config.py",  # a program's own entry; those of files come with their folder
        "agents/gaia/mcp/client/transports/stdio.py",  # a program's own command
        "bridge/gaia_bridge_doors/acp/session.py",  # the folder of the conversation, which the editor trusts
        "bridge/gaia_bridge/bridge/contents.py",  # a program's own servers
        "bridge/gaia_bridge_cli/serving/inspector.py",  # a folder of its own
        "bridge/gaia_bridge_cli/servers/targets.py",  # a command that was typed after `--`, as in a shell
        "bridge/gaia_bridge/config/entries.py",  # what its callers say
        "bridge/gaia_bridge/config/layers.py",  # a folder of its own, but for a project's file
    }
