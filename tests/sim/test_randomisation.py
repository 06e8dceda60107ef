"""Each kind of domain randomisation acts, is bounded, repeats with the seed and leaves nothing behind."""

from typing import Any

import numpy as np
import pytest

from robo_rl.sim import ArmBackend, make_backend
from robo_rl.sim.config import ObservationConfig, RandomisationConfig
from robo_rl.sim.observation import NOISE
from robo_rl.sim.randomisation import FIELDS

SEEDS = range(6)


def randomised(**values: float) -> ArmBackend:
    return make_backend("pick_cube", randomisation=RandomisationConfig(**values))


def snapshot(backend: ArmBackend, seed: int) -> dict[str, np.ndarray]:
    backend.reset(seed)
    fields = {name: getattr(backend.model, name).copy() for name in FIELDS}
    return fields | {"ambient": np.array(backend.model.vis.headlight.ambient)}


NOMINAL = snapshot(make_backend("pick_cube"), 0)


@pytest.mark.parametrize(
    ("option", "value", "changed"),
    [
        ("mass", 0.5, {"body_mass", "body_inertia"}),
        ("friction", 0.5, {"geom_friction"}),
        ("lighting", 0.5, {"light_diffuse", "light_specular", "light_pos", "light_dir", "ambient"}),
        ("camera_position", 0.02, {"cam_pos"}),
        ("camera_rotation", 0.05, {"cam_quat"}),
        ("latency", 0.05, set()),
        ("observation_noise", 1.0, set()),
    ],
)
def test_each_option_changes_its_part_of_the_model_alone(option, value, changed):
    backend = randomised(**{option: value})
    first, second = snapshot(backend, 1), snapshot(backend, 2)
    for name, nominal in NOMINAL.items():
        if name in changed:
            assert not np.array_equal(first[name], nominal), name
            assert not np.array_equal(first[name], second[name]), name
        else:
            np.testing.assert_array_equal(first[name], nominal, err_msg=name)
    # The same seed gives the same model again: what was drawn before does not add up.
    again = snapshot(backend, 1)
    for name in NOMINAL:
        np.testing.assert_array_equal(first[name], again[name], err_msg=name)


def test_everything_is_off_by_default():
    backend = make_backend("pick_cube")
    for seed in SEEDS:
        for name, value in snapshot(backend, seed).items():
            np.testing.assert_array_equal(value, NOMINAL[name])


def test_mass_factors_are_bounded_and_spare_the_arm():
    backend = randomised(mass=0.3)
    cube = backend.model.body("cube").id
    factors = []
    for seed in SEEDS:
        fields = snapshot(backend, seed)
        factors.append(fields["body_mass"][cube] / NOMINAL["body_mass"][cube])
        np.testing.assert_array_equal(np.delete(fields["body_mass"], cube), np.delete(NOMINAL["body_mass"], cube))
        np.testing.assert_allclose(
            fields["body_inertia"][cube], NOMINAL["body_inertia"][cube] * factors[-1], rtol=1e-12
        )
    assert 0.7 <= min(factors) < max(factors) <= 1.3


def test_friction_factors_are_bounded():
    backend = randomised(friction=0.4)
    factors = [snapshot(backend, seed)["geom_friction"] / NOMINAL["geom_friction"] for seed in SEEDS]
    assert all(np.allclose(factor, factor.flat[0]) for factor in factors)
    assert 0.6 <= min(map(np.min, factors)) < max(map(np.max, factors)) <= 1.4


def test_camera_poses_stay_near_nominal():
    backend = randomised(camera_position=0.02, camera_rotation=0.05)
    for seed in SEEDS:
        fields = snapshot(backend, seed)
        assert np.abs(fields["cam_pos"] - NOMINAL["cam_pos"]).max() <= 0.02
        cosine = np.abs((fields["cam_quat"] * NOMINAL["cam_quat"]).sum(axis=1))
        assert (2 * np.arccos(np.minimum(cosine, 1)) <= 0.05 + 1e-9).all()


@pytest.mark.rendering
@pytest.mark.parametrize("option", ["lighting", "camera_position"])
def test_pictures_change_with_the_seed_and_repeat_with_it(option):
    view = ObservationConfig(cameras=("front",), width=32, height=32)
    backend = make_backend("reach", observation=view, randomisation=RandomisationConfig(**{option: 0.1}))
    plain = make_backend("reach", observation=view)

    def difference(one: int, other: int, backend: ArmBackend) -> float:
        images = [backend.reset(seed).observation["images/front"].astype(float) for seed in (one, other)]
        return float(np.abs(images[0] - images[1]).mean())

    assert difference(1, 1, backend) == 0.0
    assert difference(1, 2, backend) > 2 * difference(1, 2, plain)
    backend.close()
    plain.close()


def first_motion(backend: ArmBackend, seed: int) -> float:
    """How far the end effector goes in the first step of full speed [m]."""
    backend.reset(seed)
    before = backend.arm.position(backend.data)
    backend.step(np.array([0, 1, 0, -1], dtype=np.float32))
    return float(backend.arm.position(backend.data)[1] - before[1])


def test_latency_delays_actions():
    prompt, late = make_backend("pick_cube"), randomised(latency=0.09)
    ratios = np.array([first_motion(late, seed) / first_motion(prompt, seed) for seed in range(12)])
    assert (ratios < 1.02).all()
    assert ratios.min() < 0.5, "some episodes should be late by much of the period"
    assert np.ptp(ratios) > 0.3
    assert first_motion(late, 3) == first_motion(late, 3)


def test_observation_noise_has_the_stated_size_and_spares_physics():
    quiet, noisy = make_backend("pick_cube"), randomised(observation_noise=2.0)
    errors: dict[str, list[Any]] = {"state": [], "object": []}
    for seed in range(20):
        expected, got = quiet.reset(seed), noisy.reset(seed)
        for _ in range(8):
            for key in errors:
                errors[key].append(got.observation[key] - expected.observation[key])
            action = np.random.default_rng(seed).uniform(-1, 1, 4).astype(np.float32)
            expected, got = quiet.step(action), noisy.step(action)
        np.testing.assert_array_equal(quiet.data.qpos, noisy.data.qpos)
    spread = np.std(errors["state"], axis=0)
    sizes = np.repeat([2 * NOISE[name] for name in noisy.arm.groups], list(noisy.arm.groups.values()))
    np.testing.assert_allclose(spread, sizes, rtol=0.25)
    np.testing.assert_allclose(np.std(errors["object"], axis=0), 2 * NOISE["object"], rtol=0.25)
    first, again, other = (noisy.reset(seed).observation["state"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
