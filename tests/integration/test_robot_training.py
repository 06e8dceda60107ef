"""robo-rl train task=reach robot=virtual: virtual robot, actor and learner as processes, over real DDS on loopback."""

import json

import pytest

from robo_rl.cli import main
from robo_rl.core import Source
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import SMALL_AGENT, Forked, finish
from ..rigs.robot_rig import PATIENCE, composed, driver, virtual_robot
from ..rigs.ros2_domain import free_domain

STEPS = 40
SMALL = [
    "task=reach",
    "robot=virtual",
    *SMALL_AGENT,
    "demonstrations.episodes=2",
    f"run.env_steps={STEPS}",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=2",
    "run.video_episodes=0",
    "runtime.threads=1",
    *PATIENCE,
    "robot.start_timeout=60",
]


def train(environment: dict[str, str], *words: str, code: int = 0) -> str:
    """Train to the end, with this exit code; return what was printed."""
    return finish(Forked("train", *SMALL, *words, environment=environment), code)


def test_a_run_learns_from_the_virtual_robot_and_its_demonstrations_fit(tmp_path):
    with free_domain() as environment, virtual_robot(environment, "virtual.watchdog.stop_after=5"):
        train(environment, f"run.dir={tmp_path}/run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "completed"
    assert summary["env_steps"] >= STEPS
    assert summary["actors"]["received"] == summary["actors"]["stored"] + summary["actors"]["refused"]
    robot = driver(composed())
    with EpisodeStore.open(tmp_path / "run" / "replay" / "episodes") as store:
        steps = [step for number in range(len(store)) for step in store.episode(number)]
        store.check_against(robot.spec)
    assert {step.source for step in steps} <= {Source.RANDOM, Source.POLICY}
    moved = [abs(step.next_observation["state"][:7] - step.observation["state"][:7]).max() for step in steps]
    assert max(moved) > 0.02, "the robot moved"
    with EpisodeStore.open(tmp_path / "run" / "demonstrations") as demonstrations:
        demonstrations.check_against(robot.spec)
    assert "control periods of 100.0 ms" in (tmp_path / "run" / "actors" / "actor_0" / "output.log").read_text()


def test_a_run_without_a_robot_says_what_is_missing(tmp_path):
    with free_domain() as environment:
        output_of_run = train(environment, f"run.dir={tmp_path}/run", "robot.start_timeout=2", code=2)
    assert "actor_0 cannot act: robot 'virtual' is not all there after 2 s: nobody publishes" in output_of_run
    output = (tmp_path / "run" / "actors" / "actor_0" / "output.log").read_text()
    assert "robot 'virtual' is not all there after 2 s: nobody publishes /joint_states" in output
    assert "The virtual one is started by robo-rl robot task=..." in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["runtime.actors=2"], "runtime.actors must be 0 or 1 with a robot (there is only one), got 2"),
        (["runtime=local"], "a robot cannot wait for the learner: choose runtime=async"),
        (["~robot.sources.object"], "observes 'object' of shape (6,), which no source gives"),
        (["robot=virtul"], "unknown robot 'virtul': did you mean 'virtual'?"),
    ],
)
def test_mistakes_are_told_before_anything_moves(tmp_path, capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        main(["train", *SMALL, f"run.dir={tmp_path}/run", *options])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and message in line


def test_demonstrations_of_another_shape_are_refused_with_both(tmp_path):
    other = driver(composed("task=pick_cube")).spec
    with EpisodeStore.create(tmp_path / "other", other):
        pass
    output_of_run = train({}, f"run.dir={tmp_path}/run", f"demonstrations.path={tmp_path}/other", code=2)
    assert "observation 'object': expected float32 (6,), found float32" in output_of_run
    assert "action: expected shape (3,), found (4,)" in output_of_run
