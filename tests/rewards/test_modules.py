"""What holds for every reward module that there is: it can be made, scored by, saved and gone on from."""

import numpy as np
import pytest

from robo_rl.core import CheckpointError, network_size, networks_within
from robo_rl.recording.teleoperation import record_expert
from robo_rl.replay import EpisodeStore
from robo_rl.rewards import MODULES
from robo_rl.rewards.modules.classifier import ViceConfig
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig

CODE = "def reward(action_x):\n    return -square(action_x)\n"


@pytest.fixture(scope="module")
def episode(tmp_path_factory):
    """The specification of a task, and the rows of an episode of a noisy expert."""
    camera = ObservationConfig(cameras=("front",), width=16, height=16)
    backend = make_backend("reach", observation=camera, terminate_on_success=False, max_episode_steps=12)
    path = tmp_path_factory.mktemp("modules") / "data"
    record_expert(backend, path, 1, noise=0.5, seed=0, only_successful=False)
    backend.close()
    with EpisodeStore.open(path) as store:
        return backend.spec, store.arrays(0).rows()


@pytest.fixture
def options(tmp_path):
    """What modules need that have to be told something."""
    (tmp_path / "reward.py").write_text(CODE)
    nobody = {"url": "http://127.0.0.1:9/v1", "model": "nobody"}
    return {
        "annotations": {"goal": "it is there", "endpoint": nobody},
        "clip": {"goals": ("the gripper is at the target",), "alpha": 0.0, "model": "tabletop"},
        "code": {"file": str(tmp_path / "reward.py")},
        "ensemble": {"members": {"one": ViceConfig(fit_steps=2)}, "copies": 2},
        "keypoints": {"waypoints": ((0.5, 0.5),)},
        "specification": {"formula": "eventually success"},
    }


@pytest.mark.rendering
# The task has no gripper, which ``toggles`` needs: see test_toggles.py.
@pytest.mark.parametrize("kind", [kind for kind in MODULES if kind != "toggles"])
def test_every_module_scores_an_episode_and_goes_on_from_what_it_saved(kind, episode, options, monkeypatch):
    monkeypatch.setattr(network_size, "SMALL", 5000)
    spec, rows = episode
    config = MODULES[kind](**options.get(kind, {}))
    module, other = (config.make("mine", spec, seed) for seed in (0, 1))
    module.fit([rows] * 5)
    module.observe(rows)
    assert module.ready({key: value[:1] for key, value in rows.items()})
    scores = module(rows)
    assert scores.shape == (12,) and scores.dtype == np.float32 and np.isfinite(scores).all()
    assert not module.waiting
    state = {key: value.copy() for key, value in module.state().items()}
    other.load(state)
    np.testing.assert_array_equal(other(rows), module(rows))
    assert other.version == module.version
    with networks_within(sum(value.size for value in state.values()), "checkpoint", CheckpointError):
        config.make("mine", spec, 0)
    for key, value in other.state().items():
        np.testing.assert_array_equal(value, state[key], err_msg=key)
