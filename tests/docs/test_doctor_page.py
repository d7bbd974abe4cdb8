"""`docs/reference/doctor-codes.md` lists every finding of `docs/doctor.md`'s command.

`python -m tests.docs.test_doctor_page` writes that part of it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.program import program
from gaia_bridge_desk.doctor.checks import NOTHING, Kind
from gaia_bridge_desk.doctor.examining import OF_THE_DOCTOR, SUBJECTS

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"
CODES = PAGE.parent / "reference" / "doctor-codes.md"
BEGIN = "## Python\n\n"


def lines() -> Iterator[str]:
    """The part of the page of codes that is about single findings."""
    subjects = [(subject.title, subject.kinds) for subject in SUBJECTS]
    for title, kinds in [*subjects, ("Of any subject", OF_THE_DOCTOR)]:
        yield f"## {title}"
        yield ""
        yield "| id | level | what is the matter | why it matters | what to do |"
        yield "|---|---|---|---|---|"
        yield from map(row, kinds)
        yield ""


def row(kind: Kind) -> str:
    mended = "; `--fix` does it" if kind.is_repairable else ""
    remedy = "" if kind.remedy == NOTHING else f"{kind.remedy}{mended}"
    cells = (f"`{kind.id}`", kind.level.value, kind.matter, kind.why, remedy)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace("  |", " |")


def written() -> str:
    return "\n".join(lines()).rstrip() + "\n"


def test_the_page_lists_every_finding_with_its_reason_and_remedy() -> None:
    assert "".join(CODES.read_text("utf-8").partition(BEGIN)[1:]) == written()


def test_the_options_and_exit_codes_are_those_of_the_command() -> None:
    text = PAGE.read_text("utf-8")
    command = program.get_command(click.Context(program), "doctor")
    assert command is not None
    options = {name for parameter in command.params for name in parameter.opts if parameter.name != "help"}
    table = text.partition("| option | does |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(--[a-z-]+)", table)) == options
    codes = re.findall(r"^\| (\d+) \|", text.partition("## Exit codes")[2].partition("##")[0], re.MULTILINE)
    assert [int(code) for code in codes] == [ExitCode.OK, ExitCode.WARNINGS, ExitCode.CONFIG]


def test_the_example_shows_findings_as_they_are() -> None:
    kinds = {kind.id: kind for subject in SUBJECTS for kind in subject.kinds}
    example = PAGE.read_text("utf-8").partition("```text\n")[2].partition("```")[0]
    shown = re.findall(r"^  (\w+) .*\[([\w.-]+)\]\n +why: (.+)\n +do: ", example, re.MULTILINE)
    assert len(shown) == 2 == example.count("[")
    assert shown == [(kinds[name].level.value, name, kinds[name].why) for _, name, _ in shown]


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)", PAGE.read_text("utf-8")):
        assert (PAGE.parent / target).exists(), target


if __name__ == "__main__":
    CODES.write_text(CODES.read_text("utf-8").partition(BEGIN)[0] + written(), "utf-8")
