"""`gaia-bridge doctor`: shows problems on this machine, and makes the repairs that are safe."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import click

from gaia_bridge.text.escaping import one_line, printable
from gaia_bridge.text.redaction import redacted
from gaia_bridge.version import __version__
from gaia_bridge_cli.collection import imported_for_good
from gaia_bridge_cli.deadline import ExitDeadline
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.output import NobodyToAskError, can_ask
from gaia_bridge_cli.servers.common import activity, complete_server, config_option, json_option, print_json, print_rows

if TYPE_CHECKING:
    from gaia_bridge.text.json_types import JSON
    from gaia_bridge_desk.doctor.checks import Finding
    from gaia_bridge_desk.doctor.examining import Examined
    from gaia_bridge_desk.doctor.repairing import RepairOutcome

_COLORS: Final = {"ok": "green", "info": "cyan", "warning": "yellow", "error": "red"}
_WIDTH: Final = 8
"""The width of the longest level, and a blank."""

_ROUNDS: Final = 4
"""The most rounds of repairs: a repair may reveal further problems."""

_CELLS: Final = {"yes": "yes", "bridged": "by the bridge", "unknown": "-"}

_LEGEND: Final = {
    "bridged": "by the bridge: it makes up for what the editor lacks",
    "unknown": "-: the editor is not known to use it",
}


@click.command(short_help="Look for what is wrong on this machine, and say what to do.")
@click.option("--fix", is_flag=True, help="Mend what is safe to mend; says what it does before, and asks.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask; what is done is shown all the same.")
@click.option(
    "--server", metavar="NAME", shell_complete=complete_server, help="Of the servers, look at this one alone."
)
@click.option(
    "--offline", "--no-start", "offline", is_flag=True, help="Start no server, and ask nobody on the network."
)
@json_option
@config_option
@click.pass_context
def doctor(
    ctx: click.Context, fix: bool, yes: bool, server: str | None, offline: bool, as_json: bool, config: Path | None
) -> int:
    """Look at all that the bridge needs on this machine: Python, programs, certificates, proxies, files, the
    configuration, sockets, ports, editors, and each server.

    Reports for each problem why it matters and what to do. Servers are started for this, those of a project only if
    they are approved.

    \b
    Exit codes: 0 nothing is wrong, 1 there are warnings, 78 there are errors
    (a part of the setup does not work).
    """
    if yes and not fix:
        raise click.UsageError("--yes belongs to --fix")
    if fix and not yes and (as_json or not can_ask()):
        raise NobodyToAskError("nothing was changed: there is no terminal to ask on; --yes mends without asking")
    deadline = ctx.find_object(ExitDeadline)
    if deadline is not None:  # a thread that hangs must not keep the process
        deadline.start()
    try:
        examined = _examined(config, server, offline)
        repairs = _Repairs([], [])
        if fix:
            examined, repairs = _fixed(examined, config, server, yes=yes, quiet=as_json)
        code = _exit_code(examined)
        if deadline is not None:
            deadline.code = code
        if as_json:
            print_json({**examined.as_json(), **(repairs.as_json() if fix else {})})
        else:
            _show(examined, repairs)
        return code
    finally:
        if deadline is not None:
            deadline.finish()


class _Repairs(NamedTuple):
    """The results of `--fix`."""

    done: list[RepairOutcome]
    failed: list[RepairOutcome]

    def as_json(self) -> JSON:
        """Return the results as JSON for other programs."""
        return {"fixed": [each.as_json() for each in self.done], "failed": [each.as_json() for each in self.failed]}


def _examined(config: Path | None, server: str | None, offline: bool) -> Examined:
    """Run all checks."""
    with imported_for_good():
        from gaia_bridge_desk.doctor.examining import examine

    with activity("looking around") as shown:

        def doing(text: str) -> None:
            shown.doing(f"looking at {text}" if text else "putting it together")

        return anyio.run(partial(examine, config, server, offline=offline, doing=doing))


def _exit_code(examined: Examined) -> ExitCode:
    from gaia_bridge_desk.doctor.checks import Level

    if examined.number(Level.ERROR):
        return ExitCode.CONFIG
    return ExitCode.WARNINGS if examined.number(Level.WARNING) else ExitCode.OK


def _fixed(
    examined: Examined, config: Path | None, server: str | None, *, yes: bool, quiet: bool
) -> tuple[Examined, _Repairs]:
    """Make the repairs, each after its question; then check again, since a repair may reveal further problems."""
    from gaia_bridge_desk.doctor.examining import examine_again
    from gaia_bridge_desk.doctor.repairing import repair_all

    asked = set[tuple[str, str]]()

    def is_wanted(finding: Finding) -> bool:
        assert finding.repair is not None
        if (what := (finding.kind.id, finding.about)) in asked:
            return False
        asked.add(what)
        if not quiet:
            click.echo(f"{_level(finding)}{_text(finding.message)}", err=True)
            click.echo(f"{' ' * _WIDTH}mends it: {_text(finding.repair.text)}", err=True)
        return yes or click.confirm(f"{' ' * _WIDTH}Do it?", default=True, err=True)

    repairs = _Repairs([], [])
    for _ in range(_ROUNDS):
        done, failed = repair_all(examined.findings, is_wanted)
        repairs.done.extend(done)
        repairs.failed.extend(failed)
        if not done:
            break
        examined = anyio.run(examine_again, examined, config, server)
    if not quiet:
        for outcome in repairs.failed:
            click.echo(f"left as it is: {_text(outcome.finding.about)}: {_text(outcome.problem)}", err=True)
        if not asked:
            click.echo("there is nothing that can be mended without you", err=True)
    return examined, repairs


def _show(examined: Examined, repairs: _Repairs) -> None:
    """Show the findings, the worst in colour, with their remedies."""
    for line in _lines(examined, repairs):
        click.echo(line)
    if examined.crossing and examined.clients:
        _show_crossing(examined)
    for line in _to_do(examined):
        click.echo(line)
    click.echo(f"\n{_summary(examined)}")


def _show_crossing(examined: Examined) -> None:
    """Show which features of the servers reach which editors."""
    click.echo(f"\n{click.style('What crosses to which editor', bold=True)}")
    header = ("", *examined.clients.values())
    rows: list[tuple[str, ...]] = [
        (row["feature"], *(_CELLS[row["clients"][name]] for name in examined.clients)) for row in examined.crossing
    ]
    print_rows(header, rows)
    shown = {cell for row in examined.crossing for cell in row["clients"].values()}
    if legend := "; ".join(text for cell, text in _LEGEND.items() if cell in shown):
        click.echo(legend)


def _lines(examined: Examined, repairs: _Repairs) -> Iterator[str]:
    yield f"{click.style('gaia-bridge doctor', bold=True)} {__version__}"
    for title, findings in examined.subjects.items():
        if findings:
            yield ""
            yield click.style(title, bold=True)
            for finding in findings:
                yield from _finding_lines(finding)
    if repairs.done:
        yield ""
        yield click.style("Mended", bold=True)
        for outcome in repairs.done:
            assert outcome.finding.repair is not None
            yield from _wrapped(_style("ok", "mended"), _text(outcome.finding.repair.text))


def _to_do(examined: Examined) -> Iterator[str]:
    """Yield all problems once more, the errors first: people see the end of the output best."""
    from gaia_bridge_desk.doctor.checks import Level

    wrong = [each for level in (Level.ERROR, Level.WARNING) for each in examined.findings if each.level is level]
    if len(wrong) > 1:
        yield ""
        yield click.style("To do", bold=True)
        for finding in wrong:
            is_said = "/" in finding.about and finding.about in finding.remedy
            about = f" ({_text(finding.about)})" if finding.about and not is_said else ""
            yield f"  {_level(finding)}{finding.kind.id}{about}: {_text(finding.remedy)}"


def _finding_lines(finding: Finding) -> Iterator[str]:
    from gaia_bridge_desk.doctor.checks import NOTHING, Level

    is_wrong = finding.level in (Level.WARNING, Level.ERROR)
    id_ = f"  [{finding.kind.id}]" if is_wrong else ""
    yield from _wrapped(_level(finding), f"{_text(finding.message)}{id_}")
    if is_wrong:
        yield from _wrapped(" " * _WIDTH, f"why: {finding.kind.why}")
    if finding.remedy != NOTHING:
        yield f"  {' ' * _WIDTH}do:  {_text(finding.remedy)}"  # not wrapped, so that it can be copied


def _wrapped(before: str, text: str) -> Iterator[str]:
    """Yield a text after a mark, on a terminal in lines that fit."""
    if not sys.stdout.isatty():
        yield f"  {before}{text}"
        return
    width = max(40, shutil.get_terminal_size().columns - 2 - _WIDTH)
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
    yield f"  {before}{lines[0]}"
    yield from (f"  {' ' * _WIDTH}{line}" for line in lines[1:])


def _summary(examined: Examined) -> str:
    from gaia_bridge_desk.doctor.checks import Level

    counts = {level: examined.number(level) for level in (Level.ERROR, Level.WARNING)}
    parts = [f"{number} {level.value}{'s' * (number > 1)}" for level, number in counts.items() if number]
    if not parts:
        return click.style("nothing is wrong", fg="green")
    text = click.style(" and ".join(parts), fg="red" if counts[Level.ERROR] else "yellow")
    mendable = sum(finding.repair is not None for finding in examined.findings)
    return f"{text}; gaia-bridge doctor --fix mends {mendable} of what was found" if mendable else text


def _level(finding: Finding) -> str:
    return _style(finding.level.value, finding.level.value)


def _style(level: str, text: str) -> str:
    return click.style(text.ljust(_WIDTH), fg=_COLORS[level])


def _text(text: str) -> str:
    """Return a text of any origin in a form for one line."""
    return printable(one_line(redacted(text), 2_000), None)
