"""The tools of `CodeAgent`, each a function of a workspace and the tool's arguments."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import quote

from gaia_agents.base import current_request
from gaia_agents.code_tools import FILE_PREFIX
from gaia_agents.files import Text, decode
from gaia_agents.ignore import Rule, parse_rule
from gaia_agents.isolation import start_helper
from gaia_agents.languages import language_of
from gaia_agents.listing import list_files
from gaia_agents.summary import Summary, measure
from gaia_agents.workspace import Workspace, WorkspaceFile
from gaia_bridge.errors import ToolError
from gaia_bridge.text.json_types import JSON

__all__ = ["analyze_code", "create_file", "read_file", "read_text", "search_code"]

MAX_READ_BYTES = 10 * 1024 * 1024
"""The largest file that is read at all."""
MAX_SHOWN_CHARACTERS = 256 * 1024
"""One answer of `read-file`, or one file in a prompt: about what a model can take in."""
SEARCH_SECONDS = 30.0


def search_code(
    workspace: Workspace,
    pattern: str,
    path: str = ".",
    glob: str | None = None,
    file_type: str | None = None,
    literal: bool = False,
    ignore_case: bool = False,
    context_lines: int = 0,
    max_results: int = 100,
) -> JSON:
    """Find lines in text files; arguments and result as `search-code` declares them.

    Raises:
        PathError: There is no such place.
        ToolError: The pattern or the glob is none.
        RequestCancelledError: The request was cancelled.
    """
    request = current_request()
    listing = list_files(workspace, path, wanted=partial(_is_wanted, _selection(glob), file_type), request=request)
    job = {
        "pattern": pattern,
        "literal": literal,
        "ignore_case": ignore_case,
        "context_lines": context_lines,
        "max_results": max_results,
    }
    matches: list[JSON] = []
    totals: JSON = {"searched": 0, "skipped": 0}
    all_files = len(listing.files)
    with start_helper(
        "search", job, listing.paths, folder=workspace.root, seconds=SEARCH_SECONDS, request=request
    ) as helper:
        for event in helper.events():
            if "match" in event:
                matches.append(event["match"])
                continue
            done, before = (counts["searched"] + counts["skipped"] for counts in (event, totals))
            totals = event
            if request is not None and done > before:
                request.report_progress(done, all_files, f"{len(matches)} matches in {done} of {all_files} files")
    limits = {"time": helper.timed_out, "max_results": "more" in totals, "files": not listing.complete}
    reached = next((limit for limit, is_reached in limits.items() if is_reached), None)
    return {
        "matches": matches,
        "match_count": len(matches),
        "files_searched": totals["searched"],
        "files_skipped": totals["skipped"],
        "truncated": reached is not None,
        "truncated_by": reached,
    }


def read_file(workspace: Workspace, path: str, start_line: int = 1, end_line: int | None = None) -> JSON:
    """Read lines of a text file; arguments and result as `read-file` declares them.

    Raises:
        PathError: There is no such file.
        ToolError: It is binary or too large, or has no such lines.
    """
    data, text = read_text(workspace, path)
    lines = re.findall(r"[^\n]*\n|[^\n]+", text.value)
    last = len(lines) if end_line is None else min(end_line, len(lines))
    if start_line > max(len(lines), 1) or (end_line is not None and end_line < start_line):
        raise ToolError(f"{path!r} has no lines {start_line} to {end_line or 'the end'}; it has {len(lines)} lines")
    shown: list[str] = []
    rest = MAX_SHOWN_CHARACTERS
    for line in lines[start_line - 1 : last]:
        if shown and len(line) > rest:
            break
        shown.append(line[:rest])
        rest -= len(line)
    return {
        "path": workspace.locate(path),
        "content": "".join(shown),
        "start_line": start_line,
        "end_line": start_line - 1 + len(shown),
        "total_lines": len(lines),
        "bytes": len(data),
        "language": language_of(path).name,
        "encoding": text.encoding,
        "lossy": text.lossy,
        "truncated": rest < 0 or start_line - 1 + len(shown) < last,
    }


def create_file(workspace: Workspace, path: str, content: str, overwrite: bool = False) -> JSON:
    """Write a file; arguments and result as `create-file` declares them.

    Raises:
        PathError: It may not, or cannot, be written there.
        ToolError: It exists already, or the content is no text.
    """
    try:
        data = content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"character {error.start} of the content is half of a surrogate pair; send whole text"
        ) from None
    place, created = workspace.write(path, data, overwrite=overwrite)
    return {"path": place, "bytes": len(data), "created": created, "uri": FILE_PREFIX + quote(place)}


def analyze_code(workspace: Workspace, path: str) -> JSON:
    """Measure a file or a folder; result as `analyze-code` declares it.

    Raises:
        PathError: There is no such place.
        ToolError: The file is binary, too large, or crashed the parser.
        RequestCancelledError: The request was cancelled.
    """
    request = current_request()
    place = workspace.locate(path)
    listing = list_files(workspace, path, request=request)
    summary = measure(workspace, listing.files, syntax=True, request=request)
    if listing.paths != [place]:
        return {"path": place or ".", "kind": "folder", "folder": _folder_report(summary, listing.complete)}
    if summary.skipped:
        raise ToolError(f"{path!r} cannot be analysed: {summary.skipped[0]['skipped']}")
    if not summary.reports:
        raise ToolError(f"{path!r} could not be analysed in time")
    report = {name: value for name, value in summary.reports[0].items() if name != "path"}
    return {"path": place, "kind": "file", "file": report}


def read_text(workspace: Workspace, path: str) -> tuple[bytes, Text]:
    """Read a text file; its bytes and what they say.

    Raises:
        PathError: There is no such file.
        ToolError: It is too large or binary.
    """
    data = workspace.read(path, MAX_READ_BYTES)
    text = decode(data)
    if text is None:
        raise ToolError(f"{path!r} is binary ({len(data):,} bytes); expected a text file")
    return data, text


def _selection(glob: str | None) -> Rule | None:
    if glob is None:
        return None
    rule = parse_rule(glob)
    if rule is None:
        raise ToolError(f"{glob[:200]!r} is no glob; expected one like '*.py' or 'src/**/*.ts'")
    return rule


def _is_wanted(glob: Rule | None, file_type: str | None, file: WorkspaceFile) -> bool:
    if file_type is not None and not file.path.lower().endswith(f".{file_type.lower()}"):
        return False
    return glob is None or glob.covers(file.path.split("/"))


def _folder_report(summary: Summary, listed_all: bool) -> JSON:
    report: JSON = {
        "files": len(summary.reports),
        "bytes": sum(report["bytes"] for report in summary.reports),
        "lines": {kind: summary.lines(kind) for kind in ("total", "blank", "comment")},
        "todos": summary.todos,
        "languages": summary.languages(),
        "skipped": len(summary.skipped),
        "truncated": not (listed_all and summary.complete),
    }
    python = summary.python()
    return report if python is None else {**report, "python": python}
