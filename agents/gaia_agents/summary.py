"""Analysing many files: running the measurements and adding them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gaia_agents.isolation import start_helper
from gaia_agents.workspace import Workspace, WorkspaceFile
from gaia_bridge.calls.request_context import RequestContext
from gaia_bridge.text.json_types import JSON

__all__ = ["Summary", "measure"]

_SHOWN = 10
"""Of the most complex functions."""
_SECONDS = 60.0
_FILES_PER_REPORT = 25
"""How often progress is reported: a message for each file would be a flood."""


@dataclass(slots=True)
class Summary:
    """The figures of a set of files."""

    reports: list[JSON] = field(default_factory=list[JSON])
    """One for each text file, as `gaia_agents.analysis.measure_text` makes it."""
    skipped: list[JSON] = field(default_factory=list[JSON])
    """`path` and `skipped` (why) of the others."""
    complete: bool = True
    """Whether every file was looked at."""

    @property
    def todos(self) -> int:
        """Lines with a TODO, FIXME, XXX or HACK comment."""
        return sum(report["todos"] for report in self.reports)

    def lines(self, kind: str) -> int:
        """Count all lines of a kind: `total`, `blank` or `comment`."""
        return sum(report["lines"][kind] or 0 for report in self.reports)

    def languages(self) -> list[JSON]:
        """Return files, lines and bytes of each language, the one with most files first."""
        totals: dict[str, Counter[str]] = {}
        for report in self.reports:
            of_language = totals.setdefault(report["language"], Counter())
            of_language.update(files=1, lines=report["lines"]["total"], bytes=report["bytes"])
        ranked = sorted(totals.items(), key=lambda item: (-item[1]["files"], item[0]))
        return [
            {"language": name, "files": count["files"], "lines": count["lines"], "bytes": count["bytes"]}
            for name, count in ranked
        ]

    def python(self) -> JSON | None:
        """Return the figures of all Python files together; `None` if there are none."""
        files = [(report["path"], report["python"]) for report in self.reports if "python" in report]
        if not files:
            return None
        functions = [{"path": path, **function} for path, facts in files for function in facts["most_complex"]]
        counts: Counter[str] = Counter()
        for _, facts in files:
            counts.update(facts["counts"])
        return {
            "files": len(files),
            "counts": dict(counts),
            "most_complex": sorted(functions, key=_by_complexity)[:_SHOWN],
            "syntax_errors": [{"path": path, **error} for path, facts in files if (error := facts["syntax_error"])],
        }


def measure(
    workspace: Workspace, files: Sequence[WorkspaceFile], *, syntax: bool, request: RequestContext | None
) -> Summary:
    """Measure files in a helper process.

    Args:
        workspace: Where they are.
        files: Which.
        syntax: Whether to parse Python.
        request: The request that asks for it; hears of the progress.

    Raises:
        ToolError: The helper crashed.
        RequestCancelledError: The request was cancelled.
    """
    summary = Summary()
    paths = [file.path for file in files]
    with start_helper(
        "analyse", {"syntax": syntax}, paths, folder=workspace.root, seconds=_SECONDS, request=request
    ) as helper:
        for count, event in enumerate(helper.events(), start=1):
            if "report" in event:
                summary.reports.append(event["report"])
            else:
                summary.skipped.append(event)
            if request is not None and (count % _FILES_PER_REPORT == 0 or count == len(paths)):
                request.report_progress(count, len(paths), f"measured {count} of {len(paths)} files")
    summary.complete = len(summary.reports) + len(summary.skipped) == len(paths)
    return summary


def _by_complexity(function: JSON) -> tuple[int, str, int]:
    return -function["complexity"], function["path"], function["line"]
