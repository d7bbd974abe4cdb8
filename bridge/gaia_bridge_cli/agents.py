"""`gaia-bridge agents`: the agents and features that would be published, and the reasons for those left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from gaia_bridge.text.escaping import one_line
from gaia_bridge.text.json_types import JSON
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.logs import keep_log
from gaia_bridge_cli.options import agents_argument, log_options, set_up_logging

if TYPE_CHECKING:
    from gaia_bridge.bridge import Bridge
    from gaia_bridge.bridge.discovery import LoadedAgent
    from gaia_bridge.model import ServerFeatures, ServerInfo


@click.command(short_help="Show which agents would be published.")
@agents_argument
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@log_options
@click.pass_context
def agents(ctx: click.Context, agents: tuple[str, ...], as_json: bool, log_level: str | None, debug: bool) -> int:
    """Show which agents would be published, and what of them is left out.

    AGENT is the same as for `serve`; without any, the agents that ship with the bridge.
    """
    set_up_logging(ctx, log_level, debug, default="critical")  # the output itself names the problems of agents
    from gaia_bridge.config.process_rules import ONLY_SHOWN
    from gaia_bridge_cli.interrupts import ended_by_interrupt
    from gaia_bridge_cli.output import stdout_to_stderr

    with stdout_to_stderr(), ended_by_interrupt(), ONLY_SHOWN.kept():
        entries = _entries(agents)
    if as_json:
        click.echo(json.dumps({"agents": [entry.to_json() for entry in entries]}, indent=2, ensure_ascii=False))
    else:
        click.echo("\n\n".join("\n".join(entry.lines()) for entry in entries))
    return ExitCode.NO_AGENT if any(entry.error for entry in entries) else ExitCode.OK


class _Entry(Struct, frozen=True):
    """One agent, or one failure to get it."""

    reference: str
    name: str | None = None
    features: ServerFeatures | None = None
    model: str | None = None
    error: str | None = None

    def to_json(self) -> JSON:
        """Return the stable form for programs. Every key is always there, except `error`."""
        features = self.features
        content: JSON = {
            "name": self.name,
            "reference": self.reference,
            "server": _server(features.info) if features else None,
            "model": self.model,
            "tools": _picked(features.tools if features else (), "name"),
            "prompts": _picked(features.prompts if features else (), "name"),
            "resources": _picked(features.resources if features else (), "uri", "name"),
            "resourceTemplates": _picked(features.templates if features else (), "uriTemplate", "name"),
            "leftOut": [
                {"kind": item.kind, "name": item.name, "reason": item.reason}
                for item in (features.left_out if features else ())
            ],
        }
        return content if self.error is None else {**content, "error": self.error}

    def lines(self) -> Iterator[str]:
        """Yield the lines for people."""
        if self.error is not None:
            yield f"{click.style('failed', fg='red')}  {one_line(self.error)}"
        if self.features is None:
            return
        features, info = self.features, self.features.info
        origin = f", from {self.reference}" if self.reference != self.name else ""
        yield f"{click.style(self.name, bold=True)}  {one_line(f'{info.name} {info.version}')}{origin}"
        if self.model is not None:
            yield f"  {'model':<8}  {one_line(self.model)}"
        yield from _described("tool", "name", features.tools)
        yield from _described("prompt", "name", features.prompts)
        yield from _described("resource", "uri", features.resources)
        yield from _described("template", "uriTemplate", features.templates)
        for item in features.left_out:
            reason = one_line(f"{item.kind} {item.name}: {item.reason}")
            yield f"  {click.style('left out', fg='yellow')}  {reason}"


def _entries(references: Sequence[str]) -> list[_Entry]:
    with imported_for_good():
        import anyio

        from gaia_bridge.bridge import Bridge
        from gaia_bridge.bridge.discovery import find_agents

    with keep_log():
        files = find_agents(references)
    all_features = anyio.run(_offers, Bridge(), [agent for entry in files for agent in entry.agents])
    entries: list[_Entry] = []
    for entry in files:
        entries.extend(_Entry(agent.reference, agent.name, *all_features[agent.name]) for agent in entry.agents)
        entries.extend(_Entry(failure.reference, error=str(failure)) for failure in entry.failures)
    return entries


async def _offers(
    bridge: Bridge, loaded: Sequence[LoadedAgent]
) -> dict[str, tuple[ServerFeatures | None, str | None, str | None]]:
    """Return each agent's features and model, or why it cannot be published, by its name."""
    all_features: dict[str, tuple[ServerFeatures | None, str | None, str | None]]
    async with bridge:
        refused = await bridge.add_agents({item.name: item.agent for item in loaded})
        models = {name: model for model, name in bridge.models.items()}
        all_features = {item.name: (item.features, models.get(item.name), None) for item in bridge.sources}
    return all_features | {name: (None, None, str(error)) for name, error in refused.items()}


def _server(info: ServerInfo) -> JSON:
    optional = {"title": info.title, "description": info.description, "instructions": info.instructions}
    present = {key: value for key, value in optional.items() if value is not None}
    return {"name": info.name, "version": info.version, **present}


def _picked(definitions: Iterable[Mapping[str, Any]], *keys: str) -> list[JSON]:
    return [{key: definition[key] for key in (*keys, "description") if key in definition} for definition in definitions]


def _described(label: str, key: str, definitions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for definition in definitions:
        name = one_line(str(definition[key]))
        description = one_line(str(definition.get("description") or ""), 100)
        yield f"  {label:<8}  {name}" + (f"  {description}" if description else "")
