"""What a run of somebody else may decide where its policy acts: no robot without a confirmation, and no files."""

from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from robo_rl.app import acting_config, robot_note, run_config
from robo_rl.command_line.application import run_command
from robo_rl.core import ConfigError

from ..rigs.composition import composed_config


def write_run(folder: Path, words: list[str], safety: str = "default", reward: str = "sparse") -> Path:
    """Write the configuration that a run with these options saves."""
    GlobalHydra.instance().clear()
    words = ["task=pick_cube", f"safety={safety}", f"reward={reward}", "run.dir=runs/a", *words]
    config = composed_config("train", *words)
    robot = next((word.removeprefix("robot=") for word in words if word.startswith("robot=")), None)
    runtime = "local" if robot is None else "async"
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    chosen = {"task": "pick_cube", "agent": "rlpd", "reward": reward, "safety": safety, "robot": robot}
    values |= {"choices": chosen | {"runtime": runtime}}
    folder.mkdir()
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(values)))
    return folder


@pytest.mark.parametrize(
    ("words", "safety", "note"),
    [
        (["robot=virtual"], "default", "'virtual' acts within the limits of the run's configuration"),
        (["robot=virtual"], "none", "'virtual' acts without limits or emergency stop (safety=none)"),
        (["robot=franka"], "default", "'franka' acts within the limits"),
        (
            ["robot=ur", "safety.joints.enabled=false", "safety.workspace.enabled=false"],
            "default",
            "configuration, without safety.workspace, safety.joints",
        ),
    ],
)
def test_a_robot_acts_as_a_run_says_only_where_a_person_confirms_it(
    tmp_path: Path, words: list[str], safety: str, note: str
) -> None:
    run = write_run(tmp_path / "run", words, safety)
    for command, option in (("eval", "run"), ("collect", "policy")):
        with pytest.raises(ConfigError, match=r"then give on_robot=true") as caught:
            run_command(command, [f"{option}={run}"])
        assert note in str(caught.value)
    message = robot_note(acting_config(run, on_robot=True))
    assert message is not None and note in message


@pytest.mark.parametrize("file", ["/etc/passwd", "~/.bashrc", "runs/stop"])
def test_the_stop_file_that_a_run_names_is_not_used(tmp_path: Path, file: str) -> None:
    run = write_run(tmp_path / "run", [f"safety.emergency_stop.file='{file}'"])
    config = acting_config(run, on_robot=False)
    assert config.safety.emergency_stop.file is None and robot_note(config) is None


@pytest.mark.parametrize("name", ["keypoints", "preferences", "annotations"])
def test_the_folder_of_answers_that_a_run_names_is_not_used(tmp_path: Path, name: str) -> None:
    option = f"reward.modules.{name}.endpoint.cache={tmp_path / 'elsewhere'}"
    run = write_run(tmp_path / "run", [option], reward=name)
    assert run_config(run).reward.modules[name].endpoint.cache == str(tmp_path / "elsewhere")
    assert acting_config(run, on_robot=False).reward.modules[name].endpoint.cache is None
