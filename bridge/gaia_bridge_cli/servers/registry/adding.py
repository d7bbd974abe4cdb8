"""`gaia-bridge add registry:NAME`: an entry of the public registry, chosen, filled in, shown, and kept.

The data of a registry are written by strangers, and lead to a program that is run: nothing is started, and no secret
stored, before the user has seen the entry and agreed. The values that a server asks for are given on the command line,
or typed on a terminal.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import click
from msgspec import Struct
from msgspec.structs import replace

from gaia_bridge.config import LayerKind, ServersConfig
from gaia_bridge.config.expansion import has_reference
from gaia_bridge.config.paths import current_folder, expanded
from gaia_bridge.errors import BridgeError, ConfigError
from gaia_bridge.protocol.names import MAX_SERVER_NAME
from gaia_bridge.settings import RegistryLimits
from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.json_types import JSON
from gaia_bridge.text.likeness import closest, did_you_mean
from gaia_bridge.text.redaction import MASK, redacted
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.output import NobodyToAskError, can_ask
from gaia_bridge_cli.servers.asked_arguments import is_secret as is_secret_name
from gaia_bridge_cli.servers.asked_secrets import IN_CLEAR, USUAL, asked_keeper
from gaia_bridge_cli.servers.common import activity
from gaia_bridge_cli.servers.form_fields import FieldError, FormField
from gaia_bridge_cli.servers.keeping import KeptIn, keep
from gaia_bridge_cli.servers.kept_secrets import KEEPERS, Secret, kept_files
from gaia_bridge_cli.servers.registry.options import PREFIX, RegistryOptions, registry_base
from gaia_bridge_cli.servers.terminal_lines import NoLineError, TerminalLines, say
from gaia_bridge_cli.servers.typed_entries import named_values
from gaia_bridge_desk.review.foreign_entries import doubts
from gaia_bridge_desk.review.launch_lines import is_secret, launch_line_text
from gaia_bridge_desk.server_registry.client import LATEST, NotListedError, RegistryClient
from gaia_bridge_desk.server_registry.documents import NAME, Input, Listed, Remote
from gaia_bridge_desk.server_registry.launching import LaunchPlan, UnsafeError, plan_for
from gaia_bridge_desk.server_registry.slots import Answers, AnswersError, Asked, plain
from gaia_bridge_desk.server_registry.ways import REMOTE, Way, chosen, ways_to


def given_answers(asked: Sequence[Asked], pairs: Iterable[tuple[str, str]], *, strict: bool) -> dict[str, list[str]]:
    """Return the values of a command line, by their names.

    Args:
        asked: The values that are asked for.
        pairs: The names and values that were given.
        strict: Whether an unknown name is refused; if not, it is left out.

    Raises:
        click.UsageError: A name or a value is not valid.
    """
    by_name = {each.name: each for each in asked}
    answers: dict[str, list[str]] = {}
    for name, text in pairs:
        each = by_name.get(name) or by_name.get(name.lstrip("-"))
        if each is None:
            if strict:
                raise click.UsageError(f"--set {printable(name)!r}: {_unknown(name, by_name)}")
            continue
        try:
            answers.setdefault(each.name, []).append(_read(each, text))
        except FieldError as error:
            shown = "" if is_hidden(each, text) else f" {printable(text, 100)!r}:"
            raise click.UsageError(f"{_shown(each.name)}:{shown} {error}") from None
        if len(answers[each.name]) > 1 and not each.repeated:
            raise click.UsageError(f"{_shown(each.name)} was given twice, and takes one value")
    return answers


def complete(asked: Sequence[Asked], given: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the values, with the defaults of those that were not given.

    Raises:
        click.UsageError: Required values are missing; the message names them all.
    """
    missing = [each for each in asked if each.required and not given.get(each.name) and each.default is None]
    if missing:
        lines = "; ".join(_described(each) for each in missing)
        raise click.UsageError(f"nothing was added: it needs values: {lines}; give each with --set NAME=VALUE")
    defaults = {each.name: [each.default] for each in asked if each.default is not None}
    return {**defaults, **{name: values for name, values in given.items() if values}}


async def typed_answers(asked: Sequence[Asked], given: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the values, after asking on the terminal for those that were not given.

    Raises:
        click.Abort: The user typed Ctrl-D.
    """
    lines = TerminalLines()
    answers = dict(given)
    for each in asked:
        if each.name in answers:
            continue
        try:
            answers[each.name] = await _typed(each, lines)
        except NoLineError:
            raise click.Abort from None
    return answers


def is_hidden(asked: Asked, value: str = "") -> bool:
    """Return whether a value must not be shown.

    Args:
        asked: The description of the value.
        value: The value; a reference is no secret.
    """
    if value and has_reference(value):
        return False
    if asked.about.is_secret or is_secret_name(asked.name, {"type": "string"}):
        return True
    return redacted(value) != value


async def _typed(asked: Asked, lines: TerminalLines) -> list[str]:
    field = _field(asked)
    say(*field.lines)
    values: list[str] = []
    while True:
        prompt = field.prompt if not values else f"{_shown(asked.name)}, one more (optional): "
        text = await lines.line(prompt, hidden=is_hidden(asked))
        if not text.strip():
            if values or asked.default is not None or not asked.required:
                return values
            say("error: it is required")
            continue
        try:
            values.append(_read(asked, text))
        except FieldError as error:
            say(f"error: {'it is not what is expected' if is_hidden(asked) else error}")
            continue
        if not asked.repeated:
            return values


def _field(asked: Asked) -> FormField:
    about = asked.about
    schema = _schema(about)
    parts = [about.description, f"such as {about.placeholder}" if about.placeholder else ""]
    schema["description"] = "; ".join(filter(None, parts))
    if asked.default is not None:
        schema["default"] = _decoded(asked.default) if schema["type"] in ("number", "boolean") else asked.default
    return FormField(asked.name, schema, required=asked.required)


def _schema(about: Input) -> dict[str, Any]:
    if about.choices:
        return {"type": "string", "enum": [plain(choice) for choice in about.choices]}
    return {"type": about.format if about.format in ("number", "boolean") else "string"}


def _read(asked: Asked, text: str) -> str:
    """Return a value in the form in which it is passed on.

    Raises:
        FieldError: The text is no value.
    """
    if "\0" in text:
        raise FieldError("no value has a zero byte in it")
    if has_reference(text):
        return text
    if not text and asked.required:
        raise FieldError("it is required, and empty")
    about = asked.about
    value: Any = FormField(asked.name, _schema(about), required=asked.required).read(text)
    if about.choices:
        return str(value)
    if about.format == "filepath":
        return os.path.abspath(os.path.join(current_folder(), os.path.expanduser(text.strip())))
    return plain(value) if isinstance(value, bool) else text if isinstance(value, str) else text.strip()


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # the field then has no default


def _described(asked: Asked) -> str:
    about = asked.about
    choices = ", ".join(one_line(plain(choice), 40) for choice in about.choices[:20])
    parts = [one_line(about.description, 100), f"one of {choices}" if choices else ""]
    description = "; ".join(filter(None, parts))
    return f"{_shown(asked.name)}{f' ({description})' if description else ''}"


def _unknown(name: str, asked: Iterable[str]) -> str:
    names = [_shown(each) for each in asked]
    if not names:
        return "it asks for nothing"
    return did_you_mean(name, names) or f"it asks for {', '.join(names[:20])}"


def _shown(name: str) -> str:
    return one_line(name, 100)


_SUGGESTED: Final = 5
_PASSED: Final = 10
"""The most ways not taken for which the reason is shown; a server has two or three."""
_GENERIC: Final = frozenset({"mcp", "mcp-server", "mcp_server", "server"})
"""Last words of names that are too general."""


class Beside(Struct, frozen=True):
    """Options that were typed beside the name.

    Args:
        env: The environment variables.
        headers: The headers.
        further: Further keys of the entry.
        secrets: The place of secrets, if it was named.
    """

    env: Mapping[str, str]
    headers: Mapping[str, str]
    further: Mapping[str, Any]
    secrets: str | None = None


def add_from_registry(
    reference: str, called: str | None, options: RegistryOptions, beside: Beside, place: KeptIn, as_json: bool
) -> int:
    """Add a server of the registry.

    Args:
        reference: Its name there, with or without `@VERSION`.
        called: Its name here, if one was given.
        options: The options for the registry.
        beside: The other options for the entry.
        place: The place where the entry is kept, and how.
        as_json: Whether the output is for programs.

    Raises:
        RegistryError: The registry does not answer as one.
        ConfigError: The server cannot be used here, or must not be.
        click.UsageError: A value is missing, or is not valid.
    """
    pairs = list(named_values("--set", options.values, "="))
    name, _, version = reference.partition("@")
    client = RegistryClient(registry_base(options.registry), RegistryLimits())
    with activity(f"asking {client.base}"):
        listed = anyio.run(_looked_up, client, name, version)
    _refuse_deleted(listed, client.base)
    _introduce(listed)
    plan = plan_for(_way(listed, options.package, beside))
    if len(plan.asked) > RegistryLimits().values:
        raise ConfigError(_title(listed), f"it asks for {len(plan.asked)} values, which no server needs")
    servers = ServersConfig(place.config, strict=True)
    entry_name = _entry_name(listed.server.name, called or options.name, servers, place)
    plan, answers, further = _answers(plan, pairs, beside, asks=not options.yes)
    draft = _entry(listed, plan, answers, further, {})
    _show(entry_name, {**draft, **beside.further}, plan, servers, place)
    if not options.yes and not _agreed(plan.way, place):
        click.echo("nothing was added", err=True)
        return ExitCode.CONFIG
    keeper = _keeper(beside.secrets, options.yes, _secrets(plan, answers, further))
    before = kept_files()
    references = {} if keeper == IN_CLEAR else _stored(entry_name, keeper, _secrets(plan, answers, further))
    entry = _entry(listed, plan, answers, further, references, shown=False)
    try:
        return keep(entry_name, {**entry, **beside.further}, place, as_json)
    except BridgeError:
        _forget(references.values(), before)
        raise


async def _looked_up(client: RegistryClient, name: str, version: str) -> Listed:
    """Return a server as the registry lists it.

    Raises:
        ConfigError: The registry has no such server; the message names similar ones.
    """
    if NAME.fullmatch(name):
        try:
            return await client.server(name, version or LATEST)
        except NotListedError:
            if version and (versions := await client.versions(name)):
                problem = f"there is no version {one_line(version, 60)!r} of it"
                raise ConfigError(f"{PREFIX}{name}", problem, f"there is {', '.join(versions)}") from None
    word = one_line(name.rpartition("/")[2], 100)
    similar = (await client.search(word, 100))[0] if word else []
    names = [listed.server.name for listed in similar if NAME.fullmatch(listed.server.name)]
    raise ConfigError(
        f"{PREFIX}{one_line(name, 200)}", f"{client.base} lists no server of that name", _hint(name, names)
    )


def _hint(name: str, names: Sequence[str]) -> str:
    if not names:
        return "gaia-bridge search WORD finds names"
    last = {each.rpartition("/")[2].lower(): each for each in reversed(names)}
    best = closest(name, names) or last.get(closest(name.rpartition("/")[2], last) or "")
    same = [each for each in names if each.rpartition("/")[2].lower() == name.rpartition("/")[2].lower()]
    suggested = list(dict.fromkeys(filter(None, [best, *same, *names])))[:_SUGGESTED]
    return f"did you mean {' or '.join(f'{PREFIX}{each}' for each in suggested)}?"


def _title(listed: Listed) -> str:
    return one_line(f"{PREFIX}{listed.server.name}@{listed.server.version}", 300)


def _refuse_deleted(listed: Listed, base: str) -> None:
    if listed.official.status == "deleted":
        why = one_line(listed.official.status_message, 300)
        raise ConfigError(_title(listed), f"it was deleted from {base}" + (f": {why}" if why else ""))


def _introduce(listed: Listed) -> None:
    server, official = listed.server, listed.official
    say(f"{one_line(f'{server.name} {server.version}', 300)}: {one_line(server.description, 300)}")
    if official.status != "active":
        why = one_line(official.status_message, 300)
        say(f"warning: it is {one_line(official.status, 20)}{f': {why}' if why else ''}")
    if source := server.repository.url or server.website_url:
        say(f"source: {one_line(source, 300)}")


def _way(listed: Listed, kind: str | None, beside: Beside) -> Way:
    """Choose the way to the server, and show the reason.

    Raises:
        ConfigError: There is no way.
        click.UsageError: An option does not go with the way.
    """
    ways = ways_to(listed.server, lambda program: shutil.which(program) is not None)
    way = chosen(ways, kind)
    passed = [other for other in ways if other.problem and kind in (None, other.kind)]
    problems = "; ".join(f"{one_line(other.title, 200)}: {one_line(other.problem, 300)}" for other in passed[:_PASSED])
    if way is None:
        kinds = ", ".join(one_line(each, 20) for each in listed.server.kinds) or "nothing to run"
        problem = f"there is no {kind} of it" if kind and not passed else "it cannot be used here"
        raise ConfigError(_title(listed), problem, problems or f"there is {kinds}")
    before = [other for other in passed if ways.index(other) < ways.index(way)]
    say(*(f"not taken: {one_line(each.title, 200)}: {one_line(each.problem, 300)}" for each in before[:_PASSED]))
    say(f"taken: {one_line(way.title, 300)}")
    others = list(dict.fromkeys(each.kind for each in ways if not each.problem and each.kind != way.kind))
    if others and kind is None:
        say(f"there is {' and '.join(others)} too: --package")
    if way.kind == REMOTE and (beside.env or {"cwd", "inherit_env"} & beside.further.keys()):
        raise click.UsageError("--env, --cwd and --inherit-env are for a package, and this is a server on the network")
    if way.kind != REMOTE and beside.headers:
        raise click.UsageError("--header is for a server on the network, and this is a package; --package remote?")
    return way


def _entry_name(name: str, wanted: str | None, servers: ServersConfig, place: KeptIn) -> str:
    """Return the server's name here.

    Raises:
        ConfigError: The wanted name is taken.
    """
    if wanted is not None:
        if not place.force and (owner := servers.owner(wanted)) is not None:
            raise ConfigError(str(owner.path), f"there is a server {wanted!r} already", "--force replaces it")
        return wanted
    namespace, _, last = name.partition("/")
    base = namespace.rpartition(".")[2] if last.lower() in _GENERIC else last
    base = base.lstrip("-.").rstrip(".")[: MAX_SERVER_NAME - 4] or "server"
    if place.force or base not in servers.entries:
        return base
    taken = servers.entries
    free = next(f"{base}-{number}" for number in range(2, len(taken) + 3) if f"{base}-{number}" not in taken)
    say(f"note: there is a server {base!r} already, so this one is called {free!r}; --name NAME, or --force")
    return free


def _answers(
    plan: LaunchPlan, pairs: Sequence[tuple[str, str]], beside: Beside, *, asks: bool
) -> tuple[LaunchPlan, Answers, dict[str, str]]:
    """Return the values that are asked for, and the variables or headers that were given beside.

    Returns:
        The plan without those given beside, the values, and those given beside.
    """
    typed = dict(beside.env or beside.headers)
    asked_names = {each.name for each in plan.asked}
    further = {name: value for name, value in typed.items() if name not in asked_names}
    replaced = {name.lower() for name in further}
    plan = replace(plan, named=tuple((name, slot) for name, slot in plan.named if name.lower() not in replaced))
    given = given_answers(plan.asked, pairs, strict=True)
    also = [(name, value) for name, value in typed.items() if name in asked_names and name not in given]
    given |= given_answers(plan.asked, also, strict=False)
    if asks and can_ask():
        given = anyio.run(typed_answers, plan.asked, given)
    return plan, complete(plan.asked, given), further


def _entry(
    listed: Listed,
    plan: LaunchPlan,
    answers: Answers,
    further: Mapping[str, str],
    references: Mapping[tuple[str, str], str],
    *,
    shown: bool = True,
) -> JSON:
    """Return the entry; one that is shown has no secrets in it.

    Raises:
        ConfigError: The entry must not be used.
        click.UsageError: The values contradict each other.
    """

    def kept(asked: Asked, value: str) -> str:
        if shown and is_hidden(asked, value):
            return MASK
        return references.get((asked.name, value), value)

    beside = {name: kept(_beside(name, value), value) for name, value in further.items()}
    try:
        return plan.entry(answers, kept, beside)
    except AnswersError as error:
        raise click.UsageError(f"nothing was added: {error}") from None
    except UnsafeError as error:
        raise ConfigError(_title(listed), printable(str(error), 600)) from None


def _beside(name: str, value: str) -> Asked:
    return Asked(name, Input(is_secret=is_secret(name, value)), required=True)


def _secrets(plan: LaunchPlan, answers: Answers, further: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the values that are secrets, with their names."""
    asked = [(each, value) for each in plan.asked for value in answers.get(each.name, ())]
    asked += [(_beside(name, value), value) for name, value in further.items()]
    return list(dict.fromkeys((each.name, value) for each, value in asked if value and is_hidden(each, value)))


def _keeper(wanted: str | None, yes: bool, secrets: list[tuple[str, str]]) -> str:
    """Return the place of secrets; with `yes`, files of their own unless another place was named."""
    if not secrets or wanted is not None or yes:
        return wanted or USUAL
    shown = ", ".join(one_line(name, 100) for name, _ in secrets)
    click.echo(f"these are secrets: {shown}", err=True)
    return asked_keeper()


def _stored(server: str, keeper: str, secrets: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Store secrets, and return the references to them."""
    references: dict[tuple[str, str], str] = {}
    labels: set[str] = set()
    for number, (name, value) in enumerate(secrets, 1):
        label = f"{name}-{number}" if name in labels else name
        labels.add(name)
        references[name, value] = KEEPERS[keeper](server, Secret((), label, value))
    return references


def _forget(references: Iterable[str], before: Container[Path]) -> None:
    """Remove the files of these secrets, except those that existed before."""
    for reference in references:
        path = expanded(Path(reference.removeprefix("${file:").removesuffix("}")))
        if reference.startswith("${file:") and path not in before:
            path.unlink(missing_ok=True)


def _show(name: str, entry: JSON, plan: LaunchPlan, servers: ServersConfig, place: KeptIn) -> None:
    """Show the entry that will be written, and its file."""
    to = None if place.local is None or place.config else (LayerKind.LOCAL if place.local else LayerKind.GLOBAL)
    first, *lines = launch_line_text(entry).splitlines()
    say("", f"{printable(name, None)}: {first}", *(f"  {line}" for line in lines))
    for warning in (*doubts(entry), *plan.warnings(entry)):
        say(f"warning: {printable(warning, None)}")
    say(printable(f"it goes into {servers.target(name, to).path}", None))


def _agreed(way: Way, place: KeptIn) -> bool:
    """Ask the user for consent.

    Raises:
        click.UsageError: There is no terminal to ask on.
    """
    if not can_ask():
        raise NobodyToAskError("nothing was added: there is no terminal to ask on; --yes adds what is shown")
    doing = "Connect to it" if isinstance(way.what, Remote) else "Run it"
    question = "Add it? [y/N]: " if place.untried else f"{doing}, and add it? [y/N]: "
    try:
        answer = anyio.run(TerminalLines().line, question)
    except NoLineError:
        return False
    return answer.strip().lower() in ("y", "yes")
