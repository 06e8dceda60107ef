"""Third-party Gymnasium environments as tasks, compared with the environments themselves."""

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hydra import compose, initialize_config_module
from hydra.utils import instantiate

from robo_rl.app import register_all_configs
from robo_rl.core import ConfigError, RenderingError, SpecError
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig

from ..rigs.composition import composed_config


def make(env_id: str, **fields: Any) -> GymnasiumBackend:
    return GymnasiumBackend(GymnasiumConfig(env_id=env_id, **fields))


class Recorder(gymnasium.Env[Any, Any]):
    """Remembers the actions it got; images, nested observations; success from the third step on."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, bounds: tuple[list[float], list[float]] = ([-2, 0], [4, 1]), render_mode: str | None = None):
        self.render_mode = render_mode
        self.action_space = spaces.Box(np.array(bounds[0], np.float32), np.array(bounds[1], np.float32))
        self.observation_space = spaces.Dict(
            {
                "arm": spaces.Dict({"q": spaces.Box(-1, 1, (2, 2)), "dq": spaces.Box(-1, 1, (1,), np.float64)}),
                "camera": spaces.Box(0, 255, (4, 6, 3), np.uint8),
            }
        )
        self.actions: list[Any] = []

    def _observation(self) -> Any:
        count = len(self.actions)
        arm = {"q": np.arange(4.0).reshape(2, 2), "dq": np.array([10.0 + count])}
        return {"arm": arm, "camera": np.full((4, 6, 3), count, np.uint8)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.actions = []
        return self._observation(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        self.actions.append(action)
        return self._observation(), 0.5, False, False, {"success": len(self.actions) >= 3}

    def render(self) -> Any:
        return None


@pytest.fixture
def recorder() -> Any:
    gymnasium.register("test/Recorder-v0", Recorder)
    yield "test/Recorder-v0"
    del gymnasium.registry["test/Recorder-v0"]


def test_actions_are_scaled_to_the_box(recorder: str) -> None:
    backend = make(recorder, max_episode_steps=10)
    backend.reset(seed=0)
    for action in ([-1, -1], [0, 0], [1, 1], [0.5, -0.5]):
        backend.step(np.array(action, np.float32))
    actions = np.array(backend._env.unwrapped.actions)  # type: ignore[attr-defined]
    np.testing.assert_allclose(actions, [[-2, 0], [1, 0.5], [4, 1], [2.5, 0.25]])
    assert actions.dtype == np.float32
    assert backend.spec.extra == {"action_low": [-2.0, 0.0], "action_high": [4.0, 1.0]}


def test_nested_observations_are_flattened_and_images_stay(recorder: str) -> None:
    backend = make(recorder, max_episode_steps=10)
    backend.reset(seed=0)
    step = backend.step(np.zeros(2, np.float32))
    backend.spec.check_observation(step.observation)
    assert backend.spec.observation["state"].names == (
        "arm.dq[0]",
        "arm.q[0]",
        "arm.q[1]",
        "arm.q[2]",
        "arm.q[3]",
    )
    assert step.observation["state"].tolist() == [11, 0, 1, 2, 3]
    assert (step.observation["images/camera"] == 1).all()
    assert backend.spec.control_rate == 20


def test_success_ends_the_episode_only_if_asked(recorder: str) -> None:
    for terminate, expected in ((False, [(False, False)] * 3 + [(False, True)]), (True, [(False, False)] * 2)):
        backend = make(recorder, max_episode_steps=4, terminate_on_success=terminate)
        step = backend.reset(seed=0)
        assert (step.success, step.rewards) == (False, {"reward": 0.0, "success": 0.0})
        ends = []
        while not step.ended:
            step = backend.step(np.zeros(2, np.float32))
            ends.append((step.terminated, step.truncated))
        assert step.success is True
        assert step.rewards == {"reward": 0.5, "success": 1.0}
        assert ends == (expected if not terminate else [*expected, (True, False)])
        with pytest.raises(RuntimeError, match="call reset"):
            backend.step(np.zeros(2, np.float32))


def test_actions_are_checked(recorder: str) -> None:
    backend = make(recorder, max_episode_steps=4)
    with pytest.raises(RuntimeError, match="call reset"):
        backend.step(np.zeros(2, np.float32))
    backend.reset(seed=0)
    with pytest.raises(SpecError, match=r"action: expected a float32 array of shape \(2,\)"):
        backend.step(np.zeros(3, np.float32))
    with pytest.raises(SpecError, match="action: expected finite values, got nan at index"):
        backend.step(np.array([0, np.nan], np.float32))


def test_no_picture_is_a_rendering_error(recorder: str) -> None:
    backend = make(recorder)
    backend.reset(seed=0)
    with pytest.raises(RenderingError, match="expected a picture from render"):
        backend.render()


def test_unbounded_actions_are_refused(recorder: str) -> None:
    with pytest.raises(ConfigError, match="expected bounded actions"):
        make(recorder, env_kwargs={"bounds": ([-1, -np.inf], [1, 1])})


@pytest.mark.parametrize(
    ("env_id", "state", "actions", "rate", "limit", "terms"),
    [
        ("FetchReach-v4", 10 + 3 + 3 + 3, 4, 25.0, 50, ("reward", "success")),
        ("AdroitHandDoor-v1", 39, 28, 100.0, 200, ("reward", "success")),
        ("Hopper-v5", 11, 3, 125.0, 1000, ("reward",)),
        ("Pendulum-v1", 3, 1, 20.0, 200, ("reward",)),
    ],
)
def test_specs_of_well_known_environments(
    env_id: str, state: int, actions: int, rate: float, limit: int, terms: tuple[str, ...]
) -> None:
    backend = make(env_id)
    spec = backend.spec
    assert spec.observation["state"].shape == (state,)
    assert spec.action.shape == (actions,)
    assert (spec.control_rate, spec.max_episode_steps, spec.reward_terms) == (rate, limit, terms)
    assert spec.reports_success == ("success" in terms)
    step = backend.reset(seed=0)
    spec.check_observation(step.observation)
    assert (step.success is None) == (terms == ("reward",))
    backend.close()
    backend.close()


@pytest.mark.parametrize("env_id", ["FetchReach-v4", "Hopper-v5", "Pendulum-v1"])
def test_the_same_seed_gives_the_same_episode_whatever_went_before(env_id: str) -> None:
    backend = make(env_id)
    actions = np.random.default_rng(1).uniform(-1, 1, (10, *backend.spec.action.shape)).astype(np.float32)

    def episode(seed: int) -> np.ndarray:
        states = [backend.reset(seed).observation["state"]]
        return np.stack(states + [backend.step(action).observation["state"] for action in actions])

    first, other, again = episode(3), episode(4), episode(3)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], other[0])


def test_every_reset_says_that_it_placed_everything() -> None:
    backend = make("Pendulum-v1")
    first, second = backend.reset(0), backend.reset()
    assert not np.array_equal(first.observation["state"], second.observation["state"])
    assert first.info["placed"] and second.info["placed"]
    assert "placed" not in backend.step(np.zeros(1, np.float32)).info


def test_steps_are_those_of_the_environment() -> None:
    """Pendulum's Box is [-2, 2]: half an action of ours is 1 Nm."""
    backend, env = make("Pendulum-v1"), gymnasium.make("Pendulum-v1")
    actual, (reference, _) = backend.reset(seed=5), env.reset(seed=5)
    for _ in range(200):
        np.testing.assert_array_equal(actual.observation["state"], reference)
        assert not actual.ended
        actual = backend.step(np.array([0.5], np.float32))
        reference, reward, *_ = env.step(np.array([1.0], np.float32))
        assert actual.rewards == {"reward": reward}
    assert actual.stamp_ns == 10_000_000_000
    assert (actual.terminated, actual.truncated) == (False, True)


def test_a_fall_of_the_hopper_is_a_termination() -> None:
    backend = make("Hopper-v5")
    step = backend.reset(seed=0)
    while not step.ended:
        step = backend.step(np.ones(3, np.float32))
    assert (step.terminated, step.truncated) == (True, False)


@pytest.mark.rendering
def test_pictures() -> None:
    """In a process of its own: MUJOCO_GL is read when MuJoCo is imported."""
    code = (
        "from robo_rl.sim.gymnasium_config import make_gymnasium_backend as make\n"
        "backend = make(env_id='FetchReach-v4'); backend.reset(seed=0); picture = backend.render()\n"
        "assert picture.shape == (480, 480, 3) and picture.dtype == 'uint8' and picture.std() > 10\n"
        "backend.close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("FetchReech-v4", "unknown task.env_id 'FetchReech-v4': did you mean 'FetchReach-v4'?"),
        ("Hoper-v5", "unknown task.env_id 'Hoper-v5': did you mean 'Hopper-v5'?"),
        ("?", "unknown task.env_id '?': gymnasium.pprint_registry() lists"),
        ("CartPole-v1", "task.env_id=CartPole-v1: expected continuous actions (a Box), got Discrete(2)"),
        ("no_such_package:Arm-v0", "task.env_id=no_such_package:Arm-v0: cannot import no_such_package"),
    ],
)
def test_ids_that_cannot_be_used(env_id: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make(env_id)
    assert str(caught.value).startswith(message)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "metaworld", None)
    with pytest.raises(ConfigError, match="pip install --no-deps metaworld"):
        make("Meta-World/MT1", env_kwargs={"env_name": "reach-v3"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"foo": 1}, "TypeError: .*unexpected keyword argument 'foo'"),
        ({"frame_skip": 0}, "ZeroDivisionError: float division by zero"),
        ({"reset_noise_scale": "much"}, "TypeError: bad operand type"),  # said when it is reset
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"task\.env_id=Hopper-v5 does not work with task\.env_kwargs=.*{message}"):
        make("Hopper-v5", env_kwargs=arguments)


def test_there_is_no_expert() -> None:
    with pytest.raises(ConfigError, match=r"demonstrations\.episodes=0"):
        make("Pendulum-v1").expert(0)


def test_hydra_builds_the_task() -> None:
    register_all_configs()
    overrides = ["task=gymnasium", "task.env_id=Hopper-v5", "+task.env_kwargs.healthy_reward=0.0"]
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        config = compose("train", overrides=[*overrides, "task.max_episode_steps=30", "run.dir=unused"])
        chosen = compose("train", overrides=["task=gymnasium", "agent=rlpd"])
    # There are no demonstrations, so the agent is another one than for our own tasks, unless it is chosen.
    assert (config.agent.demonstration_ratio, config.agent.gamma) == (0.0, 0.99)
    assert chosen.agent.demonstration_ratio == 0.5
    # Without them it takes longer.
    assert (config.run.env_steps, config.run.stop_at_success_rate) == (100_000, 1.0)
    backend = instantiate(config.task, _convert_="object")
    assert backend.spec.max_episode_steps == 30
    backend.reset(seed=0)
    assert backend.step(np.zeros(3, np.float32)).rewards["reward"] < 0.5  # 1 for staying healthy by default


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env_id": ""}, "task.env_id must be the id of a Gymnasium environment, got ''"),
        ({"max_episode_steps": 0}, "task.max_episode_steps must be null or 1 or more, got 0"),
        ({"control_rate": -1.0}, "task.control_rate must be null or in [0.01, 10000] Hz, got -1.0"),
    ],
)
def test_values_out_of_range_name_the_key(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GymnasiumConfig(**fields)
    assert str(caught.value) == message


def test_meta_world_starts_from_the_seed() -> None:
    """Its reset ignores the seed; its goals are drawn when it is made."""
    pytest.importorskip("metaworld", reason="metaworld is not installed")
    starts = []
    for _ in range(2):
        backend = make("Meta-World/MT1", env_kwargs={"env_name": "reach-v3"})
        starts.append([backend.reset(seed).observation["state"] for seed in (1, 2, 1)])
    np.testing.assert_array_equal(starts[0], starts[1])
    np.testing.assert_array_equal(starts[0][0], starts[0][2])
    assert not np.array_equal(starts[0][0], starts[0][1])
    assert backend.spec.max_episode_steps == 500
    assert backend.spec.reward_terms == ("reward", "success")


def test_meta_world_is_demonstrated_by_its_own_scripted_policy() -> None:
    pytest.importorskip("metaworld", reason="metaworld is not installed")
    config = composed_config("train", "task=meta_world", "task.env_kwargs.env_name=button-press-v3")
    assert config.agent.demonstration_ratio == 0.5
    backend = instantiate(config.task, _convert_="object")
    assert backend.spec.task == "Meta-World/button-press-v3"
    expert = backend.expert(0)
    step = backend.reset(seed=0)
    expert.reset()
    while not step.ended:
        step = backend.step(expert.act(step.observation))
    assert step.success and step.terminated


def test_what_it_draws_is_observed_where_that_is_wanted() -> None:
    small = {"width": 32, "height": 24}
    backend = make("Hopper-v5", picture=True, env_kwargs=small)
    assert backend.spec.observation["images/view"].shape == (24, 32, 3)
    first = backend.reset(seed=0).observation["images/view"]
    np.testing.assert_array_equal(first, backend.render())
    for _ in range(5):
        later = backend.step(np.ones(3, np.float32)).observation["images/view"]
    assert later.dtype == np.uint8 and not np.array_equal(first, later)
    backend.close()


def test_the_humanoid_has_the_settings_of_its_paper() -> None:
    config = composed_config("train", "task=humanoid")
    assert (config.task.max_episode_steps, config.run.env_steps) == (100, 10_000_000)
    # Of 9 GB each with a full replay; and as often as it is evaluated, or seldomer.
    assert config.run.checkpoint_interval >= config.run.evaluation_interval == 100_000
    agent = config.agent
    assert (agent.gamma, agent.tau, agent.actor_learning_rate, agent.learning_starts) == (0.95, 0.005, 6e-4, 50_000)
    clip = config.reward.modules.clip
    assert (clip.model, clip.goals) == ("ViT-bigG-14", ["a humanoid robot kneeling"])


def test_a_class_of_a_module_is_made_without_registration() -> None:
    name = "tests.rigs.point_world:PointWorld"
    backend = make(name, max_episode_steps=3, env_kwargs={"start": 0.5})
    assert backend.spec.task == name and backend.spec.max_episode_steps == 3
    step = backend.reset(seed=0)
    for _ in range(3):
        step = backend.step(np.ones(1, np.float32))
    assert step.truncated and step.observation["state"][0] > 0
    assert backend.translation.action(np.ones(1, np.float32)) == 4
    assert backend.render().shape == (48, 64, 3)
    with pytest.raises(ConfigError, match=r"unknown task.env_id 'tests.rigs.point_world:Point'"):
        make("tests.rigs.point_world:Point")
    with pytest.raises(ConfigError, match=r"was made by a function of a Python program, .* robo_rl.load\(RUN"):
        make("python/elsewhere-v0")
