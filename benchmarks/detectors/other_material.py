"""What the verdict catches and flags on material of this machine that no line was chosen on.

    python -m benchmarks.detectors --only other --half 1 [--corpus ../shared/corpus]

Clean texts are files under /usr, /etc and Python's own directories, by suffix and language; junk
is what binary files become when they are decoded as text, and what damage makes of the clean texts.
Prints one JSON object per kind: how many were flagged, with Wilson 95 % intervals, how many would
be if the kind were a source of its own, whose lines may rise, how many the detectors that read
texts flag, and by which rules. Packages fall into two halves by a hash: half 0 is for looking, half
1 for reporting. Clean texts with a near copy in the corpus are left out. Another machine holds
other files, so its figures differ.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardward.quarantine.search.columns import chunk_of, text_chunks
from shardward.quarantine.search.features import Features, measure
from shardward.quarantine.search.opinions import panel
from shardward.quarantine.search.rows import DECIDING, NOT_UTF8, flags_of
from shardward.quarantine.search.signature import sign
from shardward.quarantine.search.usage import usage_of

from .damage import DECODINGS, FOREIGN, MADE, NATIVE, minified
from .gather import BINARY_BYTES, Found, clean_text, find, some_bytes
from .innocent import INNOCENT, LATER, decomposed, vocabulary
from .latest_damage import LATEST
from .more_damage import CROSSED, MORE, UNCHOSEN
from .quality import row

MOST = 200
AFTER = 20
"""Documents of a kind below which it is not reported: too few to say anything."""
LEAST_MINIFIED = 500
"""Of a file that is all comment hardly anything is left."""
Texts = dict[str, list[str]]
_PANEL = panel(())


def clean_texts(found: Found) -> Texts:
    """Return the clean texts by kind."""
    read = {kind: [clean_text(path) for path in paths] for kind, paths in found.texts.items()}
    return {kind: [text for text in texts if text] for kind, texts in read.items()}


def unseen(texts: Texts, corpus: Path) -> Texts:
    """Return the texts that share no band of their signatures with a document of `corpus`."""
    tables = [pq.read_table(path, columns=["text"]) for path in sorted(corpus.glob("*.parquet"))]
    (chunk,) = text_chunks(pa.concat_tables(tables)["text"].combine_chunks())
    known = sign(chunk).bands().T
    kept = {}
    for kind, some in texts.items():
        bands = sign(chunk_of([text.encode() for text in some])).bands().T
        seen = np.any([np.isin(b, k) for b, k in zip(bands, known, strict=True)], axis=0)
        kept[kind] = [text for text, old in zip(some, seen.tolist(), strict=True) if not old]
    return kept


def junk_texts(found: Found, clean: Texts) -> Texts:
    """Return the junk by kind."""
    junk: Texts = {"minified/shipped": clean.pop("junk/min.js", [])}
    made = [minified(text) for text in clean.get("code/js", [])]
    junk["minified/made"] = [text for text in made if len(text) >= LEAST_MINIFIED]
    for suffix, paths in found.binaries.items():
        raws = [raw for raw in map(some_bytes, paths) if raw]
        for name, decode in DECODINGS.items():
            junk[f"bytes/{suffix}/{name}"] = [decode(raw) for raw in raws]
    rng = random.Random(7)
    junk["bytes/random/latin1"] = [rng.randbytes(BINARY_BYTES).decode("latin-1")] * AFTER
    prose = [text for kind in clean if kind.startswith("text/") for text in clean[kind]]
    long = [text for text in prose if len(text) > 2500]
    for name, damage in MADE.items():
        junk[f"made/{name}"] = [damage(rng, rng.choice(long)) for _ in range(MOST)]
    for name, damage in MORE.items():
        group = "unchosen" if name in UNCHOSEN else "made"
        junk[f"{group}/{name}"] = [damage(rng, rng.choice(long)) for _ in range(MOST)]
    for locale, damages in CROSSED.items():
        own = [text for text in clean.get(f"locale/{locale}", []) if len(text) > 600]
        for name, damage in damages.items():
            group = "unchosen" if name in UNCHOSEN else "made"
            junk[f"{group}/{name}"] = [damage(rng, text) for text in own]
    foreign = [t for k in clean if k.startswith("locale/") for t in clean[k] if len(t) > 600]
    for name, damage in FOREIGN.items():
        junk[f"made/{name}"] = [damage(rng, rng.choice(foreign)) for _ in range(MOST)]
    for locale, encodings in NATIVE.items():
        for encoding in encodings:
            junk[f"made/{encoding}_read_as_latin1"] = [
                text[:2000].encode(encoding, "replace").decode("latin-1")
                for text in clean.get(f"locale/{locale}", [])
            ]
    for name, damage in LATEST.items():
        rng = random.Random(name)
        junk[f"latest/{name}"] = [damage(rng, rng.choice(long)) for _ in range(MOST)]
    return junk


def made_clean(clean: Texts) -> Texts:
    """Return clean texts of layouts with many numbers, and accents as marks of their own."""
    words = vocabulary(text for kind in clean if kind.startswith("text/") for text in clean[kind])
    made = {
        f"layout/{name}": [maker(random.Random(f"{name}{i}"), words) for i in range(MOST)]
        for name, maker in (INNOCENT | LATER).items()
    }
    for locale in ("vi", "fr", "ko"):
        texts = clean.get(f"locale/{locale}", [])
        made[f"decomposed/{locale}"] = [decomposed(text) for text in texts]
    return made


def in_own_source(features: Features, flags: np.ndarray) -> Iterator[bool]:
    """Yield whether each document is flagged where all of them are one source."""
    lines = usage_of(features, ["one"] * len(features)).lines()
    values = [rule.values(features) for rule in DECIDING]
    for document in range(len(features)):
        yield any(
            flags[document] >> np.uint32(bit) & 1
            and values[bit][document] >= lines.get(("one", rule.name), rule.line)
            for bit, rule in enumerate(DECIDING)
        )


def by_reading(text: str) -> bool:
    """Return whether a detector that reads the text decides, as in windows and `--thorough`."""
    return any(finding.verdict for finding in _PANEL.examine(0, text, "")[0])


def report(what: str, texts: Texts) -> None:
    """Print the verdict on each kind and on each group of kinds."""
    groups: dict[str, list[int]] = {}
    for kind, some in sorted(texts.items()):
        if len(some) < AFTER:
            continue
        features = measure(chunk_of([t.encode("utf-8", "surrogatepass") for t in some]))
        flags = flags_of(features)
        flagged = flags & ~NOT_UTF8 > 0
        usual = sum(in_own_source(features, flags))
        read = sum(map(by_reading, some))
        fired = {r.name: int((flags >> np.uint32(i) & 1).sum()) for i, r in enumerate(DECIDING)}
        rules = {name: count for name, count in Counter(fired).most_common(4) if count}
        line = row(what, kind, int(flagged.sum()), len(some))
        more = {"flagged_as_own_source": usual, "flagged_by_reading": read, "rules": rules}
        print(json.dumps(line | more))
        group = groups.setdefault(kind.split("/")[0], [0, 0, 0])
        for place, count in enumerate((int(flagged.sum()), len(some), usual)):
            group[place] += count
    for name, (hits, total, usual) in groups.items():
        print(
            json.dumps({**row(f"{what}, all", name, hits, total), "flagged_as_own_source": usual})
        )


def main(corpus: Path, half: int) -> None:
    """Gather, judge, report; texts with a near copy in `corpus` are left out where it is there."""
    found = find(half, MOST)
    clean = clean_texts(found)
    if corpus.is_dir():
        clean = unseen(clean, corpus)
    junk = junk_texts(found, clean)
    report("junk caught", junk)
    report("clean flagged", clean | made_clean(clean))
