"""A person beside a training on a robot: virtual robot, learner, actor and operator as processes, over real DDS."""

import os
import subprocess
import sys
import time
from pathlib import Path

from robo_rl.core import Source, Transition
from robo_rl.replay import EpisodeStore
from robo_rl.telemetry import Command, LiveWatch

from ..rigs import steering_operator
from ..rigs.robot_rig import PATIENCE, virtual_robot, wait_until
from ..rigs.ros2_domain import free_domain
from ..rigs.run_folder import records

OPTIONS = [
    "task=reach",
    "robot=virtual",
    "reward=interventions",
    "demonstrations.episodes=0",
    "agent.hidden=[8]",
    "agent.ensemble_size=2",
    "agent.implementation=torch",
    "agent.update_to_data=2",
    "agent.batch_size=16",
    "agent.learning_starts=10",
    "run.env_steps=100000",
    "run.evaluation_interval=0",
    "runtime.threads=1",
    "task.max_episode_steps=100000",
    "task.terminate_on_success=false",
    *PATIENCE,
    "robot.start_timeout=60",
    "teleop.device=joy",
    "teleop.implementation=dds",
    "steering=ros2",
    "steering.implementation=dds",
]


def test_a_person_takes_over_and_pauses_a_training_on_a_robot(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    with free_domain() as domain, virtual_robot(domain, "virtual.watchdog.stop_after=5"):
        environment = {**os.environ, **domain, "OMP_NUM_THREADS": "1"}
        words = [*OPTIONS, f"run.dir={tmp_path}/run", f"safety.emergency_stop.file={stop}"]
        with (tmp_path / "learner.log").open("w") as log:
            learner = subprocess.Popen(
                [sys.executable, "-m", "robo_rl.cli", "train", *words], env=environment, stdout=log, stderr=log
            )
            try:
                pause_and_resume(LiveWatch(tmp_path / "run"))
                operator = subprocess.run(
                    [sys.executable, steering_operator.__file__, str(stop), str(learner.pid)],
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=500,
                )
                code = learner.wait(120)
            finally:
                learner.kill()
    output = tmp_path / "run" / "actors" / "actor_0" / "output.log"
    combined = f"{operator.stdout}{operator.stderr}{(tmp_path / 'learner.log').read_text()}{output.read_text()}"
    assert operator.returncode == 0, combined
    assert code == 128 + 15, combined
    with EpisodeStore.open(tmp_path / "run" / "replay" / "episodes") as store:
        episodes = [store.episode(number) for number in range(len(store))]
    assert {Source.POLICY, Source.HUMAN} <= {step.source for episode in episodes for step in episode}
    # Nothing but being taken over from is worth anything, and the person did.
    earned = [line["reward/interventions"] for line in records(tmp_path / "run", "episode")]
    assert min(earned) < 0 and all(each == round(each) for each in earned)
    # The page, and the operator's pause and reset, each cut an episode; the emergency stop ends one without a step.
    ends = [episode[-1] for episode in episodes]
    assert sum(end.truncated for end in ends) >= 3
    assert not any(step.truncated for episode in episodes for step in episode[:-1])
    # The person pushed x to the end, in the frame of the policy's actions, and there the robot went.
    pushed = [step for episode in episodes for step in episode if step.executed_action[0] == 1 and by_person(step)]
    names = list(store.spec.observation["state"].names)
    x = names.index("end_effector_x")
    assert sum(float(step.next_observation["state"][x] - step.observation["state"][x]) for step in pushed) > 0.01


def by_person(step: Transition) -> bool:
    return step.source == Source.HUMAN


def pause_and_resume(watch: LiveWatch, patience: float = 300.0) -> None:
    """As from the page: the robot's episode is ended, no other begins until that is wanted, and then one does."""

    def steps() -> int:
        status = watch.status()
        return int(status.robots[0].facts["steps"].replace(",", "")) if status and status.robots else 0

    def paused() -> bool:
        status = watch.status()
        return status is not None and status.paused

    wait_until(lambda: steps() > 5, patience)
    watch.send(Command("pause"))
    wait_until(paused, patience)
    watch.send(Command("reset", "actor_0"))
    seen = -1
    while seen != (seen := steps()):
        time.sleep(3.0)  # many control periods, of which none may begin
    watch.send(Command("resume"))
    wait_until(lambda: steps() > seen + 5, patience)
