"""The page for those who change the code names what is there, and its table of layers is the one that is enforced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gaia_bridge.constants import BRIDGE_PACKAGES
from gaia_bridge.protocol.parameters import METHODS
from tests.test_architecture import LAYERS, PURE, ROOT, layer_of

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
BRIDGE = ROOT / "bridge"
CORE = BRIDGE / "gaia_bridge"
AROUND = [name for name in BRIDGE_PACKAGES if name != CORE.name]


def named_paths(page: str) -> Iterator[str]:
    """What a page names as `folder/module`, `folder/`, or `folder/module.Name.name`."""
    for name in re.findall(r"`([a-z_]\w*(?:/\w+)*/?(?:\.\w+)*)`", page):
        if "/" in name and (name not in METHODS or (CORE / f"{name}.py").exists()):
            yield name


def problem_with(name: str) -> str | None:
    """Why a name on the page leads nowhere; `None` if it does not."""
    if (ROOT / name).exists():
        return None
    place, *parts = name.split(".")
    package = next((BRIDGE / other for other in AROUND if (BRIDGE / other / place).is_dir()), CORE)
    root = BRIDGE if place.startswith("gaia_bridge") else package
    folder, module = root / place, root / f"{place}.py"
    if not parts:
        return None if folder.is_dir() or module.is_file() else f"{name}: nothing is there"
    if not module.is_file():
        return f"{name}: there is no {module.relative_to(ROOT)}"
    nodes: list[ast.stmt] = ast.parse(module.read_text("utf-8")).body
    for part in parts:
        found = [node for node in nodes if _name_of(node) == part]
        if not found:
            return f"{name}: there is no {part}"
        nodes = found[0].body if isinstance(found[0], ast.ClassDef) else []
    return None


def _name_of(node: ast.stmt) -> str | None:
    return node.name if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else None


def table_of_layers(page: str) -> dict[str, int]:
    """What the table says of each module and folder of the core."""
    rows = re.findall(r"^\| (\d) [^|]*\| ([^|]*)\|", page, re.MULTILINE)
    found: dict[str, int] = {}
    for layer, cell in rows:
        for name in re.findall(r"`(\w+(?:/\w+)*)/?`", cell):
            found.setdefault(name.replace("/", "."), int(layer))
    return found


def objects_of_the_process() -> Iterator[str]:
    """Yield the classes of which modules of the core make objects as they are loaded; what is pure has no state."""
    for file in CORE.rglob("*.py"):
        if f"{CORE.name}.{file.relative_to(CORE).parts[0]}" in PURE:
            continue
        body = ast.parse(file.read_text("utf-8")).body
        classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        for node in body:
            made = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            kind = classes.get(ast.unparse(made.func)) if isinstance(made, ast.Call) else None
            if kind is not None and any(_name_of(part) == "__init__" for part in kind.body):
                yield f"{file.relative_to(CORE).with_suffix('')}.{kind.name}"


def test_every_object_of_the_process_has_its_reason_on_the_page() -> None:
    section = PAGE.split("## Objects of the process")[1].split("##")[0]
    assert {place for place in objects_of_the_process() if f"`{place}`" not in section} == set()


def test_every_module_and_function_that_the_page_names_is_there() -> None:
    names = sorted(set(named_paths(PAGE)))
    assert len(names) > 40
    assert [problem for name in names if (problem := problem_with(name))] == []


def test_the_table_of_packages_has_every_room() -> None:
    rows = dict(re.findall(r"^\| `(gaia_bridge_\w+)` \| ([^|]*)\|", PAGE, re.MULTILINE))
    assert rows.keys() == set(AROUND)
    rooms = {name: {path.parent.name for path in (BRIDGE / name).glob("*/__init__.py")} for name in AROUND}
    assert {name: set(re.findall(r"`(\w+)/`", cell)) for name, cell in rows.items()} == rooms


def test_the_table_of_layers_is_the_one_that_the_tests_enforce() -> None:
    table = table_of_layers(PAGE.split("## What happens to a call")[0])
    assert {name: layer for name, layer in table.items() if layer_of(f"gaia_bridge.{name}", LAYERS) != layer} == {}


def test_the_table_of_layers_has_every_room() -> None:
    table = table_of_layers(PAGE.split("## What happens to a call")[0])
    rooms = {path.parent.name for path in CORE.glob("*/__init__.py")} | {path.stem for path in CORE.glob("*.py")}
    assert rooms - {"__init__", "__main__"} - {name.split(".")[0] for name in table} == set()


def test_a_page_that_names_what_is_not_there_is_found() -> None:
    assert problem_with("server/nowhere") and problem_with("server/catalog.Catalog.nothing")
    assert problem_with("server/catalog.Catalog.tool") is None
    page = "`server/discover`, `tools/call`, `server/catalog` and `server/nowhere`"
    assert list(named_paths(page)) == ["server/catalog", "server/nowhere"]
    assert table_of_layers("| 3 a | `one/`, `two/three` | x |") == {"one": 3, "two.three": 3}
