"""An agent that diverges goes back to the newest good checkpoint, a few times in a row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.app import RunConfig
from robo_rl.core import DivergenceError, State
from robo_rl.learner import Checkpoint, CheckpointFolder, Learner
from robo_rl.training.rollback import Rollbacks

ERROR = DivergenceError("critic_loss is nan")


class FakeAgent:
    """A weight, and a random stream that goes on."""

    def __init__(self) -> None:
        self.weight, self.stream, self.forgotten = np.float32(0), 0, 0

    def state(self) -> State:
        return {"weight": np.array([self.weight], np.float32), "generator/update": np.array([self.stream], np.uint8)}

    def load(self, state: State) -> None:
        self.weight, self.stream = state["weight"][0], int(state["generator/update"][0])

    def forget_plan(self, *, explore: bool) -> None:
        self.forgotten += 1


class Rig:
    def __init__(self, folder: Path, most: int = 2, weights: tuple[float, ...] = (1, 2)) -> None:
        self.agent: Any = FakeAgent()
        self.learner = Learner(self.agent, lambda rows: {}, folder)
        self.checkpoints = CheckpointFolder(folder / "checkpoints")
        for number, weight in enumerate(weights, 1):
            self.agent.weight = np.float32(weight)
            self.checkpoints.save(Checkpoint(100 * number, {"agent": self.agent.state()}, {}))
        self.agent.weight, self.agent.stream = np.float32(np.nan), 9
        self.settings = RunConfig(rollbacks=most, checkpoint_interval=50)
        self.rollbacks = Rollbacks(self.learner, self.checkpoints, self.settings)


def test_the_newest_checkpoint_comes_back_and_random_streams_go_on(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    assert rig.rollbacks.roll_back(ERROR, 250) == 200
    assert (rig.agent.weight, rig.agent.stream, rig.agent.forgotten) == (2, 9, 1)
    assert rig.learner.updates == 1, "another policy has another number"


def test_a_checkpoint_that_is_damaged_or_spoiled_too_is_passed_over(tmp_path: Path) -> None:
    rig = Rig(tmp_path, weights=(1, 2, np.inf))
    assert rig.rollbacks.roll_back(ERROR, 350) == 200
    (rig.checkpoints.folders()[0] / "agent.safetensors").write_bytes(b"")
    with pytest.raises(DivergenceError, match="critic_loss is nan"):
        rig.rollbacks.roll_back(ERROR, 350)


@pytest.mark.parametrize("between", [49, 50])
def test_too_many_in_a_row_end_the_run_and_a_good_stretch_forgives_them(tmp_path: Path, between: int) -> None:
    rig = Rig(tmp_path)
    for step in (210, 220):
        rig.rollbacks.roll_back(ERROR, step)
    state = rig.rollbacks.state()
    rig.rollbacks = Rollbacks(rig.learner, rig.checkpoints, rig.settings)
    rig.rollbacks.load(state)  # the run was resumed
    assert rig.rollbacks.in_a_row == 2
    if between < 50:
        with pytest.raises(DivergenceError, match="critic_loss is nan"):
            rig.rollbacks.roll_back(ERROR, 220 + between)
    else:
        rig.rollbacks.roll_back(ERROR, 220 + between)
        assert rig.rollbacks.in_a_row == 1


def test_where_there_is_no_checkpoint_or_none_is_wanted_the_run_ends(tmp_path: Path) -> None:
    for rig in (Rig(tmp_path / "a", weights=()), Rig(tmp_path / "b", most=0)):
        with pytest.raises(DivergenceError, match="critic_loss is nan"):
            rig.rollbacks.roll_back(ERROR, 250)
