"""Unfilled templates and filler Latin are told from texts that use or mention placeholders."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from helpers_search import corpus, prose

from shardward.quarantine.search.opinions import panel
from shardward.quarantine.search.residue import TemplateResidue
from shardward.quarantine.search.triage import triage

RNG = random.Random(9)
LOREM = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut "
    "labore et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation. "
)
RESIDUE = {
    "jinja": "Dear {{ customer.name }}, {% if order.late %}sorry{% endif %} {{ order.id }}\n" * 9,
    "erb": "<h1><%= page.title %></h1> <%= yield %> &lt;%= post.body %&gt;\n" * 9,
    "python": "Hello %(first_name)s %(last_name)s, your %(thing)s waits.\n" * 9,
    "notes": "This agreement of [DATE] is between [COMPANY NAME] and [INSERT NAME HERE].\n" * 9,
    "filler": LOREM * 4,
    "rtf": r"{\rtf1\ansi\f0\fs24 " + r"{\fs22\insrsid123456 word }" * 20 + "}",
    "byte pairs": "\u0120Some \u0120tok ens \u0120as \u0120they \u0120are \u0120kept",
    "word pieces": "un ##like ##ly word ##s piece ##d to ##geth ##er",
    "subwords": "un@@ like@@ ly word@@ s piece@@ d to@@ geth@@ er",
    "escaped twice": r"it said \\\"no\\\" and left\\n" * 9,
}
CLEAN = {
    "catalogue": "cannot open %s: %s\nmoved %d of %d files to %s\n" * 20,
    "shell": 'cp "${source}/${name}" "${target}"\nrm -f "${name}.tmp"\n' * 20,
    "manual of templates": (prose(RNG, 30) + " Write {{ name }} for the name. ") * 6,
    "page about lorem ipsum": LOREM + prose(RNG, 60) + " lorem ipsum.",
    "four placeholders": "{{ a }}{{ b }}{{ c }}{{ d }}",
    "latin": "Gallia est omnis divisa in partes tres, quarum unam incolunt Belgae. " * 6,
    "nothing": "",
    "tex": r"{\bf Let} $\alpha_1 \leq \frac{1}{2}$ be \section{small} \x41 \u0041 \cite{a1}. " * 20,
    "strings": 'print("one\\n", "two\\n", \'{"a": "b\\"c"}\')\n' * 20,
    "headings": "## One\n### Two\n#include <a.h>\n" * 20,
    "maltese": "Il-Gvern ta' Malta u \u0120enerali f'\u0120unju huma hawn illum. " * 9,
}


@pytest.mark.parametrize("kind", sorted(RESIDUE))
def test_templates_that_nothing_filled_are_found(kind: str) -> None:
    text = RESIDUE[kind]
    opinion = TemplateResidue().examine(text, "")

    assert opinion is not None
    assert opinion.decides
    assert opinion.score >= 0.5
    assert all(text[start:end].strip() for start, end in opinion.spans)


@pytest.mark.parametrize("kind", sorted(CLEAN))
def test_texts_that_live_by_placeholders_or_mention_them_are_not(kind: str) -> None:
    assert TemplateResidue().examine(CLEAN[kind], "") is None


@pytest.mark.parametrize("unit", ["\\", "@", "\u0120", "##", "\\a", "{\\rtf\\a"])
def test_a_long_run_is_read_once(unit: str) -> None:
    opinion = TemplateResidue().examine(unit * (300_000 // len(unit)), "")

    assert opinion is None or opinion.decides


def test_two_in_a_window_are_suspects(tmp_path: Path) -> None:
    assert "template-residue" in {detector.name for detector in panel().detectors}
    texts = [prose(RNG, 80) for _ in range(12)] + [RESIDUE["jinja"], RESIDUE["notes"]]
    suspects = triage(corpus(tmp_path, texts), [0, 12, 13], range(1, 12))

    named = {f.detector for s in suspects if s.verdict and s.doc == 13 for f in s.findings}
    assert "template-residue" in named
