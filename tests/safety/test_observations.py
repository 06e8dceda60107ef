"""Guards that compare the parts of an arm's observation with each other, and endless joints in them."""

import numpy as np
import pytest

from robo_rl.core import PASSED, SafetyStop, Step
from robo_rl.safety import make_safe_backend
from robo_rl.safety.observations import PlausibleJoints
from robo_rl.sim import make_backend
from robo_rl.sim.config import RandomisationConfig

from ..rigs.safety_arms import arm, parts


def changed(name: str, value: float, first: int, relative: bool = False):
    """A simulated arm, its safety, and an element of ``state`` that is another from observation ``first`` on."""
    inner = arm()
    index, count = inner.spec.observation["state"].names.index(name), [0]

    def change(step: Step) -> Step:
        if count[0] >= first:
            state = step.observation["state"]
            state[index] = value + (state[index] if relative else 0)
        count[0] += 1
        return step

    reset, step = inner.reset, inner.step
    inner.reset = lambda seed=None: change(reset(seed))
    inner.step = lambda action: change(step(action))
    return make_safe_backend(inner)


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("value", [-2.0, 1e3, 1e5, -3e38])
def test_an_absurd_position_of_the_end_effector_is_refused_before_it_is_acted_on(value, first):
    backend = changed("end_effector_y", value, first)
    with pytest.raises(SafetyStop, match=r"end effector is measured .* m and 0\.000 rad from where") as caught:
        backend.reset(0)
        for _ in range(2):
            backend.step(np.zeros(4, np.float32))
    assert caught.value.reason == "observation_mismatch"


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("end_effector_x", 0.05, "observation_jump"),
        ("end_effector_z", -0.09, "observation_jump"),
        ("end_effector_y", 0.2, "observation_mismatch"),
        ("end_effector_r21", 0.5, "observation_range"),
        ("end_effector_r12", 3e38, "observation_range"),
        ("end_effector_vx", 1.2, "observation_mismatch"),
        ("end_effector_wz", 1e6, "observation_mismatch"),
        ("joint2_position", 0.15, "observation_jump"),
        ("joint4_position", -0.3, "observation_mismatch"),
    ],
)
def test_pose_velocity_and_joints_are_compared_at_every_step(name, change, reason):
    backend = changed(name, change, 3, relative=True)
    backend.reset(0)
    for _ in range(2):
        assert backend.step(np.zeros(4, np.float32)).verdict is PASSED
    with pytest.raises(SafetyStop) as caught:
        backend.step(np.zeros(4, np.float32))
    assert caught.value.reason == reason


def test_a_rotation_of_the_tool_frame_in_mid_episode_is_refused():
    inner = arm()
    step, turned = inner.step, [False]

    def turn(action):
        done = step(action)
        if turned[0]:
            state = done.observation["state"]
            first = inner.spec.observation["state"].names.index("end_effector_r11")
            x, y = state[first : first + 3].copy(), state[first + 3 : first + 6].copy()
            state[first : first + 3], state[first + 3 : first + 6] = (
                np.cos(0.15) * x + np.sin(0.15) * y,
                np.cos(0.15) * y - np.sin(0.15) * x,
            )
        return done

    inner.step = turn
    backend = make_safe_backend(inner)
    backend.reset(0)
    backend.step(np.zeros(4, np.float32))
    turned[0] = True
    with pytest.raises(SafetyStop, match=r"jumped by 0\.000 m and 0\.150 rad"):
        backend.step(np.zeros(4, np.float32))


@pytest.mark.parametrize("task", ["reach", "pick_cube", "open_door"])
def test_a_noisy_arm_in_full_motion_is_believed(task):
    backend = make_safe_backend(make_backend(task, randomisation=RandomisationConfig(observation_noise=3.0)))
    rng = np.random.default_rng(0)
    for _ in range(2):
        step = backend.reset(0)
        action = np.zeros(backend.spec.action.shape, np.float32)
        for number in range(40):
            if number % 5 == 0:
                action = rng.choice([-1.0, 1.0], action.shape).astype(np.float32)
            step = backend.step(action)
            if step.ended:
                break


def test_an_endless_joint_may_pass_half_a_turn_and_another_may_not():
    _, _, reader, _ = parts(arm())
    inner = arm()
    names = inner.spec.observation["state"].names
    observation = dict(inner.reset(0).observation)

    def judged(endless: bool, before: float, after: float) -> str:
        limits = np.full(7, np.inf)
        guard = PlausibleJoints(-limits, limits, np.full(7, 4.0), 0.5, np.full(7, endless), reader)
        verdicts = []
        for number, position in enumerate((before, after)):
            state = observation["state"].copy()
            state[names.index("joint7_position")] = position
            verdicts.append(guard({"state": state}, number * 100_000_000, 0))
        assert verdicts[0] is PASSED
        return "".join(verdicts[1].reasons)

    for before, after in ((3.1, -3.1), (-3.1, 3.1), (0.05, 2 * np.pi - 0.05), (12.5, -0.05)):
        assert judged(True, before, after) == ""
        assert judged(False, before, after) == "observation_jump"
    assert judged(True, 3.1, -2.0) == "observation_jump", "as far is too far by the shorter way too"
