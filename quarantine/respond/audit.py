"""Auditing a held shard: a stratified sample, what it can promise, and the way out. Pure but for
reading the manifest.

The audit lives in the decision log alone: the hold carries the sample as evidence, reviews are
decisions about sampled documents, and the end releases the shard; condemned documents stay out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import DecisionError, NotFound
from ...loader.permutation import Permutation, derive_key
from .corpus import resolver, shard_documents
from .impact import lengths_of
from .preview import assumed_entry
from .scopes import Scope
from .status import Decision, Documents, Entry, deciding_entries, excluded_documents, live_entries

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

STRATA = 3
CONFIDENCE = 0.95
_SAMPLE_KEY = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A held shard under review.

    `sample` are the documents to look at, `reviewed` those decided about, `condemned` of them.
    `bound` is the highest share of bad documents that the reviews so far are compatible with at
    95 % confidence (1.0 before the first). `finished` says that the shard was released.
    """

    hold: int
    shard: str
    documents: int
    sample: tuple[int, ...]
    reviewed: tuple[int, ...]
    condemned: tuple[int, ...]
    bound: float
    finished: bool

    @property
    def open(self) -> tuple[int, ...]:
        """Sampled documents nobody has decided about."""
        done = set(self.reviewed)
        return tuple(doc for doc in self.sample if doc not in done)


def start_audit(
    manifest: Manifest,
    shard: str,
    *,
    size: int | None,
    reason: str,
    actor: str,
    seed: int = 0,
    incident: str | None = None,
) -> Decision:
    """Return the decision that holds `shard` and names its sample (all documents for None).

    The sample is spread in proportion over thirds of the documents by length, since junk hides
    among the longest and the shortest. The same shard, size and seed give the same sample.

    Raises:
        NotFound: no such shard.
        DecisionError: a sample of less than one document.
    """
    docs = shard_documents(manifest, shard)
    if size is not None and size < 1:
        raise DecisionError(f"a sample of {size} documents shows nothing; take 1 or more")
    sample = docs if size is None or size >= docs.size else _stratified(manifest, docs, size, seed)
    audit = {
        "documents": int(docs.size),
        "sample": sample.tolist(),
        "seed": seed,
        "bound_if_clean": upper_bound(int(sample.size), 0, int(docs.size)),
    }
    return Decision(
        action="quarantine",
        scope=Scope(kind="shard", value=shard),
        reason=reason,
        actor=actor,
        incident=incident,
        evidence={"audit": audit},
    )


def audits(entries: Sequence[Entry]) -> list[Audit]:
    """Return the audits that stand, oldest first."""
    live = live_entries(entries)
    return [_audit(entry, live) for entry in live if "audit" in entry.decision.evidence]


def find_audit(entries: Sequence[Entry], shard: str) -> Audit:
    """Return the newest audit of a shard; NotFound names those there are."""
    found = audits(entries)
    for audit in reversed(found):
        if audit.shard == shard:
            return audit
    known = ", ".join(a.shard for a in found) or "none"
    raise NotFound(f"shard {shard!r} is not under audit (under audit: {known})")


def review(audit: Audit, doc: int, *, bad: bool, reason: str, actor: str) -> Decision:
    """Return the decision about one document of an audited shard.

    Raises:
        DecisionError: the document is not in the sample.
    """
    if doc not in audit.sample:
        raise DecisionError(
            f"document {doc} is not in the sample of {audit.shard}; to decide about it anyway, "
            "use quarantine add or release"
        )
    return Decision(
        action="condemn" if bad else "release",
        scope=Scope.of_documents([doc]),
        reason=reason,
        actor=actor,
        evidence={"review_of": audit.hold},
    )


def finish_audit(audit: Audit, *, reason: str, actor: str) -> Decision:
    """Return the decision that releases the shard; what was condemned stays out.

    Raises:
        DecisionError: sampled documents are not reviewed yet.
    """
    if audit.open:
        raise DecisionError(
            f"{len(audit.open)} of {len(audit.sample)} sampled documents of {audit.shard} are not "
            f"reviewed (first {audit.open[0]}); review them, or keep the shard held"
        )
    return Decision(
        action="release",
        scope=Scope(kind="shard", value=audit.shard),
        reason=reason,
        actor=actor,
        evidence={"audit_of": audit.hold, "bound": audit.bound, "condemned": len(audit.condemned)},
    )


def overruled(
    manifest: Manifest, entries: Sequence[Entry], audit: Audit, decision: Decision
) -> list[tuple[Entry, int]]:
    """Return what `decision` of an audit lets in although it was left out before the audit.

    Each is the entry that left documents out and how many of them would come back, oldest first.
    What the hold of the shard alone leaves out is not among them.
    """
    resolve = resolver(manifest)
    docs, decided = deciding_entries([e for e in entries if not _holds(e, audit)], resolve)
    then = excluded_documents([*entries, assumed_entry(entries, manifest, decision)], resolve)
    back = Counter(decided[~np.isin(docs, then)].tolist())
    return [(entry, back[entry.sequence]) for entry in entries if entry.sequence in back]


def _holds(entry: Entry, audit: Audit) -> bool:
    decision = entry.decision
    return "audit" in decision.evidence and decision.scope.value == audit.shard


def upper_bound(sampled: int, bad: int, population: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided upper bound on the share of bad documents, `bad` of `sampled` seen.

    Exact (Clopper and Pearson 1934) for sampling with replacement, hence on the safe side here;
    a full review knows the share.
    """
    if sampled >= population > 0:
        return bad / population
    if sampled == 0 or bad >= sampled:
        return 1.0
    low, high = bad / sampled, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _at_most(bad, sampled, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(bad: int, sampled: int, share: float) -> float:
    """Return the probability of at most `bad` bad ones among `sampled`."""
    if share >= 1.0:
        return 0.0
    logs = (
        math.lgamma(sampled + 1)
        - math.lgamma(k + 1)
        - math.lgamma(sampled - k + 1)
        + (k * math.log(share) if k else 0.0)
        + (sampled - k) * math.log1p(-share)
        for k in range(bad + 1)
    )
    return math.fsum(math.exp(value) for value in logs)


def _audit(hold: Entry, live: Sequence[Entry]) -> Audit:
    evidence: dict[str, Any] = hold.decision.evidence["audit"]
    sample = tuple(evidence["sample"])
    verdicts: dict[int, str] = {}
    for entry in live:
        decision = entry.decision
        if entry.sequence > hold.sequence and decision.scope.kind == "document":
            for doc in set(decision.scope.documents) & set(sample):
                if decision.action in ("release", "condemn", "quarantine"):
                    verdicts[doc] = decision.action
    bad = tuple(sorted(d for d, action in verdicts.items() if action != "release"))
    return Audit(
        hold=hold.sequence,
        shard=hold.decision.scope.value,
        documents=evidence["documents"],
        sample=sample,
        reviewed=tuple(sorted(verdicts)),
        condemned=bad,
        bound=upper_bound(len(verdicts), len(bad), evidence["documents"]),
        finished=any(e.decision.evidence.get("audit_of") == hold.sequence for e in live),
    )


def _stratified(manifest: Manifest, docs: Documents, size: int, seed: int) -> Documents:
    by_length = docs[np.lexsort((docs, lengths_of(manifest, docs)))]
    strata = np.array_split(by_length, min(STRATA, size))
    taken = [
        stratum[_chosen(stratum.size, share, seed + index)]
        for index, (stratum, share) in enumerate(
            zip(strata, _shares([s.size for s in strata], size), strict=True)
        )
    ]
    return np.sort(np.concatenate(taken))


def _chosen(population: int, size: int, seed: int) -> Documents:
    cipher = Permutation(population, derive_key(seed, _SAMPLE_KEY))
    return cipher.forward(np.arange(size, dtype=np.int64))


def _shares(populations: Sequence[int], size: int) -> list[int]:
    """Split `size` in proportion by largest remainders, never over a population."""
    total = sum(populations)
    shares = [size * p // total for p in populations]
    by_rest = sorted(range(len(shares)), key=lambda i: (-(size * populations[i] % total), i))
    for index in by_rest[: size - sum(shares)]:
        shares[index] += 1
    return shares
