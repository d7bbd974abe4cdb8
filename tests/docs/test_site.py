"""The documentation site is built without a warning, and needs no network where it is read."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

from tests.docs import site
from tests.docs.pages import ROOT, pages

pytestmark = pytest.mark.thorough  # it takes long to build, which .ci/run also does by itself

LOADED: Final = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src",
    "object": "data", "use": "href",
}  # fmt: skip
"""What a browser fetches unasked, by its element; links are followed by people."""


class Loads(HTMLParser):
    """What a page has a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "link" and told.get("rel") not in ("canonical", "next", "prev", "alternate"):
            self.found.append(told.get("href", ""))
        self.found += [told[LOADED[tag]]] if LOADED.get(tag, "") in told else []
        self.found += re.findall(r"url\((.*?)\)", told.get("style", ""))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    site.build(place)
    return place


def texts(built: Path, ending: str) -> Iterator[tuple[Path, str]]:
    files = sorted(built.rglob(f"*.{ending}"))
    assert files
    yield from ((file, file.read_text("utf-8")) for file in files)


def test_it_has_a_page_for_each_of_ours(built: Path) -> None:
    for page in pages():
        place = site.staged(page)
        assert (built / place.with_name("index.html" if place.name == "README.md" else f"{place.stem}.html")).exists()
    assert 'src="pictures/' in (built / "editors.html").read_text("utf-8").replace('src="./', 'src="')


def test_commands_are_not_shown_as_if_they_were_output(built: Path) -> None:
    shown = (built / "five-minutes.html").read_text("utf-8")
    assert "gaia-bridge" in shown and '<span class="go">' not in shown


def test_a_browser_fetches_nothing_from_elsewhere(built: Path) -> None:
    for file, text in texts(built, "html"):
        loads = Loads(text)
        assert loads.found
        for target in loads.found:
            path = target.strip("'\"").partition("#")[0].partition("?")[0]
            assert not re.match(r"//|[a-z]+:(?!image/)", path), f"{file.name} loads {target}"
            assert not path or file.name == "404.html" or (file.parent / path).exists(), f"{file.name} loads {target}"
    for file, text in texts(built, "css"):
        assert not re.search(r"@import|url\(\s*[\"']?(?:https?:)?//", text), file.name


def test_no_script_knows_an_address_elsewhere(built: Path) -> None:
    for file, text in texts(built, "js"):
        if file == built / "search.js":  # what the pages say, and a worker that is among the others
            continue
        assert re.findall(r"(?:https?|wss?)://(?!www\.w3\.org/)[^\s\"'`]+", text) == [], file.name


def test_pages_opened_as_files_are_searched_with_what_their_script_has(built: Path) -> None:
    script = (
        "globalThis.window = globalThis; globalThis.Worker = class { constructor(from) { this.from = from; } };"
        "URL.createObjectURL = (blob) => blob;"
        f"(0, eval)(require('fs').readFileSync({json.dumps(str(built / 'search.js'))}, 'utf8'));"
        "new Worker('a file').from.text().then((worker) => console.log(JSON.stringify({index: __index, worker})));"
    )
    ran = subprocess.run(["node", "-e", script], capture_output=True, text=True, timeout=60, check=True)
    (worker,) = built.glob("assets/javascripts/workers/search.*.js")
    assert json.loads(ran.stdout) == {
        "index": json.loads((built / "search.json").read_text("utf-8")),
        "worker": worker.read_text("utf-8"),
    }


def test_the_search_finds_each_page_but_the_changes(built: Path) -> None:
    items = json.loads((built / "search.json").read_text("utf-8"))["items"]
    found = {item["location"].partition("#")[0] for item in items}
    assert found == {path.relative_to(built).as_posix() for path in built.rglob("*.html")} - {
        "404.html",
        "CHANGELOG.html",
    }


SEARCH: Final = """
globalThis.self = globalThis;
const [worker, index, ...words] = process.argv.slice(1);
const read = (file) => require("fs").readFileSync(file, "utf8");
let answered;
globalThis.postMessage = (message) => answered(message);
(0, eval)(read(worker));
const ask = (data) => new Promise((resolve) => { answered = resolve; globalThis.onmessage({data}); });
(async () => {
  const data = JSON.parse(read(index));
  await ask({type: 0, data});
  for (const input of words) {
    const found = await ask({type: 2, data: {input, page: {size: 20}}});
    console.log(JSON.stringify(found.data.items.map((item) => data.items[item.id].location)));
  }
})();
"""
"""Asks the theme's own search, as a page does."""


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("elicit", "asking.html"),
        ("sampling", "asking.html"),
        ("prompt", "guide.html"),
        ("era", "concepts.html"),
        ("transport", "concepts.html"),
        ("agents that use agents", "agents-that-use-agents.html"),
    ],
)
def test_the_search_finds_pages_for_users_before_those_for_developers(word: str, page: str, built: Path) -> None:
    (worker,) = built.glob("assets/javascripts/workers/search.*.js")
    command = ["node", "-e", SEARCH, str(worker), str(built / "search.json"), word]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = [location.partition("#")[0] for location in json.loads(ran.stdout)]
    developers = [found.index(other) for other in ("architecture.html", "tests/index.html") if other in found]
    assert found.index(page) < min(developers, default=len(found))


@pytest.mark.parametrize(
    ("written", "said"),
    [("[a](nowhere.md)", "page does not exist"), ("[a](trust.md#nowhere)", "anchor does not exist")],
)
def test_a_dead_link_keeps_it_from_being_built(
    written: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs" / "chat.md"
    read = Path.read_text

    def changed(path: Path, *options: str) -> str:
        return read(path, *options) + (f"\n{written}\n" if path == page else "")

    monkeypatch.setattr(Path, "read_text", changed)
    with pytest.raises(site.SiteError, match=said):
        site.build(tmp_path / "site")
