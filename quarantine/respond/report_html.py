"""The postmortem as one self-contained HTML page: inline style and SVG, no script, no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .curves import signal_names
from .narrative import bad_first, watched, witness
from .safe_text import html_text
from .svg import chart

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#0f172a;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #cbd5e1}
table{border-collapse:collapse;width:100%;font-size:13px}
td,th{border-bottom:1px solid #e2e8f0;padding:.25rem .5rem;text-align:left;vertical-align:top;
overflow-wrap:anywhere;min-width:6em}
th,.n{min-width:0;white-space:nowrap;overflow-wrap:normal;font-variant-numeric:tabular-nums}
table+table{margin-top:1rem}
code,pre{font:12px/1.5 ui-monospace,monospace;background:#f1f5f9}
pre{padding:.5rem;white-space:pre-wrap;overflow-wrap:anywhere}
bdi,td,pre{unicode-bidi:isolate}svg{width:100%;height:auto;font:11px sans-serif}
mark{background:#fecaca}figure{margin:1rem 0}
@media(prefers-color-scheme:dark){body{background:#0f172a;color:#e2e8f0}
code,pre{background:#1e293b}td,th{border-color:#334155}svg{background:#fff}}
"""
MOST_ROWS = 200


def render_html(report: Mapping[str, Any]) -> str:
    """Return the page for a report that its schema accepts."""
    title = f"{report['id']}: {report['outcome']}"
    sections = [
        ("Summary", f"<p>{html_text(report['summary'], 2000)}</p>"),
        ("Curves", _curves(report)),
        ("Impact", _facts(report["impact"])),
        ("Root causes", _causes(report["causes"])),
        ("Trigger", f"<p>{html_text(report['trigger'], 1000)}</p>"),
        ("Resolution", f"<p>{html_text(report['resolution'], 2000)}</p>"),
        ("Detection", _facts(_without_context(report), ("kind", "onset", "detected"))),
        ("Run", _facts(report["detection"]["context"])),
        ("Confirmation", _confirm(report["confirm"])),
        ("Trials", _rows(report["trials"])),
        ("Decisions", _decisions(report["decisions"])),
        ("Actions", _rows(report["actions"])),
        ("Rewind", _facts(report["rewind"])),
        ("Skip", _facts(report["skip"])),
        ("Watch", _watch(report["watch"])),
        ("Proof", _proof(report["proof"])),
        ("Rebuild", _facts(report["rebuild"])),
        ("Timeline", _rows(report["timeline"], ("time", "actor", "act", "text"))),
        ("Lessons", _list(report["lessons"])),
        ("Window", _window(report["window"])),
        ("Suspects", _suspects(report["suspects"])),
        ("Commands that reproduce the numbers", _commands(report["commands"])),
    ]
    body = "".join(f"<section><h2>{html_text(n)}</h2>{s}</section>" for n, s in sections if s)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html_text(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html_text(title)}</h1><p>Run {html_text(report['run_id'])}, written "
        f"{html_text(report['created'])}.</p>{body}</body></html>\n"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table of escaped cells; at most 200 rows, the rest counted."""
    every = list(rows)
    if not every:
        return ""
    head = "".join(f"<th>{html_text(name)}</th>" for name in header)
    body = "".join(
        "<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in every[:MOST_ROWS]
    )
    more = len(every) - MOST_ROWS
    note = f"<p>{more} more rows stand in incident.json.</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def _cell(value: object) -> str:
    number = ' class="n"' if isinstance(value, int | float) else ""
    return f"<td{number}>{html_text(_plain(value))}</td>"


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ", ".join(str(_plain(item)) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    return value


def _facts(facts: Mapping[str, Any] | None, first: Sequence[str] = ()) -> str:
    if not facts:
        return ""
    names = [name for name in dict.fromkeys([*first, *facts]) if facts[name] not in ({}, None)]
    return table(("", ""), ((name.replace("_", " "), facts[name]) for name in names))


def _rows(rows: Sequence[Mapping[str, Any]], first: Sequence[str] = ()) -> str:
    """Return a table of objects; the columns `first` come first."""
    names = list(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    return table(names, ([row.get(name) for name in names] for row in rows))


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html_text(item, 2000)}</li>" for item in items) + "</ul>"


def _commands(items: Sequence[str]) -> str:
    return "<pre>" + "\n".join(html_text(item, 1000) for item in items) + "</pre>"


def _without_context(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report["detection"].items() if name != "context"}


def _curves(report: Mapping[str, Any]) -> str:
    branches = report["curves"]["branches"]
    detection = report["detection"]
    marks = {"onset to detection": (detection["onset"], detection["detected"] + 1)}
    return "".join(
        chart(
            signal,
            {
                branch["name"]: [(s, v) for s, v in branch["series"][signal] if v is not None]
                for branch in branches
                if signal in branch["series"]
            },
            marks=marks,
        )
        for signal in signal_names(branches)
    )


def _confirm(confirm: Mapping[str, Any] | None) -> str:
    if not confirm:
        return ""
    accepted = f" Accepted by hand: {confirm['accepted']}." if confirm["accepted"] else ""
    return f"<p>Verdict: {html_text(confirm['verdict'] + '.' + accepted)}</p>" + _rows(
        confirm["items"], ("signal", "agrees", "value", "baseline", "note")
    )


def _window(window: Mapping[str, Any] | None) -> str:
    if not window:
        return ""
    documents = window["documents"]
    names = ("doc", "id", "source", "shard", "row", "tokens", "first_step", "last_step")
    shards = table(("shard", "share of tokens"), window["shards"].items())
    sources = table(("source", "share of tokens"), window["sources"].items())
    return (
        f"<p>Steps {window['first']} to {window['last']}: {window['samples']} samples, "
        f"{len(documents.get('doc', ()))} documents.</p>"
        + table(
            ("measure", "window", "controls", "distance", "unusual"),
            (
                (c["name"], c["value"], c["controls"], c["distance"], c["unusual"])
                for c in window["comparisons"]
            ),
        )
        + shards
        + sources
        + table(
            [name.replace("_", " ") for name in names],
            zip(*(documents[name] for name in names), strict=True),
        )
    )


def _causes(causes: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("cause", "score", "evidence for", "evidence against"),
        (
            (
                c["name"].replace("_", " "),
                c["score"],
                "; ".join(map(str, c["evidence_for"])),
                "; ".join(map(str, c["evidence_against"])),
            )
            for c in causes
        ),
    )


def _suspects(suspects: Sequence[Mapping[str, Any]]) -> str:
    suspects = bad_first(suspects)
    names = ("id", "shard", "row", "source", "score", "reasons")
    parts = [
        table(
            ("doc", "judged bad", "id", "shard", "row", "source", "score", "reasons"),
            ([s["doc"], s.get("verdict"), *(s[name] for name in names)] for s in suspects),
        )
    ]
    for suspect in suspects[:40]:
        spans = "".join(
            f"<pre>{span['start']}-{span['end']}: <mark>{html_text(span['text'], 600)}</mark></pre>"
            for span in suspect["spans"]
        )
        if spans:
            parts.append(f"<h3>Document {suspect['doc']}</h3>{spans}")
    return "".join(parts)


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("number", "time", "action", "scope", "reason", "actor"),
        (
            (d["sequence"], d["time"], d["action"], d["scope"], d["reason"], d["actor"])
            for d in decisions
        ),
    )


def _watch(watch: Mapping[str, Any] | None) -> str:
    if not watch:
        return ""
    plan, result = watch["plan"], watch["result"]
    return (
        f"<p>{html_text(watched(watch), 1000)}</p>"
        + table(
            ("signal", "a strike over", "must end below", "ended at"),
            (
                (t["signal"], t["ceiling"], t["level"], result["levels"].get(t["signal"]))
                for t in plan["thresholds"]
            ),
        )
        + (f"<p>{html_text(witness(plan))}</p>" if witness(plan) else "")
        + _rows(result["strikes"], ("step", "signal", "value"))
    )


def _proof(proof: Mapping[str, Any] | None) -> str:
    return _rows(proof["checks"], ("name", "holds", "checked", "note")) if proof else ""
