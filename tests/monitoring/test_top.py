"""robo-rl top on files of runs."""

import io
import json

import pytest
from rich.console import Console

from robo_rl.core import ConfigError, EmergencyStop
from robo_rl.monitoring.run_table import TopConfig, duration, look, sparkline, step_rate
from robo_rl.telemetry import LiveRobot, LiveRun, LiveStatus

from ..rigs.command_line import exit_code

LINES = [
    {"step": 100, "wall_seconds": 10.0, "kind": "train", "q_mean": 0.25, "entropy": -1.5, "temperature": 0.01},
    {"step": 150, "wall_seconds": 12.0, "kind": "episode", "episode_return": 1.0, "length": 9, "success": True,
     "stopped": None, "safety/changed_steps": 3, "safety/contact": 2},
    {"step": 160, "wall_seconds": 13.0, "kind": "episode", "episode_return": 0.0, "length": 9, "success": False,
     "stopped": "contact_stop", "safety/changed_steps": 4, "safety/contact": 3},
    {"step": 200, "wall_seconds": 20.0, "kind": "evaluation", "success_rate": 0.5, "episodes": 20, "return_mean": 0.5},
    {"step": 300, "wall_seconds": 30.0, "kind": "evaluation", "success_rate": 1.0, "episodes": 20, "return_mean": 1.0},
    {"step": 310, "wall_seconds": 31.0, "kind": "runtime", "actors": 2, "stored": 300, "spooled": 10, "ratio": 0.95,
     "blocked": "no space left"},
]  # fmt: skip
CONFIG = "task: {name: pick_cube}\nagent: {name: rlpd}\nseed: 3\nrun: {env_steps: 6000}\n"


@pytest.fixture
def folder(tmp_path):
    """A folder of one run that nobody is busy with."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(CONFIG)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return tmp_path


@pytest.fixture
def live(folder):
    """The run's side of it, which goes on."""
    with LiveRun(folder / "run") as run:
        yield run


def render(folder, newest=4):
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(look(TopConfig(runs=[str(folder)], newest=newest, interval=1.0, once=True)))
    return console.export_text()


def test_a_run_that_goes_on_is_told(folder, live):
    text = render(folder)
    for part in (
        "pick_cube  rlpd  seed 3  [active]",
        "310 of 6,000  10.0 steps/s  in 0:00:31",
        "2  last 2: return 0.5  success 50%",
        "▅█  100% at 300",
        "q_mean 0.25  entropy -1.5  temperature 0.01",
        "actors 2  stored 300  spooled 10  ratio 0.95",
        "changed_steps 4  contact 3",
        "contact_stop 1  (last at step 160)",
        "blocked      no steps are accepted: no space left",
    ):
        assert part in text, part
    assert "summary.json" not in text


def test_a_run_that_was_resumed_is_not_told_as_it_ended_before(folder, live):
    (folder / "run" / "summary.json").write_text(json.dumps({"status": "interrupted", "seed": 3, "env_steps": 200}))
    text = render(folder)
    assert "[active]" in text and "310 of 6,000  10.0 steps/s" in text and "interrupted" not in text


def test_a_run_that_was_killed_does_not_go_on(folder):
    text = render(folder)
    assert "[unfinished]" in text and "steps/s" not in text and "blocked" not in text
    assert "no summary.json: the run is still active or was killed" in text


def test_each_robot_has_a_line(folder, live):
    robots = LiveRobot("left", True, {"steps": "1,200", "steps/s": "9.8"}), LiveRobot("right", False, {"steps": "7"})
    live.report(LiveStatus("training", robots=robots))
    lines = [" ".join(line.strip("│ ").split()) for line in render(folder).splitlines()]
    assert "left present steps 1,200 steps/s 9.8" in lines and "right away steps 7" in lines


def test_what_files_say_is_text_and_numbers_that_were_none_are_left_out(folder):
    """Square brackets are no markup, and what was not finite is null in the file."""
    hostile = {"step": 320, "wall_seconds": 32.0, "kind": "episode", "episode_return": None, "success": None,
               "stopped": "[/dev/video0] [bold]gone", "safety/changed_steps": None}  # fmt: skip
    with (folder / "run" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(hostile) + "\n")
    text = render(folder)
    assert "[/dev/video0] [bold]gone 1" in text and "3  last 3: return 0.5  success 50%" in text
    (folder / "run" / "metrics.jsonl").write_text(json.dumps(hostile) + "\n")
    assert "1  last 1: return unknown" in render(folder)


def test_a_run_that_ended_says_how(folder):
    (folder / "run" / "summary.json").write_text(json.dumps({"status": "reached", "seed": 3, "env_steps": 310}))
    text = render(folder)
    assert "[reached]" in text and "steps/s" not in text


def test_the_newest_runs_come_first(folder):
    import os

    for number in range(3):
        other = folder / f"other{number}"
        other.mkdir()
        (other / "config.yaml").write_text(CONFIG.replace("seed: 3", f"seed: 1{number}"))
        os.utime(other / "config.yaml", (number, number))
    text = render(folder, newest=2)
    assert text.index("seed 3") < text.index("seed 12") and "seed 11" not in text


@pytest.mark.parametrize("runs", ["[{}]", "{}"])
def test_the_command_prints_once(folder, capsys, runs):
    assert not exit_code("top", f"runs={runs.format(folder)}", "once=true")
    assert "pick_cube" in capsys.readouterr().out


def test_values_out_of_range_are_named():
    with pytest.raises(ConfigError, match=r"newest must be 1 or more"):
        TopConfig(runs=["runs"], newest=0, interval=1.0, once=True)


def test_parts():
    assert sparkline([0.0, 0.5, 1.0], top=1.0) == "▁▅█"
    assert sparkline([-10.0, 0.0, 30.0]) == "▁▃█"
    assert (
        step_rate(
            [{"wall_seconds": 0, "step": 0}, {"wall_seconds": 100, "step": 5}, {"wall_seconds": 150, "step": 105}]
        )
        == 2.0
    )
    assert step_rate([]) is None
    assert duration(3671.6) == "1:01:12"


@pytest.mark.parametrize(
    ("status", "description"),
    [
        (LiveStatus("evaluating"), "[evaluating]"),
        (LiveStatus("paused", paused=True), "[paused]"),
        (LiveStatus("training", paused=True), "[training, will pause]"),
    ],
)
def test_what_a_run_does_now_is_told(folder, live, status, description):
    live.report(status)
    assert description in render(folder)


@pytest.mark.parametrize(("robot", "state"), [("left", "stopped"), ("right", "training"), (None, "training")])
def test_what_holds_robots_still_is_told_first_and_the_state_of_a_stopped_run_is_stopped(folder, live, robot, state):
    if robot is not None:
        (folder / "run" / "config.yaml").write_text(f"{CONFIG}robot: {{name: {robot}}}\n")
    live.report(LiveStatus("training"))
    assert "STOPPED" not in render(folder) and "[training]" in render(folder)
    EmergencyStop(robot="left").press("safety guard: too fast")
    text = render(folder)
    assert text.index("STOPPED") < text.index("robot left: safety guard: too fast (at ") < text.index(f"[{state}]")
    assert "When all is safe: robo-rl rearm" in text


def test_a_run_that_was_extended_is_told_as_it_goes_on(folder, live):
    (folder / "run" / "config.yaml").write_text(CONFIG + "resumed: {run: {env_steps: 9000}}\n")
    assert "310 of 9,000" in render(folder)


@pytest.mark.parametrize("text", ["run:\n  env_st", "[1, 2]", "task: [", ""])
def test_a_damaged_configuration_is_no_obstacle(folder, text):
    (folder / "run" / "config.yaml").write_text(text)
    page = render(folder)
    assert "310" in page and ("config.yaml cannot be read" in page or not text)
