"""The source tree as the packaging and layer tests see it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("cli", "loader", "quarantine", "schemas")
NOT_TRACKED = {".git", ".venv", "build", "dist", "__pycache__"}


@cache
def tracked_files() -> tuple[Path, ...]:
    """Return the project's files relative to the root: git's, or all when there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        names = [Path(line) for line in listed.stdout.splitlines()]
    else:
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
    wanted = (name for name in names if not NOT_TRACKED.intersection(name.parts))
    return tuple(sorted(name for name in wanted if (ROOT / name).is_file()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One product module: its dotted name inside shardward, file and syntax tree."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package the module's relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def modules() -> Iterator[Module]:
    """Yield every module of the product."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(("shardward", *(part for part in parts if part != "__init__")))
            yield Module(name=name, path=path, tree=ast.parse(path.read_text(encoding="utf-8")))


def imports(module: Module, *, top_level_only: bool = False) -> set[str]:
    """Return the absolute names that `module` imports, those under TYPE_CHECKING left out."""
    found: set[str] = set()
    for node in _runtime_nodes(module.tree, top_level_only=top_level_only):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            found.update({base, *(f"{base}.{alias.name}" for alias in node.names)})
    return found


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    base = module.package.split(".")
    base = base[: len(base) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _runtime_nodes(tree: ast.AST, *, top_level_only: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield node
        yield from _runtime_nodes(node, top_level_only=top_level_only)
