"""The direction of imports, the purity of the cores and the weight of an import."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from helpers_tree import ROOT, Module, imports, modules

MODULES = {module.name: module for module in modules()}
BELOW = {
    "shardward.schemas": set(),
    "shardward.loader": {"shardward.schemas"},
    "shardward.quarantine": {"shardward.schemas", "shardward.loader"},
    "shardward.cli": {"shardward.schemas", "shardward.loader", "shardward.quarantine"},
}
PURE = [
    *(f"shardward.loader.{name}" for name in ("permutation", "plan", "geometry", "order")),
    *(f"shardward.loader.{name}" for name in ("exclusion", "revision", "cursor", "topology")),
    "shardward.loader.batch",
    *(f"shardward.quarantine.diagnose.{name}" for name in ("monitor", "confirm", "attribution")),
]
IO_LIBRARIES = {
    "pyarrow", "duckdb", "fsspec", "torch", "os", "io", "pathlib", "tempfile", "shutil", "socket",
    "subprocess", "mmap", "requests", "urllib", "sqlite3", "random", "time", "click", "rich",
}  # fmt: skip
HOMES = {
    "duckdb": ("shardward.quarantine.ledger",),
    "numba": ("shardward.quarantine.search",),
    "torch": ("shardward.quarantine.drill", "shardward.loader.torch"),
    "click": ("shardward.cli",),
    "rich": ("shardward.cli",),
}


def room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def top_names(module: Module) -> set[str]:
    return {name.split(".")[0] for name in imports(module)}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_go_from_cli_to_quarantine_to_loader_to_schemas(name: str) -> None:
    used = {room(found) for found in imports(MODULES[name]) if found.startswith("shardward.")}

    assert used - {room(name)} <= BELOW[room(name)]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_inside_the_product_are_relative(name: str) -> None:
    absolute = [
        node
        for node in ast.walk(MODULES[name].tree)
        if isinstance(node, ast.ImportFrom)
        and not node.level
        and (node.module or "").startswith("shardward")
    ]

    assert absolute == []


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_import_no_io_library_and_open_nothing(name: str) -> None:
    calls = {
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in ast.walk(MODULES[name].tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    }

    assert not top_names(MODULES[name]) & IO_LIBRARIES
    assert not calls & {"open", "print", "read_text", "read_bytes", "write_text", "write_bytes"}


@pytest.mark.parametrize("library", sorted(HOMES))
def test_a_heavy_library_is_imported_only_in_its_room(library: str) -> None:
    users = {name for name, module in MODULES.items() if library in top_names(module)}

    assert {name for name in users if not name.startswith(HOMES[library])} == set()


@pytest.mark.parametrize("library", ["print", "logging.basicConfig"])
def test_the_library_never_prints_and_never_configures_logging(library: str) -> None:
    callers = {
        name
        for name, module in MODULES.items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == library
    }

    assert callers == set()


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_the_loader_pulls_in_no_heavy_library() -> None:
    loaded = loaded_after("import shardward.loader")

    assert not loaded & {"click", "torch", "duckdb", "numba", "rich", "shardward.quarantine"}


def test_the_command_line_starts_without_arrow_numpy_or_torch() -> None:
    loaded = loaded_after(
        "import shardward.cli.main as m; m.cli(['--help'], standalone_mode=False)"
    )

    assert not loaded & {"numpy", "pyarrow", "torch", "duckdb", "numba", "shardward.quarantine"}


def test_each_loader_module_imports_without_torch() -> None:
    names = [
        name for name in MODULES if name.startswith("shardward.loader") and "torch" not in name
    ]
    loaded = loaded_after("; ".join(f"import {name}" for name in names))

    assert not loaded & {"torch", "click", "duckdb", "numba"}
