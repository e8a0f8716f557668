"""Reports: hostile text does nothing, pages stand alone, pictures need their extra."""

from __future__ import annotations

import html.parser
import io
import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from helpers_respond import losses, make_corpus, make_run
from hypothesis import given
from hypothesis import strategies as st

from shardward.loader.errors import FormatError, MissingExtra
from shardward.quarantine.respond.curves import curves_json, curves_png
from shardward.quarantine.respond.filing import write_report
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.quarantine.respond.narrative import _trigger, narrative
from shardward.quarantine.respond.report import build_report, describe
from shardward.quarantine.respond.report_html import render_html
from shardward.quarantine.respond.report_markdown import render_markdown
from shardward.quarantine.respond.safe_text import (
    html_text,
    markdown_block,
    markdown_text,
    visible,
)
from shardward.quarantine.respond.svg import chart, thin, ticks

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> ``` ]( javascript:x) @admin "
    "https://evil.example/ \u202e\u2066rtl\x00\x1b[31m\ud800 a\u0301\u0301\u0301\u0301\u0301 "
    "| x\n# h"
)


class Scene:
    def __init__(self, home: Path) -> None:
        manifest = make_corpus(home)
        self.run = make_run(home, manifest)
        self.incident: Incident = IncidentStore(self.run.path).open(
            onset=20, detected=22, actor="kim"
        )


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def hostile_suspects() -> dict[str, Any]:
    text = HOSTILE.replace("\ud800", "")
    suspect = {
        "doc": 1,
        "id": text,
        "shard": text,
        "row": 1,
        "source": text,
        "score": 0.5,
        "family": None,
        "reasons": [text],
        "spans": [{"start": 0, "end": 9, "text": text}],
    }
    return {"suspects": [suspect]}


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def tags(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(page)
    return parser.found


def test_the_page_stands_alone_and_runs_nothing(scene: Scene) -> None:
    scene.incident.attach("suspects", hostile_suspects(), actor="kim")
    scene.incident.attach(
        "curves", curves_json({HOSTILE[:60]: {"loss": losses(1, 40)}}), actor="kim"
    )

    page = render_html(build_report(scene.incident, scene.run))

    names = {tag for tag, _ in tags(page)}
    assert not names & {"script", "img", "link", "iframe", "object", "a", "form", "base"}
    for _, attributes in tags(page):
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "href")]
    assert "default-src 'none'" in page
    assert "url(" not in page


def test_hostile_text_is_shown_and_cannot_act(scene: Scene) -> None:
    scene.incident.attach("suspects", hostile_suspects(), actor="kim")
    report = build_report(scene.incident, scene.run)

    page, markdown = render_html(report), render_markdown(report)

    for text in (page, markdown):
        assert "⟨U+202E⟩" in text
        assert "⟨U+001B⟩" in text
        assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x0e-\x1f\x7f-\x9f]", text)
    assert "&lt;script&gt;" in page


def test_signal_names_of_a_watch_plan_cannot_act(scene: Scene) -> None:
    names = ("loss", HOSTILE.replace("\ud800", ""))
    thresholds = [{"signal": name, "ceiling": 3.0, "level": 2.0} for name in names]
    result = {"verdict": "clear", "reason": "x", "seen_to": 30, "levels": {}, "strikes": []}
    report = build_report(scene.incident, scene.run)
    plan = {"first": 21, "last": 30, "thresholds": thresholds}
    report["watch"] = {"plan": plan, "result": result}

    markdown = render_markdown(report)

    assert "A non-loss signal" in markdown
    assert not re.search(r"(?<!\\)<(script|img)", markdown)
    assert "\u202e" not in markdown
    assert "@admin" not in markdown


def test_the_trigger_names_the_shard_with_most_of_the_tokens(scene: Scene) -> None:
    report = build_report(scene.incident, scene.run)
    report["window"] = {"shards": {"a.parquet": 0.375, "b.parquet": 0.5, "c.parquet": 0.125}}

    assert "50% of the window's tokens came from shard b.parquet" in _trigger(report)


def test_the_reason_why_a_person_went_on_stands_in_both_documents(scene: Scene) -> None:
    report = build_report(scene.incident, scene.run)
    report["confirm"] = {"verdict": "insufficient", "accepted": "seen by hand", "items": []}

    for text in (render_markdown(report), render_html(report)):
        assert "Accepted by hand: seen by hand." in text


@given(st.text())
def test_visible_text_is_one_line_without_hidden_characters(text: str) -> None:
    shown = visible(text, 200)

    assert all(c.isprintable() for c in shown)
    assert len(shown.splitlines()) <= 1


def test_stacked_marks_cannot_paint_over_what_surrounds_them() -> None:
    shown = visible("a" + "\u0301" * 40 + "b")

    assert shown == "a" + "\u0301" * 3 + "⟨U+0301⟩" * 37 + "b"


@given(st.text())
def test_html_text_opens_no_tag_and_leaves_no_quote(text: str) -> None:
    assert not set("<>\"'") & set(html_text(text))


@given(st.text())
def test_a_markdown_cell_has_no_live_markup(text: str) -> None:
    bare = re.sub(r"\\.", "", markdown_text(text))

    assert not set("`*_[]<>|#") & set(bare)


@given(st.text(alphabet="`~\nab "))
def test_no_text_ends_its_fenced_block(text: str) -> None:
    block = markdown_block(text).split("\n")

    assert len(block) == 3
    assert block[0] == block[2] + "text"
    assert block[2] not in block[1]


def test_a_link_or_mention_in_text_stays_dead() -> None:
    shown = markdown_text("see https://evil.example www.evil.example @admin")

    assert "https://" not in shown
    assert "www.evil" not in shown
    assert "@admin" not in shown


def test_a_malformed_attachment_is_refused_with_its_place(scene: Scene) -> None:
    scene.incident.attach("suspects", {"suspects": [{"doc": "seven"}]}, actor="kim")

    with pytest.raises(FormatError, match=r"\$\.suspects\[0\]"):
        build_report(scene.incident, scene.run)


def test_a_report_can_be_written_at_any_state(scene: Scene) -> None:
    filed = write_report(scene.incident, scene.run)

    assert [p.name for p in filed.paths] == [
        "incident.json",
        "incident.md",
        "incident.html",
        "curves.png",
    ]
    assert filed.report["outcome"] == "open"


def test_a_dismissed_incident_says_so(scene: Scene) -> None:
    scene.incident.record("dismiss", actor="kim", summary={"reason": "logging glitch"})

    report = build_report(scene.incident, scene.run)

    assert report["outcome"] == "dismissed"
    assert report["timeline"][-1]["text"] == "dismiss: logging glitch"


def test_without_matplotlib_the_exact_install_command_is_said(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    report = build_report(scene.incident, scene.run)

    with pytest.raises(MissingExtra, match=r"pip install 'shardward\[report\]'"):
        curves_png(report)
    assert write_report(scene.incident, scene.run).missing is not None


def test_the_picture_is_the_same_for_the_same_curves(scene: Scene) -> None:
    curves = curves_json({"before $x$": {"loss": {1: 3.0, 2: float("nan"), 3: 2.9}}})
    scene.incident.attach("curves", curves, actor="kim")
    report = build_report(scene.incident, scene.run)

    first, second = curves_png(report), curves_png(report)

    assert first == second
    assert first.startswith(b"\x89PNG")
    size = import_module("matplotlib.image").imread(io.BytesIO(first)).shape
    assert size[0] > 100


def test_a_chart_keeps_the_spike_when_points_are_thinned() -> None:
    points = [(float(s), 3.0) for s in range(50_000)]
    points[31_000] = (31_000.0, 99.0)

    assert (31_000.0, 99.0) in thin(points)
    assert len(thin(points)) < 5000


def test_a_chart_of_nothing_or_of_one_point_is_drawn() -> None:
    assert "No data" in chart("loss", {"a": [(1, float("nan"))]})
    assert "<svg" in chart("loss", {"a": [(1, 2.0)]})


def not_data(report: dict[str, Any]) -> dict[str, Any]:
    points = {step: 3.0 - step / 100 for step in range(1, 80)}
    before, after = ({"loss": {s: v for s, v in points.items() if s >= low}} for low in (1, 31))
    left = {"act": "not-data", "actor": "kim", "time": "now", "round": 1}
    report |= {
        "outcome": "not-data",
        "timeline": [*report["timeline"], {**left, "text": "not-data: the rate was wrong"}],
        "actions": [{"what": "learning rate factor", "before": 1.0, "after": 1 / 12}],
        "curves": curves_json({"before": before, "after": after}),
    }
    return report | narrative(report)


def test_an_incident_that_was_left_says_why_and_how_the_run_went_on(scene: Scene) -> None:
    report = not_data(build_report(scene.incident, scene.run))

    assert report["resolution"] == (
        "Left as not-data: the rate was wrong. The trainer was ordered a learning rate factor of "
        "0.08333. The resumed run was logged to step 79; its loss ended at 2.285, 2.885 before the "
        "onset."
    )


def test_one_of_a_kind_is_told_in_the_singular(scene: Scene) -> None:
    summary = {"first": 19, "last": 22, "documents": 5, "shards": 1, "unusual": True}
    event = replace(scene.incident.events()[0], act="identify", summary=summary)

    assert describe(event) == "identify: steps 19 to 22 were fed 5 documents from 1 shard"


def test_only_what_was_quarantined_has_to_be_rebuilt(scene: Scene) -> None:
    report = not_data(build_report(scene.incident, scene.run))
    skip = {"revision": 1, "documents": 3, "skips": 0, "no_skip": None}

    assert "Rebuild" not in render_markdown(report)
    assert "Rebuild the corpus" in render_markdown(report | {"skip": skip})
    assert "Rebuild" not in render_markdown(report | {"skip": skip | {"no_skip": "the rate"}})


@pytest.mark.parametrize("names", [("loss", "grad_norm"), ("loss",), ("grad_norm",)])
def test_the_rule_for_signals_beside_the_loss_is_told(scene: Scene, names: tuple[str, ...]) -> None:
    limits = [{"signal": name, "ceiling": 4.0, "level": 3.0} for name in names]
    plan = {"first": 1, "last": 9, "thresholds": limits, "rollback_after": 2}
    result = {"verdict": "clear", "seen_to": 9, "strikes": [], "levels": {}, "reason": "quiet"}
    report = build_report(scene.incident, scene.run) | {"watch": {"plan": plan, "result": result}}

    told = ["recurs only beside a raised loss" in render_html(report)]
    told.append("recurs only beside a raised loss" in render_markdown(report))

    assert told == [len(names) == 2] * 2


def test_suspects_that_were_judged_bad_are_marked_and_come_first(scene: Scene) -> None:
    one = hostile_suspects()["suspects"][0]
    report = build_report(scene.incident, scene.run)
    report |= {"suspects": [one | {"doc": doc, "verdict": doc == 8} for doc in (7, 8)]}

    for text in (render_html(report), render_markdown(report)):
        bare = re.sub(r"<[^>]+>| ", "", text.replace("</td>", "|").replace("| ", "|"))
        assert 0 < bare.index("8|yes|") < bare.index("7|no|")
        assert "Timeline" in text[: text.index("Suspects")]


def test_the_lines_of_a_chart_stand_at_round_values() -> None:
    assert ticks(-0.1, 3.2) == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert ticks(31, 273, least=1) == [50, 100, 150, 200, 250]
    assert ticks(1, 2, least=1) == [1, 2]
    assert ticks(-1e308, 1e308) == [-1e308, 1e308]
