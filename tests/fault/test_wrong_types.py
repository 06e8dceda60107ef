"""Files of wrong content end in errors of ours: each value of each file in turn is of another type, or missing."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robo_rl.actor import Spool
from robo_rl.core import CheckpointError, DataError, EnvSpec, RoboRLError, SpecError, parse_json
from robo_rl.evaluation.aggregate import group_runs
from robo_rl.evaluation.curves import curves
from robo_rl.evaluation.report import _configuration, _run_table, _starts, _versions, results
from robo_rl.evaluation.runs import load_run
from robo_rl.evaluation.start_states import start_map
from robo_rl.learner import Checkpoint, CheckpointFolder, load_checkpoint
from robo_rl.learner.checkpoint import _digest
from robo_rl.monitoring.run_table import facts, step_rate
from robo_rl.monitoring.viewer import record_run
from robo_rl.replay import EpisodeStore, Intake, ReplayRing
from robo_rl.replay.labels import LabelBook
from robo_rl.safety.feasibility import FeasibilityModel
from robo_rl.safety.feasibility_filter import load_model, save_model
from robo_rl.telemetry.metrics_file import read_metrics

from ..rigs.replay_episodes import SPEC, make_episode
from ..rigs.wrong_types import mutations

DEEP = "[" * 100_000 + "]" * 100_000
NO_JSON = ("", "{", "nul", "\x00", "[NaN]", "[1e999]", DEEP, '"\\ud800"', '{"a":' * 100 + "1" + "}" * 100, "9" * 5000)


def check(document: Any, read: Callable[[str], Any], kinds: tuple[type[RoboRLError], ...]) -> int:
    """Read each mutation of a document; return how many were refused. Others are as good as the document."""
    refused = 0
    texts = [(what, json.dumps(changed)) for what, changed in mutations(document)]
    for what, text in texts + [(f"text {text[:20]!r}", text) for text in NO_JSON]:
        try:
            read(text)
        except kinds as error:
            refused += 1
            assert str(error)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return refused


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with EpisodeStore.create(tmp_path / "data", SPEC, {"task": {"name": "test"}}) as store:
        store.append_episodes([make_episode(0, 3), make_episode(1, 2)])
        LabelBook(store, 1).put(1, np.array([0, 0, 1], np.int8))
    return tmp_path / "data"


def use_data(path: Path) -> None:
    with EpisodeStore.open(path) as store:
        store.summary()
        store.check_against(SPEC)
        for number in range(len(store)):
            store.episode(number)
        LabelBook(store, 1)


def test_the_facts_of_a_data_set(data: Path) -> None:
    file = data / "dataset.json"
    document = json.loads(file.read_text())

    def read(text: str) -> None:
        file.write_text(text)
        use_data(data)

    assert check(document, read, (DataError, SpecError)) >= 150


def test_labels(data: Path) -> None:
    file = data / "labels.json"
    document = json.loads(file.read_text())
    with EpisodeStore.open(data) as store:

        def read(text: str) -> None:
            file.write_text(text)
            LabelBook(store, 1)

        assert check(document, read, (DataError,)) >= 60


def test_the_list_of_episodes(data: Path) -> None:
    file = data / "episodes.jsonl"
    first, second = file.read_text().splitlines()
    document = json.loads(first) | {
        "verdicts": {"1": {"changed": True, "stop": False, "reasons": ["a"], "message": "b"}}
    }

    def read(text: str) -> None:
        file.write_text(f"{text}\n{second}\n")
        use_data(data)

    assert check(document, read, (DataError,)) >= 150


def test_the_ledger_of_a_learner(tmp_path: Path) -> None:
    Intake(tmp_path, SPEC).close()
    document = {"actor": "a", "session": 1, "sequence": 0, "count": 3, "refused": "why"}

    def read(text: str) -> None:
        (tmp_path / "ledger.jsonl").write_text(f"{text}\n")
        intake = Intake(tmp_path, SPEC)
        intake.close()
        assert intake.totals().refused < 1 << 63

    assert check(document, read, (DataError,)) >= 30


def test_the_manifest_of_a_checkpoint(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    arrays = {"a": np.zeros(3, np.float32)}
    path = folder.save(Checkpoint(5, {"agent": arrays}, {"score": 0.5, "spec": SPEC.to_json(), "nan": float("nan")}))
    file = path / "manifest.json"
    document = json.loads(file.read_text())

    def read(text: str) -> None:
        file.write_text(text)
        folder.best()
        checkpoint = load_checkpoint(path)
        EnvSpec.from_json(checkpoint.facts.get("spec", {}))

    def read_signed(text: str) -> None:
        content = json.loads(text)
        names = ("step", "sha256", "bytes", "facts")
        signed = {name: content.get(name) for name in names} if isinstance(content, dict) else {}
        read(json.dumps({"format": 3, **signed, "digest": _digest(signed)}))

    assert check(document, read, (CheckpointError, SpecError)) >= 300
    for _, changed in mutations(document):
        try:
            read_signed(json.dumps(changed))
        except (CheckpointError, SpecError) as error:
            assert str(error)
    for part in ("../../secret", "a/b", ""):
        with pytest.raises(CheckpointError, match="hashes"):
            read_signed(json.dumps(document | {"sha256": {part: "0"}}))


def test_a_part_of_a_checkpoint_that_is_no_safetensors(tmp_path: Path) -> None:
    path = CheckpointFolder(tmp_path).save(Checkpoint(5, {"agent": {"a": np.zeros(3)}}, {}))
    for data in (b"", b"\x80\x04K\x01.", b"\xff" * 64, (7).to_bytes(8, "little") + b'{"a":1}'):
        content = {"step": 5, "sha256": {"agent": hashlib.sha256(data).hexdigest()}, "facts": {}}
        (path / "agent.safetensors").write_bytes(data)
        (path / "manifest.json").write_text(json.dumps({"format": 2, **content, "digest": _digest(content)}))
        with pytest.raises(CheckpointError, match="holds no arrays"):
            load_checkpoint(path)


def test_what_a_replay_saved_of_itself() -> None:
    ring = ReplayRing(20, SPEC)
    ring.append(make_episode(0, 3, end=""))
    state = dict(ring.state())
    document = json.loads(state["facts"].tobytes())

    def read(text: str) -> None:
        fresh = ReplayRing(20, SPEC)
        fresh.load(state | {"facts": np.frombuffer(text.encode(), np.uint8)})
        fresh.append(make_episode(1, 4))

    assert check(document, read, (CheckpointError, DataError)) >= 50


def test_the_card_of_a_safety_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_model(folder, FeasibilityModel(3, 2, (8,)), SPEC, (8,), {"loss": float("nan")})
    document = json.loads((folder / "card.json").read_text())

    def read(text: str) -> None:
        (folder / "card.json").write_text(text)
        load_model(folder, SPEC)

    assert check(document, read, (RoboRLError,)) >= 150


def test_the_run_of_a_spool(tmp_path: Path) -> None:
    with Spool(tmp_path, 1 << 20) as spool:
        spool.begin_session(1)
        spool.append(0, b"record")

        def read(text: str) -> None:
            (tmp_path / "run.json").write_text(text)
            assert isinstance(spool.run, str)

        assert check({"run": "a"}, read, (DataError,)) >= 5


def test_metrics_that_a_run_goes_on_from(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    document = {"step": 3, "wall_seconds": 1.5, "kind": "episode", "episode_return": 1.0}

    def read(text: str) -> None:
        file.write_text(f"{text}\n")
        for record in read_metrics(file):
            float(record["wall_seconds"]), record["step"] > 3, record["kind"].upper()

    assert check(document, read, (DataError,)) >= 30


def test_specifications() -> None:
    assert check(SPEC.to_json(), lambda text: EnvSpec.from_json(parse_json(text, "it")), (DataError, SpecError)) >= 200


NOT_READ = {
    "dataset.json": 64 << 20,
    "labels.json": None,
    "episodes.jsonl": 1 << 30,
    "arrays.zarr/rewards/zarr.json": 1 << 20,
    "arrays.zarr/rewards/c.0.0": 1 << 20,
    "arrays.zarr/observation/state/zarr.json": 1 << 20,
}
"""Files of a data set, and a size above what is read of them; None: tested elsewhere."""


@pytest.mark.parametrize("name", NOT_READ)
def test_a_pipe_in_place_of_a_file_is_not_waited_for(data: Path, name: str) -> None:
    (data / name).unlink()
    os.mkfifo(data / name)
    with pytest.raises(DataError, match=name.rpartition("/")[0] or name):
        use_data(data)


@pytest.mark.parametrize("name", [name for name, size in NOT_READ.items() if size])
def test_files_that_are_too_large_are_not_read(data: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse ones, which take no room on the disk; they would take all memory."""

    read_whole = Path.read_bytes

    def read(path: Path) -> bytes:
        assert path != data / name, "the whole file was read"
        return read_whole(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    most = NOT_READ[name]
    assert most is not None
    with (data / name).open("r+b") as stream:
        stream.truncate(most + 1)
    with pytest.raises(DataError, match=r"expected at most [0-9,]+ bytes, found"):
        use_data(data)


def test_writing_reads_no_chunk_that_is_too_large(data: Path) -> None:
    with (data / "arrays.zarr/rewards/c.0.0").open("r+b") as stream:
        stream.truncate(1 << 32)
    with EpisodeStore.open(data, "a") as store, pytest.raises(DataError, match="expected at most"):
        store.append_episodes([make_episode(2, 3)])


LINE = {"step": 100, "wall_seconds": 3.5, "kind": "episode", "episode_return": 1.0, "success": True, "stopped": "why",
        "safety/changed_steps": 3, "length": 9, "intervened_steps": 4, "interventions": 1,
        "intervention_share": 0.4}  # fmt: skip
EVALUATION = {"step": 100, "wall_seconds": 3.6, "kind": "evaluation", "success_rate": 0.5, "episodes": 2,
              "return_mean": 1.0}  # fmt: skip
RUNTIME = {"step": 100, "wall_seconds": 3.6, "kind": "runtime", "ratio": 1.0, "spooled": 0, "blocked": "no"}
TRAIN = {"step": 100, "wall_seconds": 3.6, "kind": "train", "q_mean": 1.0, "critic_loss": 0.5}
SUMMARY = {
    "status": "completed", "task": "reach", "agent": "sac", "seed": 0, "env_steps": 100, "robot_minutes": 0.1,
    "wall_seconds": 4.0, "success_rate": {"value": 0.5, "low": 0.1, "high": 0.9, "episodes": 2}, "return_mean": 1.0,
    "updates_per_second": 5.0, "versions": {"numpy": "2"}, "git_commit": "abc",
    "started_from": {"run": "easy", "task": "reach", "agent": "sac", "step": 5, "git_commit": "abc",
                     "parts": ["policy", "critics"], "replay": {"steps": 5, "ratio": 0.25}},
}  # fmt: skip
EPISODES = [
    {"index": 0, "success": True, "start": {"cube_x": 0.1, "cube_y": -0.1}},
    {"index": 1, "success": False, "start": {"cube_x": 0.3, "cube_y": 0.2}},
]
CONFIG = {
    "task": {"name": "reach", "control_rate": 10, "parts": {"control_rate": 10}}, "agent": {"gamma": 0.9}, "seed": 0,
    "run": {"env_steps": 100, "dir": "x"}, "choices": {"task": "reach"}, "safety": {},
    "resumed": {"run": {"env_steps": 5}},
}  # fmt: skip


def use_run(path: Path) -> None:
    """Read a run as all commands do that show one; nothing of it is ever an error."""
    run = load_run(path)
    groups = group_runs([run])
    assert results(groups) and _run_table([run]) and _versions([run]) is not None and _configuration(groups)
    assert _starts([run]) is not None
    assert isinstance(start_map(run, {}), str)
    list(facts(run, True))
    curves(run)
    step_rate(run.metrics)
    record_run(SimpleNamespace(lay_out=ignore, scalars=ignore, text=ignore, video=ignore), run)  # type: ignore[arg-type]
    assert isinstance(f"{run.task}{run.agent}{run.status}{run.seed}", str)


def ignore(*values: object, **named: object) -> None:
    """Take what is shown."""


@pytest.mark.parametrize("name, document", [("summary.json", SUMMARY), ("config.yaml", CONFIG), (
    "evaluation.json", {"episodes": EPISODES}), *(("metrics.jsonl", line) for line in (LINE, EVALUATION, RUNTIME, TRAIN)
)], ids=range(7))  # fmt: skip
def test_a_run_is_shown_whatever_its_files_say(tmp_path: Path, name: str, document: Any) -> None:
    (tmp_path / "summary.json").write_text(json.dumps(SUMMARY))
    (tmp_path / "config.yaml").write_text(json.dumps(CONFIG))
    others = "".join(json.dumps(line) + "\n" for line in (LINE, EVALUATION, RUNTIME, TRAIN))
    (tmp_path / "metrics.jsonl").write_text(others)
    use_run(tmp_path)

    def read(text: str) -> None:
        (tmp_path / name).write_text(others + text + "\n" + others if name == "metrics.jsonl" else text)
        use_run(tmp_path)

    assert check(document, read, ()) == 0
