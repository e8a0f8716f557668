"""Which documents of a spike window look guilty, measured against control windows.

A detector that fires as strongly and as often in the control windows as in the window explains
nothing, so a finding's score is weighed by how much of its rate the controls leave unexplained.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...loader.errors import UsageError
from .columns import TextChunk
from .detectors import detect_chunk, panel_findings
from .features import measure
from .findings import DECISIVE, Finding, Suspect
from .foreign import ForeignFailure, foreign
from .language import READ, UnusualLanguage, installed_model, usual_languages
from .near import Pair, pairs_within
from .opinions import Failure, Panel, merged, panel
from .similar import warn_of
from .texts import documents_chunk
from .token_repeats import periods_of

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

NEAR = 0.25
"""Exact Jaccard from which two documents of a window are copies, one of them edited."""
EXCESS = 1.1
TIMES = 2.0
"""Copies in a window cross the line at EXCESS more, and TIMES as many, as its controls expect."""
LEVELS = (NEAR, 0.5, 0.75)
"""Copies are counted from each of these on: a family stands out against looser copies of it."""
HARMFUL_ALONE = ("binary", "repetition", "mojibake")
"""Families of which one document in a window is suspect; of the others it takes two."""
COPY_DETECTOR = "copies"
UNDECIDED = 0.499
"""Most that a document scores without a verdict, so that it stays below 0.5 when rounded."""
MOST_RANGES = 8
"""Ranges of documents that a refusal names."""
MOST_COMPARED = 16384
"""Documents of window and controls together that are compared with each other."""


def triage(
    manifest: Manifest,
    window_docs: Sequence[int] | NDArray[np.int64],
    control_docs: Sequence[int] | NDArray[np.int64],
    *,
    losses: Mapping[int, float] | None = None,
    tell: Callable[[str], object] = warn_of,
) -> list[Suspect]:
    """Return the window's suspects, the most suspicious first.

    `losses` are per-document losses where the ledger has them. `tell` hears of each detector that
    cannot be used or failed; else a RuntimeWarning says it.

    Raises:
        UsageError: a document is in the window and in its controls.
        NotFound: a document is outside the corpus.
    """
    control_ids = np.unique(np.asarray(control_docs, dtype=np.int64))
    window_ids = np.unique(np.asarray(window_docs, dtype=np.int64))
    _require_apart(window_ids, control_ids)
    if not len(window_ids):
        return []
    docs = np.concatenate([window_ids, control_ids])
    both, names = documents_chunk(manifest, docs)
    window, controls = both.rows(0, len(window_ids)), both.rows(len(window_ids), len(docs))
    names, usual_names = names[: len(window)], names[len(window) :]
    opinions = _panel(controls, usual_names)
    found, failed = _findings(manifest, window, window_ids, names, opinions)
    usual, failed_too = _findings(manifest, controls, control_ids, usual_names, opinions)
    for problem in (*opinions.problems, *merged(failed + failed_too)):
        tell(str(problem))
    found, usual = (_answered(each, opinions) for each in (found, usual))
    sources = dict(zip(window_ids.tolist(), names, strict=True))
    usual_sources = dict(zip(control_ids.tolist(), usual_names, strict=True))
    weights = _weigh(found, _Rates.of(found, sources), _Rates.of(usual, usual_sources), sources)
    weighed = list(zip(found, weights, strict=True))
    if len(window_ids) <= MOST_COMPARED:
        near = copies(both.rows(0, MOST_COMPARED), docs, len(window_ids))
        weighed += [(finding, finding.score) for finding in near]
    return _rank(weighed, sources, losses or {})


def _require_apart(window: NDArray[np.int64], controls: NDArray[np.int64]) -> None:
    shared = np.intersect1d(window, controls)
    if len(shared):
        rest = np.setdiff1d(controls, shared)
        many = len(shared) > 1
        told = f"document{'s' * many} {_ranges(shared)} {'are' if many else 'is'}"
        remedy = f"the controls without them are {_ranges(rest)}" if len(rest) else "none are left"
        raise UsageError(
            f"{told} in the window, {_ranges(window)}, and in its "
            f"controls, {_ranges(controls)}; leave them out of one of the two: {remedy}"
        )


def _ranges(docs: NDArray[np.int64]) -> str:
    """Return ascending ordinals as `7,12-15`, as the command line takes them, cut after eight."""
    parts = np.split(docs, np.flatnonzero(np.diff(docs) > 1) + 1)
    told = [f"{p[0]}" if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts[:MOST_RANGES]]
    return ",".join(told) + (",…" if len(parts) > MOST_RANGES else "")


def _panel(controls: TextChunk, sources: Sequence[str]) -> Panel:
    """Return all text detectors, that of languages too where a model is installed and works."""
    known = panel()
    try:
        with foreign():
            identify = installed_model()
            if identify is None:
                return known
            texts = [controls.text(row, 4 * READ) for row in range(len(controls))]
            usual = usual_languages(texts, sources, identify)
    except ForeignFailure as error:
        return replace(known, problems=(*known.problems, f"no languages: {error}"))
    detector = UnusualLanguage(identify, usual)
    return replace(known, detectors=(*known.detectors, detector))


def _findings(
    manifest: Manifest,
    chunk: TextChunk,
    docs: NDArray[np.int64],
    sources: Sequence[str],
    opinions: Panel,
) -> tuple[list[Finding], list[Failure]]:
    periods = periods_of(manifest, docs)
    if not manifest.has_text:
        return periods, []
    found = [*periods, *detect_chunk(chunk, measure(chunk), docs)]
    more, failed = panel_findings(chunk, docs, sources, opinions)
    return found + more, failed


def _answered(findings: list[Finding], opinions: Panel) -> list[Finding]:
    """Return the findings of detectors that judged window and controls alike to their end."""
    return [finding for finding in findings if finding.detector not in opinions.slow]


def copies(
    chunk: TextChunk, docs: NDArray[np.int64], window: int, *, threshold: float = NEAR
) -> list[Finding]:
    """Return a finding for each window document with more copies there than controls explain.

    The first `window` rows of the chunk are the window, the others its controls. Text that is
    copied all over the corpus, a licence say, has as many copies in the controls for their size.
    """
    neighbours: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs_within(chunk, threshold):
        neighbours[pair.left].append(pair)
        neighbours[pair.right].append(pair)
    levels = [level for level in LEVELS if level > threshold]
    found = []
    for row in sorted(row for row in neighbours if row < window):
        tallies = [
            _Tally.of(neighbours[row], level, window, len(chunk)) for level in (threshold, *levels)
        ]
        best = max(tallies, key=lambda tally: tally.score)
        if best.score > 0:
            found.append(_copy_finding(row, best, docs, chunk.characters(row)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tally:
    """The copies of a document inside a window, and as many as its controls expect there."""

    inside: tuple[Pair, ...]
    expected: float
    score: float

    @classmethod
    def of(cls, pairs: list[Pair], level: float, window: int, documents: int) -> _Tally:
        """Return the tally of copies from `level` on; `window` of the `documents` are in it."""
        near = [pair for pair in pairs if pair.score >= level]
        inside = tuple(pair for pair in near if pair.left < window and pair.right < window)
        outside = len(near) - len(inside)
        expected = outside * window / (documents - window) if outside else 0.0
        return cls(inside=inside, expected=expected, score=_copy_score(len(inside), expected))


def _copy_finding(row: int, tally: _Tally, docs: NDArray[np.int64], length: int) -> Finding:
    pairs, expected = tally.inside, tally.expected
    best = max(pairs, key=lambda pair: (pair.score, -pair.left - pair.right))
    other = int(docs[best.right if best.left == row else best.left])
    kind = "an exact" if best.exact else "a near"
    return Finding(
        doc=int(docs[row]),
        detector=COPY_DETECTOR,
        version=2,
        family="copies",
        score=tally.score,
        verdict=tally.score >= DECISIVE,
        reason=f"{kind} copy of document {other} (J {best.score:.2f}), one of {len(pairs) + 1} "
        f"in the window where the controls make {expected + 1:.1f} usual",
        spans=((0, length),),
        values={"copies": len(pairs) + 1.0, "expected": expected + 1.0, "jaccard": best.score},
    )


def _copy_score(copies: int, expected: float) -> float:
    """Return 0.5 or more for at least EXCESS copies and TIMES as many as the controls expect."""
    excess = copies - expected
    if excess <= 0:
        return 0.0
    return min(excess / (excess + EXCESS), copies / (copies + TIMES * expected))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """The scores of a window's findings by (detector, source), ascending, and its documents.

    The source None is all sources together.
    """

    scores: Mapping[tuple[str, str | None], list[float]]
    documents: Mapping[str | None, int]

    @classmethod
    def of(cls, findings: list[Finding], sources: Mapping[int, str]) -> _Rates:
        """Return the rates of a window, whose documents are those of `sources`."""
        scores: dict[tuple[str, str | None], list[float]] = defaultdict(list)
        for finding in sorted(findings, key=lambda finding: finding.score):
            for source in (None, sources[finding.doc]):
                scores[finding.detector, source].append(finding.score)
        documents: Counter[str | None] = Counter([*sources.values(), *[None] * len(sources)])
        return cls(scores=scores, documents=documents)

    def at_least(self, detector: str, source: str | None, score: float) -> tuple[int, int]:
        """Return how many findings score as much, and how many documents there are."""
        known = self.scores.get((detector, source), [])
        return len(known) - bisect_left(known, score), self.documents[source]


def _weigh(
    found: list[Finding], here: _Rates, there: _Rates, sources: Mapping[int, str]
) -> list[float]:
    """Return the score of each finding in the light of the controls.

    What counts is the share of the finding's rate that the controls do not explain: the mean over
    findings of its detector at least as strong, and over all of its detector, since one strong
    finding means little where weaker ones are common. Where it is half or more, a decisive
    finding stays at 0.5 or above; else the score is multiplied by it and stays below. What only
    annotates is measured against the controls of its own source, and counts half without them.
    """
    weighed = []
    for finding in found:
        source = None if finding.verdict else sources[finding.doc]
        share = _share(finding, source, here, there)
        if finding.verdict and share >= 0.5:
            weighed.append(DECISIVE + (finding.score - DECISIVE) * share)
        else:
            weighed.append(min(finding.score * share, UNDECIDED))
    return weighed


def _share(finding: Finding, source: str | None, here: _Rates, there: _Rates) -> float:
    """Return the share of a finding's rate in `source` that the controls leave unexplained."""
    if not there.documents[source]:
        return 1.0 if finding.verdict else 0.5
    caution = 1.0 if finding.verdict and finding.family not in HARMFUL_ALONE else 0.0
    shares = [
        _unexplained(
            here.at_least(finding.detector, source, level),
            there.at_least(finding.detector, source, level),
            caution,
        )
        for level in (finding.score, 0.0)
    ]
    return sum(shares) / len(shares)


def _unexplained(here: tuple[int, int], there: tuple[int, int], caution: float) -> float:
    """Return 1 - control rate / window rate, each rate given as (findings, documents).

    The window's count is lowered by `caution` Poisson deviations; the controls get half a finding
    more than they have.
    """
    rate = (here[0] - caution * math.sqrt(here[0])) / here[1]
    usual = (there[0] + 0.5) / (there[1] + 1)
    return max(0.0, 1.0 - usual / rate) if rate > 0 else 0.0


def _rank(
    weighed: list[tuple[Finding, float]], sources: Mapping[int, str], losses: Mapping[int, float]
) -> list[Suspect]:
    grouped: dict[int, list[tuple[Finding, float]]] = defaultdict(list)
    for finding, score in weighed:
        if score > 0:
            grouped[finding.doc].append((finding, score))
    suspects = [
        _suspect(doc, group, sources.get(doc, ""), losses.get(doc))
        for doc, group in grouped.items()
    ]
    return sorted(suspects, key=lambda suspect: (-suspect.score, suspect.doc))


def _suspect(
    doc: int, group: list[tuple[Finding, float]], source: str, loss: float | None
) -> Suspect:
    ranked = sorted(group, key=lambda pair: (-pair[1], pair[0].detector))
    deciding = [finding for finding, weight in ranked if finding.verdict and weight >= DECISIVE]
    best = deciding[0] if deciding else ranked[0][0]
    return Suspect(
        doc=doc,
        score=ranked[0][1],
        verdict=bool(deciding),
        reasons=tuple(finding.reason for finding, _ in ranked),
        spans=best.spans,
        findings=tuple(finding for finding, _ in ranked),
        source=source,
        loss=loss,
    )
