"""`gaia-bridge skills`: the skills of a server or agent."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import is_object
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.servers.common import json_option, print_json
from gaia_bridge_cli.servers.targets import TargetCommand, target_of, target_options


@click.command(cls=TargetCommand, short_help="Show the skills of a server or agent.")
@target_options
@json_option
def skills(target: str, as_json: bool, config: Path | None, **bridge: Any) -> int:
    """Show the skills of a server or agent: where each is, what it is for, and how many files it has.

    TARGET is what `tools` takes. `gaia-bridge read TARGET URI` shows a file of one.
    """
    with imported_for_good():
        from gaia_bridge.protocol.skills import DYNAMIC, files_of
        from gaia_bridge.protocol.vocabulary import definition_problem
        from gaia_bridge_cli.servers.server_probe import probe

    reached = target_of(target, config, **bridge)
    found = reached.reach(partial(probe, options=reached.spec.options)).definitions.get("skill", [])
    if as_json:
        print_json({"skills": found})
        return ExitCode.OK
    for skill in found:
        if (problem := definition_problem("skill", skill)) is not None:
            click.echo(f"{one_line(str(skill.get('uri')))} is left out: {one_line(problem)}", err=True)
            continue
        frontmatter = skill["frontmatter"] if is_object(skill["frontmatter"]) else {}
        number = len(files_of(skill))
        files = "made anew with each read" if skill["resources"] == DYNAMIC else f"{number} file{'s'[: number != 1]}"
        click.echo(f"{click.style(one_line(frontmatter['name']), bold=True)}  {one_line(skill['uri'])} ({files})")
        click.echo(f"  {one_line(frontmatter['description'])}")
    if not found:
        click.echo(f"{reached.name} has no skills", err=True)
    return ExitCode.OK
