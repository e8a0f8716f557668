"""What a search found: read from the file it was printed to, and kept with a decision.

The evidence of a decision may hold, under `documents`, the ground of each document: why it was
found, how surely, by what. A year later that answers for the document, not only for the act.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import FormatError, MismatchError
from ...loader.formats import json_fault
from .corpus import check_documents

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from .status import Decision

DOCUMENTS = "documents"
"""Key of a decision's evidence: from ordinals, as text, to grounds."""
MOST_REASONS = 4
REASON_CHARACTERS = 400
SCHEMA_VERSION = 1
"""Version of what scan and similar print."""
MOST_NESTED = 16
MOST_QUOTED = 60
MOST_GROUND = 64 << 10
"""Bytes of JSON that the ground of one document may have; a decision keeps it for ever."""
Json = dict[str, Any]
_KEPT = ("score", "detector", "version", "family", "kind", "query_doc", "loss", "spans", "evidence")


def read_findings(path: Path, manifest: Manifest) -> list[Json]:
    """Return the findings of JSON lines, or those in one object that scan or similar printed.

    Each has a `doc`. A hit's kind counts as its detector, and a hit has the verdict yes.

    Raises:
        FormatError: the file is malformed; the message names the place.
        MismatchError: it says that it is about another corpus.
        NotFound: the corpus has no such document.
    """
    raw = path.read_bytes()
    whole = _printed(raw, path, manifest)
    found = list(_lines(raw, path, manifest) if whole is None else whole)
    for each in found:
        _check_size(each, path)
    check_documents(manifest, np.array([each["doc"] for each in found], np.int64))
    return found


def grounds_of(findings: Iterable[Json]) -> dict[int, Json]:
    """Return for each document why it was found: `reason`, and of the surest finding the rest.

    Findings whose verdict is no explain nothing.
    """
    grounds: dict[int, Json] = {}
    for finding in sorted(findings, key=lambda f: -_score(f)):
        if finding.get("verdict") is False:
            continue
        kept = {name: finding[name] for name in _KEPT if finding.get(name) is not None}
        ground = grounds.setdefault(finding["doc"], kept | {"reasons": []})
        ground["reasons"] += [r for r in _reasons(finding) if r not in ground["reasons"]]
    return {
        doc: {"reason": "; ".join(ground.pop("reasons")[:MOST_REASONS]), **ground}
        for doc, ground in sorted(grounds.items())
    }


def evidence_of(grounds: Mapping[int, Json | str]) -> Json:
    """Return the evidence of a decision about documents that were found on these grounds."""
    return {DOCUMENTS: {str(doc): ground for doc, ground in grounds.items()}} if grounds else {}


def ground_of(decision: Decision, doc: int) -> Json | None:
    """Return the ground of `doc` in the evidence of `decision`, None where it has none."""
    kept = decision.evidence.get(DOCUMENTS)
    ground = kept.get(str(doc)) if isinstance(kept, Mapping) else None
    if isinstance(ground, str):
        return {"reason": ground}
    return dict(ground) if isinstance(ground, Mapping) else None


def found_by(ground: Mapping[str, Any]) -> str | None:
    """Return what found a document: a detector, the kind of likeness, or the family of junk."""
    return next((ground[key] for key in ("detector", "kind", "family") if key in ground), None)


def _score(finding: Json) -> float:
    return float(finding.get("score") or 0.0)


def _reasons(finding: Json) -> list[str]:
    given = finding.get("reasons") or [finding.get("reason")]
    return [str(each)[:REASON_CHARACTERS] for each in given if each]


def _printed(raw: bytes, path: Path, manifest: Manifest) -> list[Json] | None:
    """Return the findings, suspects or hits in the output of a command; None if it is none."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or "schema_version" not in value:
        return None
    if value["schema_version"] != SCHEMA_VERSION:
        raise FormatError(
            f"{path} has schema_version {_short(value['schema_version'])}, this release reads "
            f"{SCHEMA_VERSION}; print it anew with --json"
        )
    _check_corpus(value, manifest, str(path))
    found = []
    for name in ("findings", "suspects", "hits"):
        rows = value.get(name, [])
        if not isinstance(rows, list):
            raise FormatError(f"{path}: {name} is no list; print it anew with --json")
        for number, row in enumerate(rows, 1):
            finding = _checked(row, manifest, f"{path}: {name} {number}")
            hit = {"detector": finding.get("kind"), "verdict": True} if name == "hits" else {}
            found.append(hit | finding)
    return found


def _lines(raw: bytes, path: Path, manifest: Manifest) -> Iterator[Json]:
    for number, line in enumerate(raw.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            finding = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{where} is no finding ({json_fault(error)})") from error
        yield _checked(finding, manifest, where)


def _checked(finding: object, manifest: Manifest, where: str) -> Json:
    """Return a finding with an ordinal, a finite score and reasons in words, or refuse it."""
    if not isinstance(finding, dict) or "doc" not in finding:
        raise FormatError(f"{where} is no finding: give an object with doc, score and reason")
    _check_corpus(finding, manifest, where)
    doc, score = finding["doc"], finding.get("score", 0.0)
    if isinstance(doc, bool) or not isinstance(doc, int) or not 0 <= doc < 1 << 63:
        raise FormatError(f"{where}: doc is {_short(doc)}, no ordinal")
    if not _is_number(score):
        raise FormatError(f"{where}: score is {_short(score)}, no number")
    if not isinstance(finding.get("verdict"), bool | None):
        raise FormatError(f"{where}: verdict is {_short(finding['verdict'])}, not true or false")
    reasons = finding.get("reasons", [])
    if not isinstance(finding.get("reason", ""), str) or not isinstance(reasons, list):
        raise FormatError(f"{where}: the reason is no text")
    for name in _KEPT:
        _check_kept(finding.get(name), f"{where}: {name}")
    return finding


def _check_corpus(value: Json, manifest: Manifest, where: str) -> None:
    about = value.get("manifest", manifest.fingerprint)
    if about != manifest.fingerprint:
        raise MismatchError(
            f"{where} is about corpus {str(about)[:12]}, this one is {manifest.fingerprint[:12]}, "
            "where the same numbers are other documents; search this corpus"
        )


def _is_number(score: object) -> bool:
    if isinstance(score, bool) or not isinstance(score, int | float):
        return False
    try:
        return math.isfinite(score)
    except OverflowError:  # an integer that no float holds
        return False


def _check_kept(value: object, where: str) -> None:
    """Refuse what is nested too deep to be read back; it would stay in the log for ever."""
    level = [value]
    for _ in range(MOST_NESTED):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise FormatError(f"{where} is nested over {MOST_NESTED} deep; leave it out")


def _check_size(finding: Json, path: Path) -> None:
    size = len(json.dumps({name: finding[name] for name in _KEPT if name in finding}))
    if size > MOST_GROUND:
        raise FormatError(
            f"{path}: what document {finding['doc']} was found by has {size} bytes as JSON, over "
            f"the {MOST_GROUND} that a decision keeps for each; shorten its spans and evidence"
        )


def _short(value: object) -> str:
    """Return `value` in a few characters; an integer may have too many digits to be printed."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"
