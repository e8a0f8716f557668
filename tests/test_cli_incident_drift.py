"""A drifting evaluation harness as an exit: what shows it, and what lets no hurt model through."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from helpers_incident import Desk
from helpers_respond import make_run

from shardward.loader.manifest import Manifest
from shardward.loader.stream import ShardLoader
from shardward.quarantine.respond.incident import IncidentStore

EVAL = """
import json, sys
spec = json.load(open(sys.argv[1]))
row = {"step": spec["first"], "loss": 3.0}
row[sys.argv[3]] = float(sys.argv[4]) if spec["first"] < 60 else float(sys.argv[5])
open(sys.argv[2], "w").write(json.dumps(row) + "\\n")
"""
DRIFT = ("dismiss", "INC-0001", "--as", "eval-drift", "--reason", "new harness", "--yes")


class EvalDesk(Desk):
    """A run to step 70 that logs evaluations every ten steps; without `spike` its loss is calm."""

    def __init__(self, home: Path, manifest: Manifest, *, logged: str, spike: bool) -> None:
        self.manifest, self.run, self.home = manifest, make_run(home, manifest), home
        with ShardLoader(manifest, self.run.plan(), run=self.run, batch=2) as loader:
            for batch in loader:
                step = batch.step
                signals: dict[str, Any] = {logged: 3.0} if step % 10 == 0 else {}
                signals["loss"] = (9.0 if spike and step >= 60 else 3.0) + (step * 7 % 13) / 400
                loader.observe(step, **signals)
                if step % 10 == 0:
                    loader.checkpoint(step, f"ckpt-{step}")
                if step == 70:
                    return

    def evaluate(self, healthy: str, scene: str, *more: str, metric: str = "loss") -> None:
        script = self.home / "eval.py"
        script.write_text(EVAL)
        command = f"{sys.executable} {script} {{spec}} {{metrics}} {metric} {healthy} {scene}"
        self.json("open", "--onset", "60", "--detected", "62", "--yes")
        self.json("confirm", "INC-0001", "--eval", command, *more, "--yes")

    def refused(self) -> Result:
        result = self.type(*DRIFT)
        assert result.exit_code == 1, result.output
        assert self.json("show", "INC-0001")["outcome"] != "dismissed"
        return result


@pytest.mark.parametrize("logged", ["eval/loss", "heldout/loss"])
def test_a_healthy_checkpoint_that_is_worse_today_is_a_drift_with_the_evidence_frozen(
    tmp_path: Path, manifest: Manifest, logged: str
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged=logged, spike=False)
    desk.evaluate("4.0", "4.0")

    assert desk.json(*DRIFT)["state"] == "dismissed"

    incident = IncidentStore(desk.run.path).get("INC-0001")
    event = incident.last("dismiss")
    assert event is not None
    stored = incident.evidence(event, "evidence")
    assert stored["evaluations"]["healthy"]["values"] == {"loss": 4.0}
    [row] = stored["then_and_now"]
    assert (row["step"], row["logged"], row["now"], row["drifted"]) == (50, 3.0, 4.0, True)
    assert desk.json("file", "INC-0001", "--yes")["state"] == "filed"


@pytest.mark.parametrize(
    ("healthy", "scene", "said"),
    [
        ("4.0", "NaN", "the scene is hurt: its evaluation loss is nan"),
        ("4.0", "Infinity", "the scene is hurt: its evaluation loss is inf"),
        ("4.0", "9.0", "the scene is worse than the healthy checkpoint by loss (9 against 4)"),
        ("NaN", "3.0", "the healthy checkpoint is not finite by loss"),
        ("3.0", "3.0", "is 3 today and was 3 at its time, which is no worse"),
        ("2.0", "2.0", "is 2 today and was 3 at its time, which is no worse"),
    ],
)
def test_evaluations_that_show_no_drift_are_refused_with_the_reason(
    tmp_path: Path, manifest: Manifest, healthy: str, scene: str, said: str
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/loss", spike=False)
    desk.evaluate(healthy, scene)

    assert said in desk.refused().stderr


def test_a_training_loss_that_diverged_is_no_drift_of_a_harness(
    tmp_path: Path, manifest: Manifest
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/loss", spike=True)
    desk.evaluate("4.0", "4.0")

    assert "the training loss itself diverged" in desk.refused().stderr


def test_the_training_loss_is_no_evaluation_whatever_the_harness_calls_its_metric(
    tmp_path: Path, manifest: Manifest
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/other", spike=False)
    desk.evaluate("4.0", "4.0")

    assert "logged no evaluation loss (as eval/loss or heldout/loss) at step 50" in (
        desk.refused().stderr
    )


@pytest.mark.parametrize(
    ("way", "state"), [("lower", "dismissed"), ("higher", "opened"), ("", "opened")]
)
def test_a_metric_whose_name_does_not_say_is_judged_the_way_that_a_person_said(
    tmp_path: Path, manifest: Manifest, way: str, state: str
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/mmlu", spike=False)
    desk.evaluate("2.0", "2.0", *(("--worse", f"mmlu={way}") if way else ()), metric="mmlu")

    result = desk.type(*DRIFT)

    assert desk.json("show", "INC-0001")["state"] == state
    assert ("--worse mmlu=higher" in result.stderr) == (not way)


def test_a_drift_without_evidence_names_the_command_for_it(
    tmp_path: Path, manifest: Manifest
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/loss", spike=False)
    desk.json("open", "--onset", "60", "--yes")

    assert "run incident confirm INC-0001 --eval CMD" in desk.type(*DRIFT).stderr


@pytest.mark.parametrize("command", ["", "eval.sh"])
def test_a_command_that_cannot_evaluate_is_refused_in_the_preview_too(
    tmp_path: Path, manifest: Manifest, command: str
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/loss", spike=False)
    desk.json("open", "--onset", "60", "--yes")

    for more in ((), ("--yes",)):
        result = desk.type("confirm", "INC-0001", "--eval", command, *more)
        assert (result.exit_code, "must name {spec}" in result.stderr) == (2, True)


def writing(home: Path, text: str) -> str:
    """Return the command of a harness that writes `text`; {v} is 0.6 healthy and 0.2 later."""
    (home / "write.py").write_text(
        "import json, sys\n"
        "value = 0.6 if json.load(open(sys.argv[1]))['first'] < 60 else 0.2\n"
        f"open(sys.argv[2], 'w').write({text!r}.replace('<v>', str(value)))\n"
    )
    return f"{sys.executable} {home / 'write.py'} {{spec}} {{metrics}}"


@pytest.mark.parametrize(
    ("text", "more", "name", "way", "judged"),
    [
        ('{"mmlu": <v>}', ("--worse", "mmlu=lower"), "mmlu", "lower is worse", "agrees"),
        ('{"mmlu": <v>}', ("--worse", "mmlu=higher"), "mmlu", "higher is worse", "does not agree"),
        ('{"mmlu": <v>}', (), "mmlu", "say which way is worse: --worse mmlu=lower", "cannot say"),
        ('{\n"task": "x",\n"em_acc": <v>, "ok": true}\n', (), "em_acc", "lower is worse", "agrees"),
        ('{"step": 1, "f1": 9}\n\n{"step": 2, "f1": <v>}\n', (), "f1", "lower is worse", "agrees"),
    ],
)
def test_any_number_is_a_metric_and_the_answer_says_which_was_used(
    tmp_path: Path,
    manifest: Manifest,
    text: str,
    more: tuple[str, ...],
    name: str,
    way: str,
    judged: str,
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/loss", spike=True)
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")

    result = desk.type("confirm", "INC-0001", "--eval", writing(tmp_path, text), *more, "--yes")

    told = " ".join(result.stdout.split())
    assert f"evaluated by {name} ({way}): 0.6 healthy, 0.2 scene" in told
    assert f"eval/{name}: {judged}" in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no metric"),
        ('{"task": "mmlu", "ok": true, "step": 3}', "holds no metric"),
        ("[0.4]", "is no JSON object"),
        ('{"mmlu": 0.4}\n{"mm', "line 2 is no JSON object"),
        ('{"mmlu": 1' + "0" * 400 + "}", "mmlu is an integer that no float holds"),
        ("[" * 100_000, "line 1 is no JSON object"),
    ],
)
def test_a_harness_that_wrote_no_metric_is_named_and_nothing_is_recorded(
    tmp_path: Path, manifest: Manifest, text: str, said: str
) -> None:
    desk = EvalDesk(tmp_path, manifest, logged="eval/loss", spike=True)
    desk.json("open", "--onset", "60", "--detected", "62", "--yes")

    result = desk.type("confirm", "INC-0001", "--eval", writing(tmp_path, text), "--yes")

    assert (result.exit_code, said in result.stderr) == (1, True), result.stderr
    assert desk.json("show", "INC-0001")["state"] == "opened"
