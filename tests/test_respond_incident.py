"""Incidents on disk: evidence before events, one incident a spike, nothing edited unseen."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from shardward.loader.errors import IncidentError, IntegrityError, NotFound
from shardward.quarantine.respond.incident import Incident, IncidentStore
from shardward.schemas import load_schema


@pytest.fixture
def store(tmp_path: Path) -> IncidentStore:
    return IncidentStore(tmp_path)


def opened(store: IncidentStore, onset: int = 100) -> Incident:
    return store.open(onset=onset, detected=onset + 3, actor="kim", event={"z": 9.5})


def test_incidents_are_numbered_and_listed(store: IncidentStore) -> None:
    opened(store, 100)
    opened(store, 900)

    assert store.ids() == ["INC-0001", "INC-0002"]
    assert store.get("INC-0002").events()[0].summary["onset"] == 900


def test_two_incidents_on_one_spike_are_refused_naming_the_first(store: IncidentStore) -> None:
    opened(store, 100)

    with pytest.raises(IncidentError, match="INC-0001 is open on the spike at steps 100 to 103"):
        opened(store, 110)
    assert store.open(onset=110, detected=112, actor="k", separate=True).id == "INC-0002"


@pytest.mark.parametrize("left", [{}, {"events.log": b'{"act":"op', "events.log.lock": b""}])
def test_an_opening_that_a_full_disk_cut_short_is_done_under_the_same_id(
    left: dict[str, bytes], store: IncidentStore
) -> None:
    begun = store.run_path / "incidents" / "INC-0001"
    (begun / "evidence").mkdir(parents=True)
    for name, content in left.items():
        (begun / name).write_bytes(content)

    assert store.ids() == []
    assert opened(store).id == "INC-0001"
    assert store.ids() == ["INC-0001"]


def test_the_id_of_an_incident_whose_log_was_lost_is_not_given_again(store: IncidentStore) -> None:
    (opened(store).path / "events.log").unlink()
    (store.run_path / "incidents" / "INC-0001" / "outbox").mkdir()

    assert opened(store).id == "INC-0002"


def test_a_closed_incident_does_not_block_the_next(store: IncidentStore) -> None:
    opened(store).record("dismiss", actor="kim", summary={"reason": "dashboard"})

    assert opened(store).id == "INC-0002"


def test_two_pages_at_once_open_one_incident(store: IncidentStore) -> None:
    refused: list[str] = []

    def page() -> None:
        try:
            opened(store)
        except IncidentError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=page) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.ids() == ["INC-0001"]
    assert len(refused) == 3


@pytest.mark.parametrize(("onset", "detected"), [(0, 5), (6, 5)])
def test_impossible_steps_are_refused(store: IncidentStore, onset: int, detected: int) -> None:
    with pytest.raises(IncidentError, match="do not fit"):
        store.open(onset=onset, detected=detected, actor="kim")


def test_every_event_fits_the_schema(store: IncidentStore) -> None:
    incident = opened(store)
    incident.record("confirm", actor="kim", evidence={"checklist": {"verdict": "confirmed"}})
    incident.attach("suspects", {"suspects": []}, actor="kim")

    validator = Draft202012Validator(load_schema("incident-event.v1"))

    for line in (incident.path / "events.log").read_text().splitlines():
        validator.validate(json.loads(line))


def test_evidence_comes_back_and_edits_are_seen(store: IncidentStore) -> None:
    incident = opened(store)
    event = incident.record("confirm", actor="kim", evidence={"checklist": {"verdict": "yes"}})

    assert incident.evidence(event, "checklist") == {"verdict": "yes"}

    (incident.path / event.evidence["checklist"]["path"]).write_text('{"verdict":"no"}')
    with pytest.raises(IntegrityError, match="evidence was edited"):
        incident.evidence(event, "checklist")


def test_evidence_that_is_gone_is_said(store: IncidentStore) -> None:
    incident = opened(store)
    event = incident.events()[0]
    (incident.path / event.evidence["event"]["path"]).unlink()

    with pytest.raises(NotFound, match="is gone; restore it"):
        incident.evidence(event, "event")


def test_an_edited_event_log_is_seen(store: IncidentStore) -> None:
    incident = opened(store)
    incident.record("confirm", actor="kim")
    path = incident.path / "events.log"
    path.write_text(path.read_text().replace('"onset":100', '"onset":101'))

    with pytest.raises(IntegrityError, match="was edited"):
        incident.events()


def test_a_refused_act_writes_no_event(store: IncidentStore) -> None:
    incident = opened(store)

    with pytest.raises(IncidentError):
        incident.record("rewind", actor="kim")
    assert len(incident.events()) == 1


def test_a_crash_between_evidence_and_event_is_no_matter(store: IncidentStore) -> None:
    incident = opened(store)
    incident.store("checklist", b'{"verdict":"confirmed"}')

    incident.record("confirm", actor="kim", evidence={"checklist": {"verdict": "confirmed"}})

    assert incident.case().state == "confirmed"


@pytest.mark.parametrize("name", ["INC-0009", "INC-1/../..", "../x", "", "inc-0001"])
def test_unknown_ids_are_refused(store: IncidentStore, name: str) -> None:
    with pytest.raises(NotFound):
        store.get(name)


def test_the_newest_attachment_counts(store: IncidentStore) -> None:
    incident = opened(store)
    incident.attach("causes", {"causes": [1]}, actor="kim")
    incident.attach("causes", {"causes": [2]}, actor="kim")

    assert incident.attached("causes") == {"causes": [2]}
    assert incident.attached("proof") is None
