"""Tasks and environments of robo_rl.train as options of robo-rl train."""

import functools
from collections.abc import Iterator
from typing import Any

import gymnasium
import pytest

import robo_rl.sim
from robo_rl.api.environments import environment_words, provide_environment
from robo_rl.core import ConfigError

from ..rigs.composition import composed_config
from ..rigs.point_world import PointWorld

ID = "test/Point-v0"


@pytest.fixture(autouse=True)
def point() -> Iterator[None]:
    before = dict(gymnasium.registry)
    gymnasium.register(ID, entry_point=PointWorld, max_episode_steps=10)
    yield
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


def make_point() -> PointWorld:
    return PointWorld(start=0.5)


class Unrecorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that does not record its arguments."""


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ("pick_cube", ["task=pick_cube"]),
        ("Hopper-v5", ["task=gymnasium", "task.env_id=Hopper-v5"]),
        ("my_package:MyEnv-v0", ["task=gymnasium", "task.env_id=my_package:MyEnv-v0"]),
        ("robo_rl/PickCube-v0", ["task=pick_cube"]),
        (PointWorld, ["task=gymnasium", "task.env_id=tests.rigs.point_world:PointWorld"]),
    ],
)
def test_tasks_ids_and_classes(environment: Any, words: list[str]) -> None:
    assert environment_words(environment) == words


def test_environments_that_gymnasium_made() -> None:
    words = ["task=gymnasium", f"task.env_id={ID}"]
    assert environment_words(gymnasium.make(ID)) == words
    assert environment_words(gymnasium.make(ID, render_mode="rgb_array")) == words
    changed = environment_words(gymnasium.make(ID, start=0.25, max_episode_steps=5))
    assert changed == [*words, "task.max_episode_steps=5", "+task.env_kwargs.start=0.25"]


def test_arguments_are_written_as_hydra_reads_them() -> None:
    def accept(**arguments: Any) -> PointWorld:
        return PointWorld()

    values = {"text": 'a "b" \\', "number": "1", "none": None, "flag": True, "nested": {"sizes": (1, 2.5, [False])}}
    gymnasium.register("test/Accepting-v0", entry_point=accept)
    words = environment_words(gymnasium.make("test/Accepting-v0", **values))

    kwargs = composed_config("train", *words).task.env_kwargs
    assert kwargs == {**values, "nested": {"sizes": [1, 2.5, [False]]}}


def test_a_task_that_gymnasium_made_keeps_its_options() -> None:
    env = gymnasium.make("robo_rl/PickCube-v0", cube_size=0.05, observation={"cameras": ("front",)})
    words = ["task=pick_cube", "task.cube_size=0.05", 'task.observation.cameras=["front"]']
    assert environment_words(env) == words
    env.close()
    env = gymnasium.make("robo_rl/Reach-v0", reward={"success": 2.0})
    with pytest.raises(ConfigError, match=r"the weights reward=.* are not used in training"):
        environment_words(env)
    env.close()
    assert robo_rl.sim.ENVIRONMENTS["reach"] == "robo_rl/Reach-v0"


def test_functions_that_only_this_program_can_call_get_ids_of_their_own() -> None:
    def make() -> PointWorld:
        return PointWorld(start=0.5)

    first, same, second, third = map(
        environment_words, (make, make, lambda: PointWorld(), functools.partial(PointWorld, start=0.1))
    )
    ids = ["python/make-v0", "python/lambda-v0", "python/PointWorld-v0"]
    assert [words[1] for words in (first, second, third)] == [f"task.env_id={each}" for each in ids]
    assert same == first and gymnasium.make(ids[0]).unwrapped._start == 0.5
    assert environment_words(lambda: make())[1] == "task.env_id=python/lambda-v1"
    wrapped = gymnasium.wrappers.TransformReward(gymnasium.make(ID), abs)
    env_id = environment_words(wrapped)[1].partition("=")[2]
    assert "TransformReward" in str(gymnasium.make(env_id))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (PointWorld, r"was not made by gymnasium.make, .* give the class or a function instead, as .*\(PointWorld\)"),
        (lambda: Unrecorded(gymnasium.make(ID)), "the wrapper Unrecorded does not record its arguments"),
        (lambda: gymnasium.make(ID, start=object()), "the argument start=<object.* give a function without arguments"),
        (lambda: 3, "expected the name of a task, the id .*, got 3"),
    ],
)
def test_environments_that_cannot_be_made_again(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        environment_words(make())


def test_a_function_is_provided_to_a_run_of_another_program() -> None:
    provide_environment(PointWorld, "tests.rigs.point_world:PointWorld")
    provide_environment(make_point, "python/elsewhere-v0")
    assert gymnasium.make("python/elsewhere-v0").unwrapped._start == 0.5
    with pytest.raises(ConfigError, match="already made by <function make_point"):
        provide_environment(PointWorld, "python/elsewhere-v0")
    with pytest.raises(ConfigError, match="was not trained on, but Hopper-v5: leave it out"):
        provide_environment(make_point, "Hopper-v5")
