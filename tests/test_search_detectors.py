"""Detectors and triage: what they flag, why, where, and what they leave alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_search import SCRIPTS, chunk, corpus, edited, prose
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.errors import UsageError
from shardward.loader.index import build_manifest
from shardward.quarantine.search.detectors import detect_documents
from shardward.quarantine.search.feature_names import GOPHER_RULES, Feature
from shardward.quarantine.search.features import measure
from shardward.quarantine.search.findings import Finding
from shardward.quarantine.search.triage import _rank, triage

RNG = random.Random(11)
PROSE = prose(RNG, 400)
BINARY = RNG.randbytes(4000).decode("latin-1")
JUNK = {
    "binary": BINARY,
    "character-run": PROSE[:300] + "=" * 5000,
    "byte-period": "abc" * 2000,
    "word-period": "the same few words again " * 200,
    "duplicate-lines": "\n".join(
        f"{prose(RNG, 12)}" if i % 12 == 0 else "a line that comes back" for i in range(200)
    ),
    "long-words": "".join(RNG.choice("abcdefghij0123456789") for _ in range(5000)),
    "digits": " ".join(str(RNG.random()) for _ in range(300)),
    "mojibake": ("Größe über Äpfel, naïve Straße. " * 3 + PROSE[:60]).encode().decode("latin-1"),
}
JUNK["word-period of 40 words"] = PROSE[:1500] + f" {' '.join(PROSE.split()[:40])}" * 6
JUNK["unlikely-characters"] = PROSE.encode("utf-16-le").decode("utf-16-be")
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=40)


def findings(text: str) -> list[Finding]:
    return detect_documents(pa.array([text], pa.large_string()), [0])


@pytest.mark.parametrize("detector", sorted(JUNK))
def test_each_kind_of_junk_is_flagged_by_its_detector(detector: str) -> None:
    found = {finding.detector: finding for finding in findings(JUNK[detector])}
    name = detector.split(maxsplit=1)[0]

    assert found[name].verdict
    assert found[name].score >= 0.5
    assert re.search(r"\d+(\.\d)?%", found[name].reason)


@pytest.mark.parametrize("text", [PROSE, *SCRIPTS, "", "short", "x = 1\n", "-" * 60], ids=range(21))
def test_ordinary_text_is_not_flagged(text: str) -> None:
    assert [finding for finding in findings(text) if finding.verdict] == []


def test_links_are_not_long_words() -> None:
    link = "[#25522](https://github.com/example/project/commit/1592ebd652aF00Dcafe)"
    text = " ".join(f"{prose(RNG, 3)} {link}{i}" for i in range(60))

    assert [f for f in findings(text) if f.verdict] == []


def test_ideographic_spaces_do_not_shorten_words() -> None:
    features = measure(chunk("天地\u3000玄黄\u3000" * 40))

    assert (features.values >= 0).all()
    assert features.column(Feature.TOP2)[0] == pytest.approx(40 * 5 / 240)


def test_terminal_colours_and_overstrikes_are_text() -> None:
    text = "\n".join(f"\x1b[1m{prose(RNG, 8)}\x1b[0m _\x08o" for _ in range(30))

    assert [f for f in findings(text) if f.verdict] == []


@settings(max_examples=60, deadline=None)
@given(TEXT, st.sampled_from(sorted(JUNK)), TEXT)
def test_K12_spans_are_characters_of_the_text_and_cut_none(a: str, kind: str, b: str) -> None:
    text = a + JUNK[kind] + b

    for finding in findings(text):
        assert all(0 <= start < end <= len(text) for start, end in finding.spans)
        assert list(finding.spans) == sorted(finding.spans)


def test_spans_point_at_the_evidence() -> None:
    text = PROSE + "\x00\x01\x02" * 40 + PROSE
    (span,) = next(f for f in findings(text) if f.detector == "binary").spans

    assert text[slice(*span)] == "\x00\x01\x02" * 40


def test_a_finding_outside_its_bounds_is_refused() -> None:
    good = findings(BINARY)[0]
    fields = {name: getattr(good, name) for name in good.__dataclass_fields__}

    with pytest.raises(UsageError, match="a score lies in 0 to 1"):
        Finding(**{**fields, "score": 1.5})
    with pytest.raises(UsageError, match="needs 0 <= start < end"):
        Finding(**{**fields, "spans": ((4, 4),)})


# Gopher's repetition rules, as plainly as they can be written.


def repeats(items: Sequence[str]) -> tuple[int, int]:
    seen: set[str] = set()
    number = characters = 0
    for item in items:
        if item in seen:
            number += 1
            characters += len(item)
        seen.add(item)
    return number, characters


def top_share(words: list[str], n: int) -> int:
    grams = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
    if not grams:
        return 0
    gram, count = Counter(grams).most_common(1)[0]
    return len(gram) * count


def repeated_characters(words: list[str], n: int) -> int:
    seen: set[str] = set()
    characters = i = 0
    while i < len(words) - n + 1:
        gram = " ".join(words[i : i + n])
        if gram in seen:
            characters += len("".join(words[i : i + n]))
            i += n
        else:
            seen.add(gram)
            i += 1
    return characters


def gopher(text: str) -> str:
    words = text.split()
    paragraphs = re.split(r"\n{2,}", text.strip())
    lines = re.split(r"\n+", text)
    size = len(text)
    (same_p, chars_p), (same_l, chars_l) = repeats(paragraphs), repeats(lines)
    checks = [
        same_p / len(paragraphs) > 0.3,
        chars_p / size > 0.2,
        same_l / len(lines) > 0.3,
        chars_l / size > 0.2,
        *(top_share(words, n) / size > t for n, t in ((2, 0.2), (3, 0.18), (4, 0.16))),
        *(repeated_characters(words, n) / size > 0.15 - (n - 5) * 0.01 for n in range(5, 11)),
    ]
    return next((name for name, broken in zip(GOPHER_RULES[1:], checks, strict=True) if broken), "")


def kernel_rule(text: str) -> str:
    return GOPHER_RULES[int(measure(chunk(text)).column(Feature.GOPHER)[0])]


texts = st.lists(
    st.sampled_from(["aa", "b", "ccc dd", "e f g h i", "jj\n", "\n\n", "kk ll mm nn oo pp", "ж"]),
    min_size=1,
    max_size=60,
).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(texts.filter(lambda text: bool(text.strip())).map(str.strip))
def test_gopher_decisions_equal_the_plain_rules(text: str) -> None:
    assert kernel_rule(text) == gopher(text)


@pytest.mark.parametrize("seed", range(12))
def test_gopher_decisions_equal_the_plain_rules_on_longer_texts(seed: int) -> None:
    rng = random.Random(seed)
    unit = prose(rng, rng.choice((5, 20, 60)))
    parts = [unit if rng.random() < 0.12 else prose(rng, 30) for _ in range(20)]
    text = rng.choice(("\n", "\n\n", " ")).join(parts)

    assert kernel_rule(text) == gopher(text)


def test_features_of_an_empty_document_are_zero() -> None:
    features = measure(chunk("", "x"))

    assert not features.values[0].any()
    assert features.values[1, Feature.CHARACTERS] == 1


def test_a_document_measures_the_same_alone_and_among_others() -> None:
    texts = [*JUNK.values(), *SCRIPTS, PROSE]
    together = measure(chunk(*texts))

    for row, text in enumerate(texts):
        alone = measure(chunk(text))
        assert np.array_equal(alone.values[0], together.values[row])
        assert np.array_equal(alone.transitions[0], together.transitions[row])


def test_a_close_family_stands_out_against_looser_copies_in_the_controls(tmp_path: Path) -> None:
    rng = random.Random(8)
    page = prose(rng, 300)
    toxic = edited(rng, page, 0.06)
    window = [edited(rng, toxic, 0.01) for _ in range(4)] + [prose(rng, 200) for _ in range(20)]
    usual = [edited(rng, page, 0.06) for _ in range(16)] + [prose(rng, 200) for _ in range(60)]
    suspects = triage(corpus(tmp_path, window + usual), range(24), range(24, 100))

    assert {suspect.doc for suspect in suspects if suspect.verdict} == {0, 1, 2, 3}


def test_triage_ranks_junk_and_copies_above_what_controls_show_too(tmp_path: Path) -> None:
    rng = random.Random(2)
    licence = prose(rng, 300)
    toxic = prose(rng, 300)
    window = [BINARY, JUNK["word-period"], *(edited(rng, toxic, 0.03) for _ in range(3))]
    usual = [prose(rng, 200) for _ in range(60)] + [edited(rng, licence, 0.02) for _ in range(20)]
    manifest = corpus(tmp_path, [*window, *(edited(rng, licence, 0.02) for _ in range(3)), *usual])
    suspects = triage(manifest, range(8), range(8, 88))

    assert [s.doc for s in suspects if s.verdict and s.score >= 0.5] == [0, 1, 2, 3, 4]
    assert not [s.doc for s in suspects if s.doc in (5, 6, 7) and s.score >= 0.5]
    assert any("copy of document" in reason for s in suspects for reason in s.reasons)


def test_without_controls_what_only_annotates_crosses_no_line(tmp_path: Path) -> None:
    foreign = " ".join(f"слово{i} другое{i}" for i in range(200))
    manifest = corpus(tmp_path, [foreign, BINARY, PROSE])

    suspects = {suspect.doc: suspect for suspect in triage(manifest, [0, 1, 2], [])}

    assert {finding.detector for finding in suspects[0].findings} == {"gopher-quality"}
    assert [doc for doc, suspect in suspects.items() if suspect.score >= 0.5] == [1]
    assert all(each.verdict == (each.score >= 0.5) for each in suspects.values())
    assert suspects[0].score < 0.4


def test_what_only_annotates_is_measured_against_the_controls_of_its_own_source(
    tmp_path: Path,
) -> None:
    rng = random.Random(3)
    foreign = [" ".join(f"слово{rng.randrange(999)}" for _ in range(120)) for _ in range(9)]
    texts = [*foreign, *(prose(rng, 120) + " the of" for _ in range(30))]
    rows = {"text": pa.array(texts), "source": ["ru"] * 9 + ["en"] * 30}
    pq.write_table(pa.table(rows), tmp_path / "part.parquet")
    manifest = build_manifest(
        [str(tmp_path / "part.parquet")], tmp_path / "m", source_column="source"
    )

    def score(controls: Sequence[int]) -> float:
        scores = {s.doc: s.score for s in triage(manifest, [0, 38], controls)}
        return scores.get(0, 0.0)

    assert score(range(9, 38)) == score([]) == pytest.approx(0.25)
    assert score(range(1, 38)) < 0.1
    assert score([9, *range(1, 9)]) < 0.1


def test_evidence_is_that_of_a_deciding_finding_though_an_annotation_scores_more() -> None:
    decided, odd = (
        Finding(
            doc=0, detector=name, version=1, family="x", score=0.9, verdict=verdict, reason=name,
            spans=((start, start + 1),),
        )
        for name, verdict, start in (("decides", True, 5), ("annotates", False, 8))
    )  # fmt: skip
    (suspect,) = _rank([(odd, 0.9), (decided, 0.6)], {}, {})

    assert (suspect.verdict, suspect.spans) == (True, ((5, 6),))


def test_a_document_both_in_a_window_and_its_controls_is_refused(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, [BINARY, *(prose(RNG, 60) for _ in range(9))])

    told = (
        "documents 4-5 are in the window, 0,4-7, and in its controls, 2-5; "
        "leave them out of one of the two: the controls without them are 2-3"
    )
    with pytest.raises(UsageError, match=re.escape(told)):
        triage(manifest, [0, 4, 5, 6, 7], range(2, 6))
    with pytest.raises(UsageError, match="none are left"):
        triage(manifest, [0, 1], [1])


def test_triage_without_controls_weighs_nothing_down(tmp_path: Path) -> None:
    manifest = corpus(tmp_path, [BINARY, PROSE, PROSE + " more"], shards=1)
    suspects = triage(manifest, [0, 1, 2], [], losses={0: 9.5})

    assert suspects[0].doc == 0
    assert suspects[0].loss == 9.5
    assert suspects[0].source == "test"
    assert triage(manifest, [], []) == []
