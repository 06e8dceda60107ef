"""The task of a data set: it is made as stored, and only what a saved configuration may name is made."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from robo_rl.app.recorded_task import recorded_backend
from robo_rl.core import DataError
from robo_rl.replay import EpisodeStore
from robo_rl.sim import make_backend

TARGET = "robo_rl.sim.make_backend"


def made(path: Path, metadata: dict[str, Any]) -> Any:
    with EpisodeStore.create(path, make_backend("reach").spec, metadata) as store:
        return recorded_backend(store)


def test_the_stored_options_are_those_of_the_simulation(tmp_path: Path) -> None:
    task = {"_target_": TARGET, "name": "reach", "tolerance": 0.03, "controller": {"action_axes": "xyz"}}
    assert made(tmp_path / "own", {"task": task}).config.tolerance == 0.03
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(OmegaConf.to_yaml({"task": {**task, "tolerance": 0.04}}))
    assert made(run / "demonstrations", {"source": "expert"}).config.tolerance == 0.04


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "does not store the configuration of its task"),
        ({"task": {"_target_": "os.system", "command": "true"}}, "names 'os.system'"),
        ({"task": {"_target_": TARGET, "name": "reach", "tolerance": "${oc.env:HOME}"}}, "is an interpolation"),
        ({"task": {"_target_": TARGET, "name": "flight"}}, "there is no task flight here"),
        ({"task": {"_target_": TARGET, "name": "reach", "tolerance": -1}}, "its task cannot be made: tolerance"),
        ({"task": {"_target_": TARGET, "name": "reach", "colour": "red"}}, "its task cannot be made: .*colour"),
    ],
)
def test_what_cannot_be_made_is_explained(tmp_path: Path, metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        made(tmp_path / "set", metadata)
