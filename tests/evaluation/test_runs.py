"""Run folders, complete and killed, and the groups that are made of them."""

import json

import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.core import DataError
from robo_rl.evaluation.aggregate import group_runs, learning_curve, measure_of
from robo_rl.evaluation.runs import differences, find_runs, flatten, load_run
from robo_rl.evaluation.statistics import Proportion


def make_run(folder, seed=0, rates=(0.0, 0.5, 1.0), summary=True, task="pick_cube", agent="rlpd", utd=20, **extra):
    """Write a run folder that was evaluated each 1,000 steps at 10 Hz, 50 s apart."""
    (folder / "videos").mkdir(parents=True)
    config = f"seed: {seed}\nrun: {{dir: {folder}}}\nchoices: {{task: {task}, agent: {agent}}}\n"
    config += f"agent: {{_target_: some.SAC, update_to_data: {utd}}}\ntask: {{_target_: some.Task, control_rate: 10}}\n"
    (folder / "config.yaml").write_text(config + f"demonstrations: {{path: {folder}/demonstrations}}\n")
    lines = [
        {"step": 1000 * i, "wall_seconds": 50.0 * i, "kind": "evaluation", "success_rate": rate, "episodes": 20,
         "return_mean": 10 * (rate or i)}
        for i, rate in enumerate(rates)
    ]  # fmt: skip
    lines.append({"step": 1000 * len(rates) - 500, "wall_seconds": 50.0 * len(rates) - 25, "kind": "train", "loss": 1})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if summary:
        steps = 1000 * (len(rates) - 1)
        values = {
            "status": "completed",
            "task": task,
            "agent": agent,
            "seed": seed,
            "env_steps": steps,
            "robot_minutes": steps / 600,
            "wall_seconds": 123.0,
            "success_rate": {"value": 0.97, "low": 0.9, "high": 0.99, "episodes": 100},
            "updates_per_second": 400.0,
            "versions": {"robo-rl": "0.1.0"},
            "git_commit": "abc",
        }
        (folder / "summary.json").write_text(json.dumps({**values, **extra}))
    return folder


def test_a_complete_run(tmp_path):
    run = load_run(make_run(tmp_path / "a", seed=3))
    assert (run.task, run.agent, run.seed, run.status) == ("pick_cube", "rlpd", 3, "completed")
    assert (run.env_steps, run.wall_seconds, run.control_rate) == (2000, 123.0, 10.0)
    assert run.robot_minutes == pytest.approx(2000 / 600)
    assert run.success_rate == Proportion(0.97, 0.9, 0.99, 100)
    assert (run.evaluations.steps_to_95, run.evaluations.wall_seconds_to_95) == (2000, 100.0)
    assert run.evaluations.curve("success_rate") == ([0, 1000, 2000], [0.0, 0.5, 1.0])
    assert run.problems == ()


def test_a_killed_run_shows_what_it_left(tmp_path):
    folder = make_run(tmp_path / "a", rates=(0.0, 0.5), summary=False)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2000, "wall_seconds": 100}\n')  # Of no kind.
        file.write('{"step": 2000, "wall_s')
    run = load_run(folder)
    assert (run.task, run.agent, run.status) == ("pick_cube", "rlpd", "unfinished")
    assert (run.env_steps, run.wall_seconds, run.control_rate) == (1500, 75.0, 10.0)
    assert run.success_rate == Proportion.of(10, 20)
    assert run.evaluations.steps_to_95 is None
    assert run.problems[0] == "metrics.jsonl: 2 unreadable lines left out"
    assert run.problems[1].startswith("no summary.json: the run is still active or was killed")


def test_an_interrupted_run_has_the_success_of_its_last_evaluation(tmp_path):
    run = load_run(make_run(tmp_path / "a", rates=(0.0, 0.25), status="interrupted", success_rate=None))
    assert run.success_rate == Proportion.of(5, 20)
    assert run.problems == ("interrupted at step 1000; success is that of the last evaluation",)


@pytest.mark.parametrize("missing", ["config.yaml", "metrics.jsonl", "summary.json"])
def test_each_file_may_be_missing_or_damaged(tmp_path, missing):
    folder = make_run(tmp_path / "a")
    (folder / missing).write_text("{ [ no")
    damaged = load_run(folder)
    assert len(damaged.problems) == 1 and missing in damaged.problems[0]
    (folder / missing).unlink()
    assert len(load_run(folder).problems) == 1 and missing in load_run(folder).problems[0]


def test_the_last_of_two_evaluations_of_a_step_counts(tmp_path):
    folder = make_run(tmp_path / "a")
    again = {"step": 2000, "wall_seconds": 120, "kind": "evaluation", "success_rate": 0.9, "episodes": 100}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(again) + "\n")
    assert load_run(folder).evaluations.curve("success_rate")[1] == [0.0, 0.5, 0.9]


def test_runs_are_found_in_folders_sweeps_and_globs(tmp_path, monkeypatch):
    first, second = make_run(tmp_path / "sweep" / "0"), make_run(tmp_path / "sweep" / "1")
    make_run(tmp_path / "sweep" / ".hydra")
    assert find_runs([str(first)]) == [first]
    assert find_runs([str(tmp_path)]) == [first, second]
    assert find_runs([str(tmp_path / "sw*" / "*"), str(second)]) == [first, second]
    monkeypatch.chdir(tmp_path)
    assert [str(path) for path in find_runs(["sweep/[1]"])] == ["sweep/1"]
    with pytest.raises(DataError, match=r"no run found at 'swep'; in folder \.: did you mean 'sweep'\? Valid: sweep"):
        find_runs(["swep"])
    with pytest.raises(DataError, match=r"'sweep/\*\*a'"):  # no glob before Python 3.13
        find_runs(["sweep/**a"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no run found at 'empty'; in folder \.: Valid: sweep$"):
        find_runs(["empty"])
    with pytest.raises(DataError, match=r"expected a run folder with config\.yaml, metrics\.jsonl, summary\.json"):
        load_run(tmp_path)


def test_a_run_counts_once_whatever_links_to_it(tmp_path, monkeypatch):
    first, second = make_run(tmp_path / "runs" / "x"), make_run(tmp_path / "runs" / "y")
    (tmp_path / "runs" / "latest").symlink_to("y")
    (tmp_path / "runs" / "loop").symlink_to("..")
    monkeypatch.chdir(tmp_path)
    assert find_runs([str(tmp_path / "runs")]) == [first, second]
    assert [str(path) for path in find_runs(["runs/y", str(second), "runs"])] == ["runs/y", "runs/x"]


def test_what_is_no_json_is_left_out_and_named(tmp_path):
    run = make_run(tmp_path / "run")
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": NaN, "wall_seconds": 1, "kind": "evaluation", "success_rate": 1}\n')
        file.write('{"step": 9000, "wall_seconds": 1, "kind": "evaluation", "success_rate": NaN}\n')
    (run / "summary.json").write_text("[]")
    loaded = load_run(run)
    assert loaded.env_steps == 2500 and loaded.evaluations.steps_to_95 == 2000 and loaded.summary is None
    assert [text.partition(":")[0].partition(";")[0] for text in loaded.problems] == [
        "metrics.jsonl",
        "summary.json is damaged",
    ]


@pytest.mark.parametrize(
    "line",
    [
        {"step": 1e400},
        {"step": None},
        {"step": "9000"},
        {"step": 10**400},
        {"wall_seconds": 1e400},
        {"success_rate": 1e400},
        {"success_rate": "all"},
        {"return_mean": [1]},
        {"episodes": 1e400},
        5,
    ],
)
def test_what_is_no_number_is_left_out_and_named(tmp_path, line):
    run = make_run(tmp_path / "run", summary=False)
    whole = {"step": 9000, "wall_seconds": 1, "kind": "evaluation", "success_rate": 1}
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(whole | line if isinstance(line, dict) else line).replace("Infinity", "1e400") + "\n")
    loaded = load_run(run)
    assert loaded.env_steps == 2500 and loaded.evaluations.curve("success_rate")[0] == [0, 1000, 2000]
    assert loaded.problems[0] == "metrics.jsonl: 1 unreadable line left out"


@pytest.mark.parametrize(
    "damage",
    [
        {"env_steps": None},
        {"env_steps": 1e400},
        {"wall_seconds": "long"},
        {"robot_minutes": 1e400},
        {"success_rate": {"value": None}},
        {"success_rate": "all"},
        {"versions": None},
    ],
)
def test_a_summary_with_other_than_numbers_is_damaged(tmp_path, damage):
    run = make_run(tmp_path / "run")
    summary = json.loads((run / "summary.json").read_text()) | damage
    (run / "summary.json").write_text(json.dumps(summary).replace("Infinity", "1e400"))
    loaded = load_run(run)
    assert loaded.env_steps == 2500 and loaded.wall_seconds == 125 and loaded.success_rate == Proportion.of(20, 20)
    assert loaded.problems == ("summary.json is damaged; figures are those of the last line of metrics.jsonl",)


def test_settings_are_compared_without_what_only_identifies_a_run(tmp_path):
    first = load_run(make_run(tmp_path / "a", seed=0))
    second = load_run(make_run(tmp_path / "b", seed=1))
    third = load_run(make_run(tmp_path / "c", seed=0, utd=5))
    assert first.settings == second.settings
    assert differences([first.settings, third.settings]) == ["agent.update_to_data"]
    assert differences([{"a": 1}, {}]) == ["a"]
    assert flatten({"a": {"b": 1, "c": {}}, "d": [1, {"e": 2}]}) == {"a.b": 1, "d": [1, {"e": 2}]}


def test_runs_of_another_length_are_another_configuration_and_runs_evaluated_more_often_are_not(tmp_path):
    def run(name: str, **options):
        folder = make_run(tmp_path / name)
        config = OmegaConf.load(folder / "config.yaml")
        config.run.update({"env_steps": 6000, "replay_capacity": 9000, "evaluation_interval": 500} | options)
        OmegaConf.save(config, folder / "config.yaml")
        return load_run(folder)

    runs = [run("a"), run("b", evaluation_interval=1000), run("c", env_steps=12000), run("d", replay_capacity=100)]
    runs.append(run("e", stop_at_success_rate=0.9))
    groups = group_runs(runs)
    assert [[each.name for each in group.runs] for group in groups] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert groups[1].label == "rlpd env_steps=12000 replay_capacity=9000 stop_at_success_rate=None"


@pytest.mark.parametrize(
    ("setting", "first", "second"),
    [
        ("safety.specification.formula", "always (speed < 0.1 m/s)", "always (speed < 1.5 m/s)"),
        ("reward.modules.clip.model", "openai/clip-vit-base-patch32", "laion/CLIP-ViT-bigG-14"),
        ("demonstrations.path", "data/good", "data/bad"),
    ],
)
def test_texts_with_a_slash_are_settings(tmp_path, setting, first, second):
    runs = []
    for seed, value in enumerate((first, second)):
        folder = make_run(tmp_path / str(seed), seed=seed)
        config = OmegaConf.load(folder / "config.yaml")
        OmegaConf.update(config, setting, value)
        OmegaConf.update(config, "safety.emergency_stop.file", f"{tmp_path}/{seed}/emergency_stop")
        OmegaConf.save(config, folder / "config.yaml")
        runs.append(load_run(folder))
    assert differences([run.settings for run in runs]) == [setting]
    assert [len(group.runs) for group in group_runs(runs)] == [1, 1]


@pytest.mark.parametrize("seed", ["abc", 1.5, [0, 1], None])
def test_a_seed_that_is_no_whole_number_is_unknown(tmp_path, seed):
    run = load_run(make_run(tmp_path / "a", seed=seed))
    assert run.seed is None and len(group_runs([run])) == 1


def test_seeds_are_one_group_and_other_settings_another(tmp_path):
    paths = [make_run(tmp_path / f"s{seed}", seed=seed) for seed in (2, 0, 1)]
    paths += [make_run(tmp_path / "other", utd=5), make_run(tmp_path / "reach", task="reach")]
    groups = group_runs([load_run(path) for path in paths])
    assert [(group.task, group.label, len(group.runs)) for group in groups] == [
        ("pick_cube", "rlpd update_to_data=20", 3),
        ("pick_cube", "rlpd update_to_data=5", 1),
        ("reach", "rlpd", 1),
    ]
    assert [run.seed for run in groups[0].runs] == [0, 1, 2]


def test_runs_of_one_seed_are_told_apart_from_runs_of_several(tmp_path):
    seeds = {"a": 0, "b": 1, "c": 0, "d": 2, "e": 0, "f": 1}
    runs = [load_run(make_run(tmp_path / name, seed=seed)) for name, seed in seeds.items()]
    runs += [load_run(make_run(tmp_path / name, seed="null", summary=False)) for name in "gh"]
    (group,) = group_runs(runs)
    assert [[run.name for run in same] for same in group.repeats()] == [["a", "c", "e"], ["b", "f"]]
    other = load_run(make_run(tmp_path / "other", seed=0, utd=5))
    assert all(not group.repeats() for group in group_runs([runs[0], runs[1], other]))


def test_results_of_a_group(tmp_path):
    rates = {0: (0.0, 1.0, 1.0), 1: (0.0, 0.5, 1.0), 2: (0.0, 0.0, 0.5)}
    runs = [load_run(make_run(tmp_path / str(seed), seed=seed, rates=rates[seed])) for seed in rates]
    (group,) = group_runs(runs)
    success = group.success()
    assert success is not None and success.value == pytest.approx(0.97)
    steps, wall = group.steps_to_95(), group.wall_seconds_to_95()
    assert steps is not None and (steps.reached, steps.runs, steps.value) == (2, 3, np.inf)
    assert steps.at_least == pytest.approx((1000 + 2000 + 2000) / 3)
    assert wall is not None and wall.at_least == pytest.approx((50 + 100 + 123) / 3)


def test_a_group_without_success_has_returns(tmp_path):
    runs = [load_run(make_run(tmp_path / "a", rates=(None, None, None), success_rate=None))]
    (group,) = group_runs(runs)
    assert group.success() is None and group.steps_to_95() is None and group.wall_seconds_to_95() is None
    final = group.final_return()
    assert final is not None and final.value == 20
    assert measure_of([group]) == "return_mean"
    curve = learning_curve(group, "return_mean")
    assert curve is not None and curve.value.tolist() == [0, 10, 20] and curve.band == ""
    assert learning_curve(group, "success_rate") is None


def test_curve_of_one_run_has_the_wilson_band_and_of_several_the_bootstrap_band(tmp_path):
    one = load_run(make_run(tmp_path / "0", rates=(0.0, 0.5, 1.0)))
    curve = learning_curve(group_runs([one])[0], "success_rate")
    assert curve is not None and "Wilson" in curve.band
    assert curve.low[1] == Proportion.of(10, 20).low and curve.high[2] == 1.0
    short = load_run(make_run(tmp_path / "1", seed=1, rates=(0.0, 0.3), summary=False))
    both = learning_curve(group_runs([one, short])[0], "success_rate")
    assert both is not None and "bootstrap" in both.band
    # The killed run ends the middle line; the other one is still shown to its own end.
    assert both.steps.tolist() == [0, 1000] and both.value[1] == pytest.approx(0.4)
    assert (both.low[1], both.high[1]) == (0.3, 0.5)
    assert both.singles[0][0] == [0, 1000, 2000]
