"""The phases find and quarantine: culprits of the window, their relatives, and what is decided."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...loader.errors import IncidentError
from ...loader.files import write_atomic
from ...loader.formats import canonical_json, sha256_hex
from .incident import Led
from .narrator import SHOWN, shown
from .shell import ACTOR
from .stage import Stage

COPIES = "copies"
COPY_KINDS = ("near", "exact")
AUDIT_SHARE = 0.02
"""A shard with a larger share of excluded documents is listed for audit."""
MOST_SHARE = 0.2
"""Of a corpus no more than this can be a hole in it."""
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What `scan` and `similar` found.

    Attributes:
        families: family of each culprit in the window, by document.
        reasons: why each culprit is one.
        hits: relatives of the culprits anywhere: doc, query_doc, kind, score, reason.
    """

    families: Mapping[int, str]
    reasons: Mapping[int, str]
    hits: Sequence[Json]

    @classmethod
    def of(cls, result: Json) -> Found:
        """Return what the phase `find` wrote down."""
        return cls(
            families={int(doc): name for doc, name in result["families"].items()},
            reasons={int(doc): why for doc, why in result["reasons"].items()},
            hits=result["hits"],
        )

    @property
    def relatives(self) -> dict[int, Json]:
        """The first hit of each document that is no culprit itself, by document."""
        first: dict[int, Json] = {}
        for hit in self.hits:
            if hit["doc"] not in self.families:
                first.setdefault(hit["doc"], hit)
        return first

    @property
    def documents(self) -> dict[int, str]:
        """Family of every document to quarantine, culprits and relatives, by document."""
        found = {doc: self.family(hit) for doc, hit in self.relatives.items()}
        return dict(sorted((found | dict(self.families)).items()))

    def family(self, hit: Json) -> str:
        """Return the family that a relative belongs to: that of the culprit it is like."""
        return COPIES if hit["kind"] in COPY_KINDS else self.families[hit["query_doc"]]

    def ground(self, doc: int) -> Json:
        """Return why `doc` is among the found, as `quarantine add --from` takes it."""
        if doc in self.reasons:
            return {"doc": doc, "reason": self.reasons[doc], "family": self.families[doc]}
        return dict(self.relatives[doc])

    def reason(self, doc: int) -> str:
        """Return why `doc` is among the found."""
        return self.reasons[doc] if doc in self.reasons else str(self.relatives[doc]["reason"])


def find(stage: Stage) -> Json:
    """Rank the window against its controls, then search the whole corpus for relatives.

    Raises:
        IncidentError: nothing in the window is to blame.
    """
    led = stage.incident
    scanned = stage.shell.ask("scan", "--incident", led.id, *stage.run)
    guilty = [each for each in scanned["suspects"] if each["verdict"]]
    stage.narrator.table(
        f"documents of the window that look guilty: {shown(len(guilty))}",
        ("doc", "score", "loss", "source", "why"),
        [(s["doc"], s["score"], s["loss"], s["source"], s["reasons"][0]) for s in guilty[:SHOWN]],
    )
    if not guilty:
        raise IncidentError(
            f"no document of the window of {led.id} crossed a detector's line, so there is nothing "
            "to leave out; see the suspects with shardward scan, or give other text"
        )
    searched = stage.shell.ask("similar", "--incident", led.id, *stage.run)
    free = {each["doc"]: each for each in (*scanned["acquitted"], *searched["acquitted"])}
    _show_acquitted(stage, list(free.values()))
    blamed = [each for each in guilty if each["doc"] not in free]
    answers = {"scan": scanned["suspects"], "similar": searched["hits"]}
    return {
        "suspects": len(scanned["suspects"]),
        "families": {str(each["doc"]): _family(each) for each in blamed},
        "reasons": {str(each["doc"]): each["reasons"][0] for each in blamed},
        "hits": searched["hits"],
        "acquitted": sorted(free),
        "digest": sha256_hex(canonical_json(answers)),
    }


def _family(suspect: Json) -> str:
    return str(next(each["family"] for each in suspect["findings"] if each["verdict"]))


def _show_acquitted(stage: Stage, free: Sequence[Json]) -> None:
    if free:
        stage.narrator.table(
            f"acquitted copies, whose like the run ate before without harm: {shown(len(free))}",
            ("doc", "like document", "eaten before", "first at step"),
            [(e["doc"], e["like"], e["eaten"], e["first_step"]) for e in free[:SHOWN]],
        )


def quarantine(stage: Stage) -> Json:
    """Decide what is left out, with reasons; publish it; give the trainer its orders.

    Raises:
        IncidentError: so much of the corpus was found that leaving it out would end the run.
    """
    found, total = Found.of(stage.state.result("find")), stage.session.manifest.documents_count
    count = len(found.documents)
    if count > MOST_SHARE * total:
        raise IncidentError(
            f"{count} of the corpus's {total} documents look like the culprits; that is no hole in "
            "the corpus but the corpus itself: leaving it out would end the run, so give other text"
        )
    led = stage.incident
    known = _decided(stage) if stage.again else []
    for family, docs in _by_name(found.families).items():
        _add(stage, led, known, f"{family} in the window", [found.ground(doc) for doc in docs])
    relatives = {doc: found.family(hit) for doc, hit in found.relatives.items()}
    for family, docs in _by_name(relatives).items():
        _add(stage, led, known, f"relative of {family}", [found.ground(doc) for doc in docs])
    shards = _audit(stage, led, known, found)
    skipped = led.act("skip") or led.summary("skip")
    stage.narrator.say(
        f"revision {skipped['revision']} leaves out {skipped['documents']} documents"
    )
    _order_resume(stage, led)
    return {"shards": shards, "documents": skipped["documents"]}


def _order_resume(stage: Stage, led: Led) -> None:
    """Write the orders for the trainer's next start, with a watch over the trend before."""
    scale = stage.scale
    done = led.act("resume", "--watch-length", str(scale.watch), "--trend", str(scale.trend))
    if done:
        watch = done["watch"]
        bounds = ", ".join(f"{t['signal']} over {t['ceiling']:.4g}" for t in watch["thresholds"])
        stage.narrator.say(
            f"watch steps {watch['first']} to {watch['last']}: a strike is {bounds}; "
            f"{watch['rollback_after']} in a row roll back"
        )


def _by_name(named: Mapping[int, str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = defaultdict(list)
    for doc, name in sorted(named.items()):
        groups[name].append(doc)
    return dict(sorted(groups.items()))


def _decided(stage: Stage) -> list[Json]:
    """Return what was decided already, by the phase's earlier start."""
    return list(stage.shell.ask("quarantine", "log", *stage.run)["decisions"])


def _add(stage: Stage, led: Led, known: list[Json], why: str, grounds: Sequence[Json]) -> None:
    """Quarantine what was found; a decision of this reason that was made is not made again."""
    if not any(each["reason"] == why and each["incident"] == led.id for each in known):
        path = stage.directory.found / f"{why.replace(' ', '-')}.jsonl"
        path.parent.mkdir(exist_ok=True)
        write_atomic(path, b"".join(canonical_json(each) + b"\n" for each in grounds))
        _decide(stage, led, why, ("--from", str(path), "--expect", str(len(grounds))))


def _decide(stage: Stage, led: Led, why: str, words: Sequence[str]) -> None:
    stage.shell.ask(
        "quarantine", "add", *words, "--reason", why, "--incident", led.id,
        *stage.run, "--actor", ACTOR, "--yes",
    )  # fmt: skip


def _audit(stage: Stage, led: Led, known: list[Json], found: Found) -> list[Json]:
    """Mark the shards with many excluded documents as suspect.

    Returns:
        All shards with an excluded document, most of them first: shard, excluded, documents,
        share, suspect.
    """
    manifest = stage.session.manifest
    counts = Counter(manifest.locate(doc).shard_uri for doc in found.documents)
    sizes = {shard.uri: shard.documents for shard in manifest.shards}
    shards = []
    for uri, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        share = count / sizes[uri]
        why = f"audit: {count} of {sizes[uri]} documents of {uri} excluded"
        if share > AUDIT_SHARE and not any(each["reason"] == why for each in known):
            _decide(stage, led, why, ("--shard", uri, "--as", "suspect"))
        row = {"shard": uri, "excluded": count, "documents": sizes[uri], "share": share}
        shards.append({**row, "suspect": share > AUDIT_SHARE})
    stage.narrator.table(
        "shards to audit",
        ("shard", "excluded", "documents", "share"),
        [tuple(shard.values())[:4] for shard in shards if shard["suspect"]],
    )
    return shards
