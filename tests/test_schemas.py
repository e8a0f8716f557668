"""Every schema that ships is a valid 2020-12 schema and says what it describes."""

from __future__ import annotations

import json
import re

import pytest
from helpers_tree import ROOT
from jsonschema import Draft202012Validator

from shardward.schemas import load_schema

NAMES = sorted(path.stem for path in (ROOT / "schemas").glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_valid_2020_12(name: str) -> None:
    schema = load_schema(name)

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_named_with_its_version(name: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9-]*\.v[1-9][0-9]*", name)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_refers_to_nothing_outside_itself(name: str) -> None:
    references = re.findall(r'"\$ref": "([^"]*)"', json.dumps(load_schema(name)))

    assert [reference for reference in references if not reference.startswith("#")] == []
