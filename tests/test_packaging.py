"""What is built, what lands in site-packages, and what a trainer's own files may be called."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from helpers_tree import PACKAGES, ROOT, tracked_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SHIPPED = (".py", ".json", ".sql", ".typed")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build sdist and wheel from a clean copy of the tracked files."""
    source = tmp_path_factory.mktemp("source")
    for name in tracked_files():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"]
    built = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return source / "dist"


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, without its dependencies, into a directory of its own."""
    target = tmp_path_factory.mktemp("site")
    wheel = next(dist.glob("*.whl"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(target), str(wheel)], check=True)
    return target


def product_files() -> set[str]:
    inside = {name for name in tracked_files() if name.parts[0] in PACKAGES}
    shipped = {name for name in inside if name.suffix in SHIPPED}
    return {str(name) for name in shipped} | {"__init__.py", "__main__.py", "py.typed"}


def product_package_names() -> set[str]:
    return {
        ".".join(("shardward", *Path(name).parent.parts))
        for name in product_files()
        if name.endswith("__init__.py")
    }


def test_the_wheel_holds_exactly_the_product_tree(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}

    assert names == {f"shardward/{name}" for name in product_files()}


def test_the_sdist_holds_every_tracked_file(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        members = {Path(*Path(name).parts[1:]) for name in sdist.getnames()}
    tracked = {name for name in tracked_files() if name.parts[0] != ".typing"}

    assert tracked - members == set()
    extra = {str(name) for name in members if (ROOT / name).is_file()} - set(map(str, tracked))
    assert {name for name in extra if "egg-info" not in name} == set()


def test_every_package_is_named_in_pyproject_and_typed() -> None:
    named = set(PROJECT["tool"]["setuptools"]["packages"])

    assert named == product_package_names()
    for package in named:
        folder = ROOT.joinpath(*package.split(".")[1:])
        assert (folder / "py.typed").is_file(), package


def test_only_shardward_appears_in_site_packages(installed: Path) -> None:
    names = {path.name.split("-")[0] for path in installed.iterdir()} - {"bin"}

    assert names == {"shardward"}


def test_a_trainer_with_its_own_loader_and_cli_still_works(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "loader.py").write_text("WHOSE = 'the trainer'\n")
    (tmp_path / "cli.py").write_text("WHOSE = 'the trainer'\n")
    (tmp_path / "train.py").write_text(
        "import cli, loader\n"
        "import shardward.cli.main, shardward.loader, shardward.schemas\n"
        "print(cli.WHOSE, loader.WHOSE, shardward.loader.__file__, sep='|')\n"
    )
    environment = {"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"}
    result = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip

    mine, also_mine, theirs = result.stdout.strip().split("|")
    assert (mine, also_mine) == ("the trainer", "the trainer")
    assert Path(theirs).is_relative_to(installed)


def test_the_installed_command_shows_its_help(installed: Path) -> None:
    command = [sys.executable, "-c", "from shardward.cli.main import main; main()", "--help"]
    result = subprocess.run(
        command, env={"PYTHONPATH": str(installed)}, capture_output=True, text=True, check=True
    )

    assert "Which documents fed step N" in result.stdout


def test_every_dependency_is_pinned_in_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = PROJECT["project"]["dependencies"] + [
        name for group in extras.values() for name in group
    ]

    assert {name.split(">")[0].lower() for name in wanted} - pins == set()
