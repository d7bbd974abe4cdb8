"""Builds the documentation site: `python -m tests.docs.site [FOLDER]`, in an environment with the group `docs`.

The pages are those that GitHub shows. They are put side by side as the navigation of `docs/zensical.toml` has them,
with their links as the site needs them, and built; a warning is an error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from string import Template
from typing import Final

from gaia_bridge.text.json_types import is_array, is_object
from tests.docs.pages import DOCS, ROOT, links, pages

__all__ = ["CONFIGURATION", "SiteError", "build", "main", "navigation", "staged"]

CONFIGURATION: Final = DOCS / "zensical.toml"
"""What the site is called, and how one gets about in it."""

_ELSEWHERE: Final = re.compile(r"https?://(?!www\.w3\.org/)[^\"'`\s]*")
_COLOURS: Final = re.compile(r"\x1b\[[\d;]*m")
_SECONDS: Final = 120
_WITHOUT_PROMPT: Final = re.compile(r"```console\n(?!\$ )")
"""Commands that the builder would show as faintly as output."""
_FROM_DISK: Final = Template("""var __index = $index;
window.Worker = class extends Worker {
  constructor() {
    super(URL.createObjectURL(new Blob([$worker])));
  }
};
""")
_HOME: Final = {"README.md": "index.md"}


class SiteError(Exception):
    """The site cannot be built as it is."""


def staged(page: Path) -> PurePosixPath:
    """Where a file of the project lies in the site.

    Args:
        page: The file.
    """
    within = page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix()
    return PurePosixPath(_HOME.get(within, within) if page.parent == ROOT else within)


def navigation() -> list[str]:
    """The pages that the navigation leads to, in its order."""
    return list(_leaves(tomllib.loads(CONFIGURATION.read_text("utf-8"))["project"]["nav"]))


def build(place: Path) -> None:
    """Build the site.

    Args:
        place: Its folder, which is replaced.

    Raises:
        SiteError: The builder is not installed, or warned of something; says what.
    """
    if find_spec("zensical") is None:
        raise SiteError("the builder of the site is not installed: pip install --group docs (with pip 25.1 or later)")
    with tempfile.TemporaryDirectory() as work:
        _stage(Path(work, "pages"))
        shutil.copy(CONFIGURATION, work)
        done = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict", "--clean"],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode != 0 or "Warning" in done.stdout + done.stderr:
            said = _COLOURS.sub("", done.stdout + done.stderr).partition("Traceback")[0]
            raise SiteError(f"the site cannot be built:\n{said}")
        _without_network(Path(work, "site"))
        _indexed(Path(work, "site"))
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(Path(work, "site"), place)


def _without_network(folder: Path) -> None:
    """Take the addresses out of the theme's scripts from which it would fetch what a page may ask for and ours do not:
    drawings, galleries, programs to try out, numbers of stars."""
    for file in folder.rglob("*.js"):
        text = file.read_text("utf-8")
        file.write_text(_ELSEWHERE.sub("data:,", text), "utf-8")


def _indexed(folder: Path) -> None:
    """Order the index of the search, and write the script that the theme loads in pages opened as files.

    Of equal matches, the first in the index is found first: so it has the order of the navigation, in which pages for
    developers come last. The changes have every word of the other pages, in long lists, and would be found in place of
    these. A browser lets a page that is a file neither fetch the index nor start a worker from a file; it may do so
    from its own text.
    """
    index = json.loads(Path(folder, "search.json").read_text("utf-8"))
    places = {re.sub(r"(README)?\.md$", lambda end: "index.html" if end[1] else ".html", page): number
              for number, page in enumerate(navigation()) if page != "CHANGELOG.md"}  # fmt: skip
    items = [item for item in index["items"] if item["location"].partition("#")[0] in places]
    index["items"] = sorted(items, key=lambda item: places[item["location"].partition("#")[0]])
    text = json.dumps(index)
    Path(folder, "search.json").write_text(text, "utf-8")
    (worker,) = folder.glob("assets/javascripts/workers/search.*.js")
    script = _FROM_DISK.substitute(index=text, worker=json.dumps(worker.read_text("utf-8")))
    Path(folder, "search.js").write_text(script, "utf-8")


def _leaves(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for item in part.values() if is_object(part) else part if is_array(part) else ():
        yield from _leaves(item)


def _stage(folder: Path) -> None:
    """Put all pages, and the files that lie beside those in `docs`, into a folder."""
    for file in sorted({*pages(), *(path for path in DOCS.rglob("*") if path.is_file() and path != CONFIGURATION)}):
        if "__pycache__" in file.parts:
            continue
        place = folder / staged(file)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            place.write_text(_WITHOUT_PROMPT.sub("```sh\n", _with_links(file)), "utf-8")
        else:
            shutil.copy(file, place)
    for file in (ROOT / "vscode-config").glob("*.json"):  # which its page leads to
        shutil.copy(file, folder / staged(file))


def _with_links(page: Path) -> str:
    """A page whose links lead to where the site has what they lead to."""
    text, parts, at = page.read_text("utf-8"), list[str](), 0
    for link in sorted(links(text), key=lambda link: link.start):
        if "://" in link.target or link.target.startswith(("#", "mailto:", "vscode:")):
            continue
        path, hash_, anchor = link.target.partition("#")
        parts += [text[at : link.start], _relative(page, path) + hash_ + anchor]
        at = link.start + len(link.target)
    return "".join([*parts, text[at:]])


def _relative(page: Path, target: str) -> str:
    """The link to a file as it is in the site."""
    found = (page.parent / target).resolve()
    if found.is_dir():  # GitHub shows what is in it; here, the page about it does
        found = next(folder / "README.md" for folder in (found, *found.parents) if (folder / "README.md").exists())
    return os.path.relpath(staged(found), staged(page).parent)


def main() -> None:
    """Build it, and say where it is."""
    place = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").absolute()
    try:
        build(place)
    except SiteError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{place / 'index.html'}\n")


if __name__ == "__main__":
    main()
