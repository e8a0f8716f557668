"""The postmortem in Markdown, in the customary order, with hostile text made harmless."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .narrative import bad_first, watched, witness
from .safe_text import markdown_block, markdown_text

MOST_ROWS = 50
MOST_NAMED = 20


def render_markdown(report: Mapping[str, Any]) -> str:
    """Return the document for a report that its schema accepts."""
    sections = [
        ("Summary", markdown_text(report["summary"], 2000)),
        ("Impact", _facts(report["impact"])),
        ("Root causes", _causes(report["causes"])),
        ("Trigger", markdown_text(report["trigger"], 1000)),
        ("Resolution", markdown_text(report["resolution"], 2000)),
        ("Detection", _detection(report)),
        ("Run", _facts(report["detection"]["context"])),
        ("Decisions", _decisions(report["decisions"])),
        ("Action items", _actions(report)),
        ("Recurrence", _watch(report["watch"])),
        ("Proof", _proof(report["proof"])),
        ("Lessons", _list(report["lessons"])),
        ("Timeline", _timeline(report["timeline"])),
        ("Window", _window(report["window"])),
        ("Suspects", _suspects(report["suspects"])),
        ("Commands that reproduce the numbers", _commands(report["commands"])),
    ]
    title = markdown_text(f"{report['id']}: {report['outcome']}")
    head = f"# {title}\n\nRun {markdown_text(report['run_id'])}, {report['created']}.\n"
    return head + "".join(f"\n## {name}\n\n{text}\n" for name, text in sections if text)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table of escaped cells; at most 50 rows, the rest counted."""
    every = list(rows)
    if not every:
        return ""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in every[:MOST_ROWS]]
    if len(every) > MOST_ROWS:
        lines.append(f"\n{len(every) - MOST_ROWS} more rows stand in incident.json.")
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list | tuple):
        return "; ".join(_cell(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{markdown_text(name)} {_cell(item)}" for name, item in value.items())
    return markdown_text(value)


def _facts(facts: Mapping[str, Any] | None) -> str:
    if not facts:
        return ""
    return table(("what", "value"), ((n.replace("_", " "), v) for n, v in facts.items()))


def _list(items: Sequence[str]) -> str:
    return "\n".join(f"- {markdown_text(item, 2000)}" for item in items)


def _commands(items: Sequence[str]) -> str:
    return "\n".join(markdown_block(item) for item in items)


def _causes(causes: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("cause", "score", "for", "against"),
        ((c["name"], c["score"], c["evidence_for"], c["evidence_against"]) for c in causes),
    )


def _detection(report: Mapping[str, Any]) -> str:
    detection = report["detection"]
    text = markdown_text(
        f"Detected at step {detection['detected']}, {detection['delay_steps']} steps after the "
        "onset."
    )
    confirm = report["confirm"]
    if not confirm:
        return text
    rows = ((i.get("signal"), i.get("agrees"), i.get("note")) for i in confirm["items"])
    accepted = f" Accepted by hand: {confirm['accepted']}." if confirm["accepted"] else ""
    verdict = markdown_text(f"Verdict: {confirm['verdict']}.{accepted}", 1000)
    return f"{text} {verdict}\n\n" + table(("signal", "agrees", "note"), rows)


def _window(window: Mapping[str, Any] | None) -> str:
    if not window:
        return ""
    documents = window["documents"]
    text = (
        f"Steps {window['first']} to {window['last']}, {window['samples']} samples, "
        f"{len(documents.get('doc', ()))} documents."
    )
    comparisons = table(
        ("measure", "window", "controls", "distance", "unusual"),
        (
            (c["name"], c["value"], c["controls"], c["distance"], c["unusual"])
            for c in window["comparisons"]
        ),
    )
    return f"{text}\n\n{comparisons}\n\n" + table(("shard", "share"), window["shards"].items())


def _suspects(suspects: Sequence[Mapping[str, Any]]) -> str:
    suspects = bad_first(suspects)
    parts = [
        table(
            ("doc", "judged bad", "id", "shard", "score", "reasons"),
            (
                (s["doc"], s.get("verdict"), s["id"], s["shard"], s["score"], s["reasons"])
                for s in suspects
            ),
        )
    ]
    for suspect in suspects[:10]:
        for span in suspect["spans"][:2]:
            where = f"Document {suspect['doc']}, characters {span['start']} to {span['end']}:"
            parts.append(f"{where}\n\n{markdown_block(span['text'], 300)}")
    return "\n\n".join(part for part in parts if part)


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> str:
    return table(
        ("number", "action", "scope", "reason", "actor"),
        (
            (d["sequence"], d["action"], _scope(d["scope"]), d["reason"], d["actor"])
            for d in decisions
        ),
    )


def _scope(scope: Mapping[str, Any]) -> str:
    documents = scope.get("documents", [])
    named = f"{scope['kind']} {scope.get('value', '')}".strip()
    if not documents:
        return named
    first = ", ".join(str(doc) for doc in documents[:MOST_NAMED])
    more = f" and {len(documents) - MOST_NAMED} more" if len(documents) > MOST_NAMED else ""
    return (
        f"{named}: documents {first}{more}"
        if scope["kind"] != "document"
        else (f"documents {first}{more}")
    )


def _actions(report: Mapping[str, Any]) -> str:
    done = table(
        ("done", "before", "after"),
        ((a["what"], a["before"], a["after"]) for a in report["actions"]),
    )
    return f"{done}\n\n{_rebuilt(report)}".strip()


def _rebuilt(report: Mapping[str, Any]) -> str:
    rebuild = report["rebuild"]
    if not rebuild:
        skip = report["skip"]
        if skip and not skip["no_skip"] and skip["documents"]:
            return "- Rebuild the corpus without the quarantined documents."
        return ""
    return markdown_text(
        f"Rebuilt the corpus: {rebuild['rows_in']} documents in, {rebuild['rows_out']} out, "
        f"{rebuild['removed']} removed."
    )


def _watch(watch: Mapping[str, Any] | None) -> str:
    if not watch:
        return ""
    plan, result = watch["plan"], watch["result"]
    said = markdown_text(watched(watch), 1000)
    bounds = table(
        ("signal", "a strike over", "must end below", "ended at"),
        (
            (t["signal"], t["ceiling"], t["level"], result["levels"].get(t["signal"]))
            for t in plan["thresholds"]
        ),
    )
    strikes = table(
        ("step", "signal", "value"),
        ((s["step"], s["signal"], s["value"]) for s in result["strikes"]),
    )
    beside = markdown_text(witness(plan), 1000)
    return "\n\n".join(part for part in (said, bounds, beside, strikes) if part)


def _proof(proof: Mapping[str, Any] | None) -> str:
    if not proof:
        return ""
    return table(
        ("check", "holds", "checked", "note"),
        ((c["name"], c["holds"], c["checked"], c["note"]) for c in proof["checks"]),
    )


def _timeline(events: Sequence[Mapping[str, Any]]) -> str:
    return table(("time", "who", "what"), ((e["time"], e["actor"], e["text"]) for e in events))
