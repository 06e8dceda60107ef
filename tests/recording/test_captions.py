"""What simulated tasks say about their states, against the observations, and the pictures made of it."""

import numpy as np
import pytest

from robo_rl.commands.vision_pretrain import area_under_curve
from robo_rl.core import ArraySpec, ConfigError, EnvSpec, Step
from robo_rl.recording.pictures import take_pictures
from robo_rl.sim import make_backend

AXES = ("_x", "_y", "_z")


def reach(objects, rewards):
    distance = np.linalg.norm(objects("to_goal"))
    return {
        "the gripper is far from the green ball": distance >= 0.15,
        "the gripper is near the green ball": distance < 0.15,
        "the gripper is close to the green ball": distance < 0.08,
        "the gripper is at the green ball": distance < 0.03,
        "the green ball is between the fingers": distance < 0.015,
    }


def pick_cube(objects, rewards):
    distance, height = np.linalg.norm(objects("to_cube")), objects("cube")[2] - 0.0225
    held = rewards["grasped"] == 1
    return {
        "the gripper is far from the blue cube": distance >= 0.1,
        "the gripper is near the blue cube": distance < 0.1,
        "the gripper is close to the blue cube": distance < 0.05,
        "the gripper is at the blue cube": distance < 0.025,
        "the blue cube lies on the table": height < 0.01,
        "the gripper holds the blue cube": held,
        "the blue cube is lifted": held and height >= 0.02,
        "the blue cube is lifted high": rewards["success"] == 1,
    }


def open_door(objects, rewards):
    distance, (angle,) = np.linalg.norm(objects("lever_offset")), objects("hinge_angle")
    return {
        "the gripper is far from the door handle": distance >= 0.1,
        "the gripper is near the door handle": distance < 0.1,
        "the gripper is close to the door handle": distance < 0.06,
        "the gripper is at the door handle": distance < 0.03,
        "the door handle is level": rewards["turn"] < 0.2,
        "the door handle is turned": rewards["turn"] >= 0.5,
        "the door is closed": angle < 0.03,
        "the door is ajar": angle >= 0.03,
        "the door is half open": rewards["open"] >= 0.5,
        "the door is open": rewards["success"] == 1,
    }


@pytest.mark.parametrize(
    ("task", "truth", "values"),
    [("reach", reach, {}), ("pick_cube", pick_cube, {"cube_colour": "blue"}), ("open_door", open_door, {})],
)
def test_captions_are_true_of_the_state(task, truth, values):
    backend = make_backend(task, terminate_on_success=False, **values)
    names = backend.spec.observation["object"].names
    expert, seen = backend.expert(0), {True: set(), False: set()}
    for seed in range(3):
        step = backend.reset(seed)
        while not step.truncated:
            step = backend.step(expert.act(step.observation))
            state = step.observation["object"].astype(np.float64)

            def objects(part, state=state):
                return state[[place for place, name in enumerate(names) if name in (part, *(part + s for s in AXES))]]

            captions = backend.captions()
            expected = truth(objects, step.rewards)
            assert list(captions) == list(expected)
            for caption, value in captions.items():
                assert value == expected[caption], (caption, step.rewards)
                seen[value].add(caption)
    # Along solutions every caption is true at some time, and false at another.
    assert seen[True] == seen[False] == set(captions)


def test_tasks_without_captions_have_none():
    assert make_backend("peg_insert").captions() == {}


class Scene:
    """A backend whose picture is the number of its step, of episodes of three steps."""

    robot = None

    def __init__(self, name, cameras=("front",), size=4):
        self._name = name
        self.spec = EnvSpec(
            task=name,
            observation={f"images/{camera}": ArraySpec((size, size, 6), "uint8") for camera in cameras},
            action=ArraySpec((1,), low=-1, high=1),
            action_space="joint_delta",
            action_frame="joint",
            control_rate=10.0,
            max_episode_steps=3,
            reward_terms=("success",),
        )
        self._number = 0
        self.seeds = []
        self.actions = []

    def reset(self, seed=None):
        self.seeds.append(seed)
        self._number = 0
        return self._step()

    def step(self, action):
        self.actions.append(float(action[0]))
        self._number += 1
        return self._step()

    def _step(self):
        images = {}
        for place, (key, spec) in enumerate(self.spec.observation.items()):
            images[key] = np.full(spec.shape, 100, np.uint8)  # the older frame of the stack
            images[key][..., 3:] = 10 * place + self._number
        return Step(images, {"success": 0.0}, False, self._number == 3, 0, False)

    def captions(self):
        return {f"the {self._name} begins": self._number == 0, "anything moves": self._number > 1}

    def expert(self, seed):
        return Still()


class Still:
    """An expert that does nothing."""

    def reset(self):
        pass

    def act(self, observation):
        return np.zeros(1, np.float32)


def test_pictures_have_the_truth_of_all_captions():
    lamp, door = Scene("lamp", ("front", "view")), Scene("door")
    pictures = take_pictures({"lamp": lamp, "door": door}, {"lamp": 6, "door": 5}, seed=0)
    assert pictures.captions == ("the lamp begins", "anything moves", "the door begins")
    # Six moments of the lamp from two cameras, then five of the door; an episode shows its start and three steps.
    numbers = [0, 1, 2, 3, 0, 1]
    expected_values = [value for number in numbers for value in (number, 10 + number)] + numbers[:5]
    assert pictures.images.shape == (17, 4, 4, 3)
    assert pictures.images[:, 0, 0, 0].tolist() == expected_values
    moments = [number for number in numbers for _ in range(2)] + numbers[:5]
    of_lamp = np.arange(17) < 12
    expected = [[n == 0 and lamp, n > 1, n == 0 and not lamp] for n, lamp in zip(moments, of_lamp, strict=True)]
    np.testing.assert_array_equal(pictures.truth, expected)
    np.testing.assert_array_equal(pictures.own, [[lamp, True, not lamp] for lamp in of_lamp])
    # Start states and noise differ between episodes and tasks, and follow from the seed.
    assert len({*lamp.seeds, *door.seeds}) == 4 and len({*lamp.actions, *door.actions}) == 7
    again = Scene("lamp", ("front", "view"))
    take_pictures({"lamp": again}, {"lamp": 6}, seed=0)
    assert (again.seeds, again.actions) == (lamp.seeds, lamp.actions)


def test_what_cannot_be_captioned_is_refused():
    with pytest.raises(ConfigError, match=r"tasks.lamp.observation.cameras must name a camera"):
        take_pictures({"lamp": Scene("lamp", ())}, {"lamp": 2}, 0)
    with pytest.raises(ConfigError, match="must be the same for all"):
        take_pictures({"lamp": Scene("lamp"), "door": Scene("door", size=6)}, {"lamp": 2, "door": 2}, 0)

    class Silent(Scene):
        def captions(self):
            return {}

    with pytest.raises(ConfigError, match=r"tasks\.lamp: this task has no captions"):
        take_pictures({"lamp": Silent("lamp")}, {"lamp": 2}, 0)


def test_the_area_under_the_curve_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    scores, labels = rng.integers(0, 5, 40).astype(np.float32), rng.random(40) < 0.3
    pairs = [(a > b) + 0.5 * (a == b) for a in scores[labels] for b in scores[~labels]]
    assert area_under_curve(scores, labels) == pytest.approx(np.mean(pairs))
    assert area_under_curve(scores, np.ones(40, dtype=np.bool_)) is None
