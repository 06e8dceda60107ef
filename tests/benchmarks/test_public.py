"""The benchmark of public tasks: play data of OGBench, rows, and the table beside published results."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import public

TASK = "cube-single-singletask-task1-v0"


def fabricated(env: Any, solved: list[bool]) -> dict[str, Any]:
    """Return an episode of play in which the cube is at the goal of ``env``, or 10 cm away from it."""
    rows = len(solved)
    qpos = np.zeros((rows, 21), np.float32)
    goal = env.unwrapped._data.mocap_pos[0]
    qpos[:, 14:17] = goal + 0.1 * (1 - np.array(solved, float))[:, None]
    state = np.arange(rows, dtype=np.float32)[:, None] * np.ones(28, np.float32)
    return {"observations": state, "actions": np.full((rows, 5), 0.5, np.float32), "qpos": qpos}


def test_play_is_cut_where_the_goal_is_reached() -> None:
    gymnasium, ogbench = pytest.importorskip("gymnasium"), pytest.importorskip("ogbench")
    from benchmarks.ogbench_play import labelled

    del ogbench
    env = gymnasium.make(TASK)
    env.reset(seed=0)
    # Reached in rows 3 and 4, left in row 5, reached again in row 8; the last row has no action.
    play = fabricated(env, [row in (3, 4, 8, 9) for row in range(11)])
    episodes = list(labelled(TASK, env, play, 2, itertools.count(7)))
    assert [[int(step.observation["state"][0]) for step in episode] for episode in episodes] == [
        [0, 1, 2, 3],
        [5, 6, 7, 8],
    ]
    for index, episode in enumerate(episodes):
        assert [step.rewards["reward"] for step in episode] == [-1, -1, -1, 0]
        assert [step.terminated for step in episode] == [False, False, False, True]
        assert all(step.episode == 7 + index and step.session == 2 and not step.truncated for step in episode)
        assert all(b.follows(a) for a, b in itertools.pairwise(episode))
    unsolved = list(labelled(TASK, env, fabricated(env, [False] * 4), 0, itertools.count()))
    assert [(step.truncated, step.terminated) for step in unsolved[0]] == [(False, False)] * 2 + [(True, False)]


def test_play_is_seeded_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ogbench")
    from benchmarks import ogbench_play

    monkeypatch.setattr(ogbench_play, "STEPS", 12)
    first = list(ogbench_play.cached("cube-single", 2, 5, tmp_path / "a"))
    second = list(ogbench_play.cached("cube-single", 2, 5, tmp_path / "b"))
    for one, other in zip(first, second, strict=True):
        assert one["observations"].shape == (12, 28) and one["qpos"].shape[0] == 12
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])
    assert not np.array_equal(first[0]["actions"], first[1]["actions"])
    monkeypatch.setattr(ogbench_play, "Play", None)  # nothing is recorded again
    assert len(list(ogbench_play.cached("cube-single", 2, 5, tmp_path / "a"))) == 2


def run_folder(runs: Path, suite: str, name: str, seed: int, status: str, curve: list[tuple[int, float]]) -> None:
    folder = runs / suite / f"{name}_{seed}"
    folder.mkdir(parents=True)
    facts = {"status": status, "seed": seed, "wall_seconds": 600.0, "versions": {"robo-rl": "0"}}
    (folder / "summary.json").write_text(json.dumps(facts))
    lines = [{"kind": "evaluation", "step": step, "return_mean": value, "success_rate": value} for step, value in curve]
    (folder / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n")


def test_the_table_holds_ended_runs_beside_published_results(tmp_path: Path) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    for seed, value in enumerate((300.0, 500.0, 400.0)):
        run_folder(runs, "dm_control", "cheetah-run_redq", seed, "completed", [(25_000, 1.0), (50_000, value)])
    run_folder(runs, "dm_control", "walker-run_redq", 0, "interrupted", [(25_000, 1.0)])
    run_folder(runs, "ogbench", "cube-double-singletask-task2-v0_qc", 0, "completed", [(100_000, 0.5)])
    public.write(results, public.rows_of(runs))
    rows = json.loads((results / "public.json").read_text())
    assert [(row["suite"], row["task"], row["agent"], row["seed"]) for row in rows] == [
        *(("dm_control", "cheetah-run", "redq", seed) for seed in range(3)),
        ("ogbench", "cube-double-singletask-task2-v0", "qc", 0),
    ]
    assert rows[0]["curve"][-1] == [100_000, 300.0]  # environment steps: each action is executed twice
    text = (results / "public.md").read_text()
    assert "| cheetah-run | 400, 400 [300, 500] (3 seeds, 10 min) | 178 |" in text
    assert "| cube-double-singletask-task2-v0 | 0.50, 0.50 [0.50, 0.50] (1 seeds, 10 min) | 0.25 | 0.28 |" in text
    assert "walker-run" not in text
    (runs / "ogbench" / "cube-double-singletask-task2-v0_qc_0" / "summary.json").unlink()
    public.write(results, public.rows_of(runs))  # rows of folders that are gone stay
    assert len(json.loads((results / "public.json").read_text())) == 4


def test_only_runs_without_a_row_are_made_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []
    monkeypatch.setattr(public, "train", lambda options, task, agent, seed, folder: made.append((agent, seed)))
    row = {"suite": "dm_control", "task": "cheetah-run", "agent": "redq", "seed": 0, "curve": []}
    (tmp_path / "public.json").write_text(json.dumps([row | {"status": "completed"}]))
    words = ["--suite", "dm_control", "--tasks", "cheetah-run", "--agents", "redq", "xqc", "--seeds", "2"]
    folders = ["--results", str(tmp_path), "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr("sys.argv", ["public.py", *words, *folders, "--missing"])
    public.main()
    assert made == [("xqc", 0), ("redq", 1), ("xqc", 1)]
    monkeypatch.setattr("sys.argv", ["public.py", *words, *folders])
    public.main()
    assert made[3:] == [("redq", 0), ("xqc", 0), ("redq", 1), ("xqc", 1)]


def test_every_published_task_has_a_suite() -> None:
    assert set(public.SUITES) == set(public.PUBLISHED) - {"sources"} == set(public.PUBLISHED["sources"])
