"""`__all__` is true: every name exists, is documented and stands in order."""

from __future__ import annotations

import importlib
import inspect

import pytest
from helpers_tree import modules

PACKAGES = [
    "shardward",
    *sorted(module.name for module in modules() if module.path.name == "__init__.py"),
]
DECLARING = [name for name in PACKAGES if hasattr(importlib.import_module(name), "__all__")]


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_says_what_it_is_for(name: str) -> None:
    document = importlib.import_module(name).__doc__ or ""

    assert len(document.strip()) > len(name)


@pytest.mark.parametrize("name", DECLARING)
def test_all_is_sorted_and_free_of_repeats(name: str) -> None:
    declared = list(importlib.import_module(name).__all__)

    assert declared == sorted(set(declared))


@pytest.mark.parametrize("name", DECLARING)
def test_every_name_in_all_exists_and_is_documented(name: str) -> None:
    package = importlib.import_module(name)
    undocumented = [
        item
        for item in package.__all__
        if (inspect.isclass(getattr(package, item)) or callable(getattr(package, item)))
        and not inspect.getdoc(getattr(package, item))
    ]

    assert undocumented == []


def test_the_schemas_package_declares_its_names() -> None:
    assert "shardward.schemas" in DECLARING
