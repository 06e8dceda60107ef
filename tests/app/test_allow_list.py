"""Nothing that a file names is run: configurations of runs, and the other files that commands read."""

import copy
import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from robo_rl.app import allow_list, allow_packages, build, needed_packages, register_all_configs, run_config
from robo_rl.app.allow_list import check_saved
from robo_rl.app.trained import complete_config
from robo_rl.command_line.application import run_command
from robo_rl.core import ConfigError, RoboRLError
from robo_rl.evaluation.runs import load_run
from robo_rl.learner import load_checkpoint
from robo_rl.replay import EpisodeStore
from robo_rl.rewards.modules.classifier import ClassifierConfig
from robo_rl.safety.feasibility_filter import load_model
from robo_rl.telemetry import LiveWatch

from ..rigs.replay_episodes import SPEC, make_episode

TARGETS = [
    ("os.system", "touch {marker}"),
    ("posix.system", "touch {marker}"),
    ("os.popen", "touch {marker}"),
    ("builtins.eval", "open('{marker}', 'w')"),
    ("builtins.exec", "open('{marker}', 'w')"),
    ("builtins.open", "{marker}"),
    ("subprocess.run", ["touch", "{marker}"]),
    ("subprocess.check_output", ["touch", "{marker}"]),
    ("subprocess.Popen", ["touch", "{marker}"]),
    ("pathlib.Path.touch", "{marker}"),
    ("runpy.run_path", "{script}"),
    ("importlib.import_module", "hostile"),
    ("hostile.run", "now"),
    ("sympy.sympify", "open('{marker}', 'w')"),
    ("torch.hub.load", "{folder}"),
    ("torch.load", "{marker}"),
    ("numpy.load", "{marker}"),
    ("numpy.memmap", "{marker}"),
    ("pickle.load", "{marker}"),
    ("yaml.unsafe_load", "!!python/object/apply:os.system ['touch {marker}']"),
    ("hydra.utils.instantiate", {"_target_": "os.system", "command": "touch {marker}"}),
    ("hydra.utils.get_method", "os.system"),
    ("functools.partial", "{marker}"),
    ("robo_rl.app.composition.os.system", "touch {marker}"),
    ("robo_rl.app.composition.instantiate", {"_target_": "os.system", "command": "touch {marker}"}),
    ("robo_rl.training.actor_processes.subprocess.run", ["touch", "{marker}"]),
    ("robo_rl.core.durable.Path.touch", "{marker}"),
    ("robo_rl.core.native.native_library", "{marker}"),
    ("robo_rl.commands.keys.run", "{marker}"),
    ("robo_rl.replay.store.shutil.rmtree", "{folder}"),
    ("robo_rl.core.write_durably", "{marker}"),
    ("robo_rl.sim.make_backend.__call__", "{marker}"),
    ("robo_rl.sim.make_backend.__globals__", "{marker}"),
]
"""Code, and an argument that would have it leave a mark."""

PLACES = [
    "task",
    "agent",
    "reward",
    "safety",
    "reset",
    "teleop",
    "logging.wandb",
    "reward.others",
    "task.observation",
]


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    """The configuration that a run saves."""
    register_all_configs()
    GlobalHydra.instance().clear()
    with initialize_config_module("robo_rl.configs", version_base="1.3"):
        words = ["task=fake_arm", "agent=sac", "run.dir=runs/a", "+safety.filters=[]"]
        values = OmegaConf.to_container(compose("train", words), resolve=True)
    assert isinstance(values, dict)
    chosen = {"task": "fake_arm", "agent": "sac", "reward": "sparse", "safety": "default", "robot": None}
    return {str(key): value for key, value in values.items()} | {"choices": chosen}


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears when something of a configuration runs."""
    marker = tmp_path / "executed"
    code = f"from pathlib import Path\nPath({str(marker)!r}).touch()\nrun = Encoder = Path\n"
    (tmp_path / "hostile.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(allow_list, "_allowed", set())
    return marker


def write_run(folder: Path, values: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(values if isinstance(values, str) else yaml.safe_dump(values))
    return folder


def put(values: dict[str, Any], place: str, node: Any) -> dict[str, Any]:
    """Return ``values`` with ``node`` merged in at a dotted place, which is made where it is missing."""
    values = copy.deepcopy(values)
    *parents, last = place.split(".")
    inner: Any = values
    for parent in parents:
        if not isinstance(inner.get(parent), dict):
            inner[parent] = {}
        inner = inner[parent]
    before = inner.get(last)
    inner[last] = {**before, **node} if isinstance(before, dict) and isinstance(node, dict) else node
    return values


def filled(argument: Any, marker: Path) -> Any:
    text = json.dumps(argument)
    for name, value in (("marker", marker), ("script", marker.parent / "hostile.py"), ("folder", marker.parent)):
        text = text.replace("{" + name + "}", str(value))
    return json.loads(text)


def test_no_code_that_a_saved_configuration_names_is_run(saved: dict[str, Any], hostile: Path) -> None:
    small = {"choices": saved["choices"]}  # refused before anything is composed
    tried = set()
    for (target, argument), place in itertools.product(TARGETS, PLACES):
        given = {"_target_": target, "argument": filled(argument, hostile)}
        with pytest.raises(ConfigError, match=r"config.yaml: .*_target_ names .*allow=\["):
            run_config(write_run(hostile.parent / "run", put(small, place, given)))
        tried.add((target, place))
    assert len(tried) == len(TARGETS) * len(PLACES) >= 200
    assert not hostile.exists() and "hostile" not in sys.modules


@pytest.mark.parametrize(
    "place, node",
    [
        ("reward.modules.mine", {"_target_": "os.system", "_args_": ["touch {marker}"]}),
        ("agent", {"_partial_": True}),
        ("agent", {"_args_": [1]}),
        ("task", {"_convert_": "none"}),
        ("task", {"_recursive_": False}),
        ("reset", {"_target_": ["os.system"]}),
        ("reset", {"_target_": None}),
        ("reset", {"_target_": "${choices.task}"}),
        ("reset", {"_target_": "os.${x}"}),
        ("task.name", "${oc.env:HOME}"),
        ("task.name", "${oc.decode:'[1]'}"),
        ("task.name", "a ${now:%Y} ${oc.env:HOME,''}"),
        ("resumed", {"run": {"dir": "${oc.env:HOME}"}}),
        ("resumed", {"agent": {"_target_": "os.system"}}),
        ("resumed", {"safety": {"filters": [{"target": "torch.hub.load", "repo_or_dir": "{folder}", "model": "f"}]}}),
        ("resumed", {"runtime": {"cluster": "203.0.113.1:6379"}}),
        ("resumed", {"task": {"env_id": "hostile:Env-v0"}}),
        ("resumed", {"agent": {"gamma": 0.5}}),
        ("resumed", [1]),
        ("resumed", "run"),
        ("reward.modules", [[{"deep": [{"_target_": "os.system"}]}]]),
        ("safety.filters", [{"target": "os.system", "command": "touch {marker}"}]),
        ("safety.filters", [{"target": "robo_rl.app.composition.os.system"}]),
        ("safety.filters", [{"target": 3}]),
        ("task", {"env_id": "hostile:Env-v0"}),
        ("reward.modules.look", {"images": {"model": "torch:hostile.Encoder"}}),
        ("reward.modules.ask", {"endpoint": {"url": "https://example.org", "key_variable": "HOME"}}),
        ("runtime", {"cluster": "203.0.113.1:6379"}),
        ("choices", {"hydra/launcher": "ray"}),
        ("choices", {"hydra.searchpath": "[file:///tmp]"}),
        ("choices", {"task": "../../../../tmp/evil"}),
        ("choices", {"task": "/tmp/evil"}),
        ("choices", {"+reward/module@reward.modules.mine": "vice"}),
        ("choices", {"task": ["reach", "pick_cube"]}),
        ("choices", {"task": "reach,pick_cube"}),
        ("choices", "reach"),
    ],
)  # fmt: skip
def test_nor_is_it_by_other_ways(saved: dict[str, Any], hostile: Path, place: str, node: Any) -> None:
    run = write_run(hostile.parent / "run", put(saved, place, filled(node, hostile)))
    with pytest.raises(ConfigError, match=r"config.yaml"):
        run_config(run)
    assert not hostile.exists() and "hostile" not in sys.modules


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 2]\nb: *a\n",
        "a: " + "[" * 5000 + "]" * 5000,
        "task: !!python/object/apply:os.system ['touch {marker}']",
        "task: !!python/name:os.system",
        "- a list",
        "task: {a: 1\n",
        "task: " + "x" * (1 << 20),
        "? [1, 2]\n: 3",
        'task: "\\ud800"',
        "\x00",
    ],
)
def test_a_file_that_is_no_configuration_is_refused(hostile: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        run_config(write_run(hostile.parent / "run", text.replace("{marker}", str(hostile))))
    assert not hostile.exists()


def commands(run: Path) -> list[tuple[str, list[str]]]:
    return [
        ("eval", [f"run={run}", "episodes=1"]),
        ("collect", [f"policy={run}", f"output={run}/data"]),
        ("train", [f"resume={run}"]),
        ("learner", [f"resume={run}"]),
        ("actor", [f"run={run}"]),
        ("reward inspect", [f"run={run}", f"path={run}"]),
        ("reward publish", [f"run={run}", "robot=virtual"]),
        ("train", ["task=fake_arm", f"run.dir={run}/new", "intervention.criterion=random",
                   f"intervention.reference={run}"]),
        ("train", ["task=fake_arm", f"run.dir={run}/new", f"start.run={run}",
                   "agent.random_steps=0"]),
        ("train", ["task=fake_arm", f"run.dir={run}/new", f"base.run={run}"]),
        ("eval compare", [f"policies=[{run},{run}]"]),
        ("deploy", [f"run={run}", f"output={run}/policy.onnx"]),
        ("serve", [f"run={run}"]),
        ("play", [f"run={run}"]),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(14))
def test_every_command_that_reads_a_run_refuses(saved: dict[str, Any], hostile: Path, number: int) -> None:
    given = {"_target_": "os.system", "command": f"touch {hostile}"}
    run = write_run(hostile.parent / "run", put(saved, "task", given))
    command, words = commands(run)[number]
    with pytest.raises(ConfigError, match=r"task._target_ names 'os.system'.*allow=\[os\]"):
        run_command(command, words)
    assert not hostile.exists()


def test_packages_that_are_allowed_are_run_and_only_their_own_code(
    saved: dict[str, Any], hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hostile.parent / "own_rewards.py").write_text(
        "import os\nclass Mine:\n    pass\ndef make(**fields):\n    return 7\n"
    )
    folder = hostile.parent / "run"
    mine = put(saved, "reward.modules.mine", {"_target_": "own_rewards.make"})
    mine = put(mine, "reward._target_", "robo_rl.rewards.composition.ComposedRewardConfig") | {
        "choices": {**saved["choices"], "reward": "composed"}
    }
    mine["reward"] = {key: mine["reward"][key] for key in ("modules", "_target_")}
    run = write_run(folder, mine)
    with pytest.raises(
        ConfigError, match=r"reward.modules.mine._target_ names 'own_rewards.make'.*allow=\[own_rewards\]"
    ):
        run_config(run)
    allow_packages(["own_rewards"])
    config = run_config(run)
    assert build(config.reward.modules.mine) == 7
    assert needed_packages(config) == ["own_rewards"]
    for walk in (
        "own_rewards.os.system",
        "own_rewards.os.path.join",
        "own_rewards.Mine.__subclasses__",
        "own_rewardsx.f",
    ):
        with pytest.raises(ConfigError, match="names"):
            run_config(write_run(folder, put(mine, "reward.modules.mine._target_", walk)))
    # A name that is not there is allowed, and said to be missing by who makes the object.
    run_config(write_run(folder, put(mine, "reward.modules.mine._target_", "own_rewards.missing")))


def test_names_of_older_versions_are_understood(saved: dict[str, Any], hostile: Path) -> None:
    old = put(saved, "reward.modules.goal", {"_target_": "robo_rl.rewards.classifier.ClassifierConfig"})
    old = put(old, "reward._target_", "robo_rl.rewards.composition.ComposedRewardConfig")
    old |= {"choices": {**saved["choices"], "reward": "composed"}}
    old["reward"] = {key: old["reward"][key] for key in ("modules", "_target_")}
    old["agent"]["backend"] = old["agent"].pop("implementation")
    config = run_config(write_run(hostile.parent / "run", old))
    assert isinstance(build(config.reward.modules.goal), ClassifierConfig)
    assert config.agent.implementation == saved["agent"]["implementation"]
    for name in ("robo_rl.rewards.classifier.NoConfig", "other.rewards.classifier.ClassifierConfig"):
        with pytest.raises(ConfigError, match="_target_ names"):
            run_config(write_run(hostile.parent / "run", put(old, "reward.modules.goal._target_", name)))


def test_options_that_no_longer_exist_are_dropped_where_they_had_no_effect(
    saved: dict[str, Any], hostile: Path
) -> None:
    file = hostile.parent / "run" / "config.yaml"
    unused = {"dormancy": {"interval": 0, "rate": 2.0}, "network": "mlp", "value_bins": 0, "value_range": None}
    unused |= {"pretrain_critics": "none", "offline_steps": 1000, "conservative_weight": 0.1, "expectile": 0.7}
    old = put(saved, "agent", saved["agent"] | unused)
    assert run_config(write_run(file.parent, old)).agent == run_config(write_run(file.parent, saved)).agent
    for option, value in {"dormancy.interval": 100, "network": "simba", "pretrain_critics": "iql"}.items():
        message = re.escape(f"{file}: agent.{option}={value}: this option no longer exists. Use the version of")
        with pytest.raises(ConfigError, match=message):
            run_config(write_run(file.parent, put(old, f"agent.{option}", value)))


def test_the_file_itself_allows_nothing(saved: dict[str, Any], hostile: Path) -> None:
    values = put(saved, "reset", {"_target_": "os.system"}) | {"allow": ["os"]}
    with pytest.raises(ConfigError, match=r"reset\._target_"):
        run_config(write_run(hostile.parent / "run", values))
    harmless = complete_config(OmegaConf.create(saved | {"allow": ["os"]}), Path("config.yaml"))
    assert "allow" not in harmless and needed_packages(harmless) == []


@pytest.mark.parametrize("names", [["a b"], [3], ["os;rm"], [""]])
def test_allow_takes_names_alone(hostile: Path, names: list[Any]) -> None:
    with pytest.raises(ConfigError, match="allow"):
        allow_packages(names)


def test_other_files_that_name_code_run_none(hostile: Path) -> None:
    """Files with a configuration in them that nothing is made of, or that are no configuration."""
    node = {"_target_": "os.system", "command": f"touch {hostile}", "target": "hostile.run"}
    folder = hostile.parent / "step_000000001"
    folder.mkdir()
    for name in (
        "summary.json",
        "metrics.jsonl",
        "dataset.json",
        "manifest.json",
        "status.json",
        "card.json",
        "labels.json",
    ):
        (folder / name).write_text(json.dumps(node | {"metadata": node, "spec": node, "facts": node, "task": node}))
    (folder / "config.yaml").write_text(yaml.safe_dump({"task": node, "agent": node}))
    (folder / "live").mkdir()
    (folder / "live" / "status.json").write_text((folder / "status.json").read_text())
    assert load_run(folder).problems
    assert LiveWatch(folder).status() is None
    for read in (EpisodeStore.open, load_checkpoint, lambda path: load_model(path, None)):
        with pytest.raises(RoboRLError):
            read(folder)
    assert not hostile.exists() and "hostile" not in sys.modules


@pytest.mark.parametrize("codec", ["numcodecs.pickle", "pickle", "numcodecs.msgpack2", "numcodecs.json2", "hostile"])
def test_an_array_whose_codec_unpickles_is_refused(hostile: Path, codec: str) -> None:
    path = hostile.parent / "data"
    with EpisodeStore.create(path, SPEC) as store:
        store.append_episode(make_episode(0, 3))
    payload = f"cos\nsystem\n(S'touch {hostile}'\ntR.".encode()
    array = path / "arrays.zarr" / "observation" / "state"
    folder = array if array.is_dir() else next((path / "arrays.zarr").rglob("zarr.json")).parent
    facts = json.loads((folder / "zarr.json").read_text())
    for chunk in folder.glob("c*"):
        chunk.write_bytes(payload)
    serialised = {"name": "bytes", "configuration": {"endian": "little"}}
    for codecs in ([{"name": codec, "configuration": {}}], [serialised, {"name": codec, "configuration": {}}]):
        (folder / "zarr.json").write_text(json.dumps(facts | {"codecs": codecs}))
        with pytest.raises(RoboRLError), EpisodeStore.open(path) as store:
            store.episode(0)
    (folder / "zarr.json").unlink()  # Zarr 2 has such a codec
    old = {"zarr_format": 2, "shape": [4, 3], "chunks": [4, 3], "dtype": "|O", "fill_value": None, "order": "C"}
    (folder / ".zarray").write_text(json.dumps(old | {"compressor": None, "filters": [{"id": "pickle"}]}))
    (folder / "0.0").write_bytes(payload)
    with pytest.raises(RoboRLError), EpisodeStore.open(path) as store:
        store.episode(0)
    assert not hostile.exists()


def test_other_processes_of_a_run_may_make_what_the_run_may(saved: dict[str, Any], hostile: Path) -> None:
    """Those that Ray places; those that a learner starts itself are told on their command line."""
    pytest.importorskip("ray")
    from robo_rl.training.ray_actors import config_text, parsed_config

    (hostile.parent / "own_resets.py").write_text("def make(**fields):\n    return 7\n")
    values = put(saved, "choices", {"reset": "seeded"})
    config = run_config(write_run(hostile.parent / "run", values))
    config.reset._target_ = "own_resets.make"  # as on the command line of the run
    text = config_text(config)
    assert "allow" not in config and yaml.safe_load(text)["allow"] == ["own_resets"]
    allow_list._allowed.clear()
    assert build(parsed_config(text).reset) == 7


def test_an_environment_of_an_allowed_package_is_its_own_code(saved: dict[str, Any], hostile: Path) -> None:
    """A function that the package imports from elsewhere is not, although it can be called as one that makes one."""
    (hostile.parent / "honest_env.py").write_text("from subprocess import check_output\n\nclass Env: ...\n")
    allow_packages(["honest_env"])
    for name in ("Env", "Env-v0"):
        check_saved(OmegaConf.create(put(saved, "task", {"env_id": f"honest_env:{name}"})), Path("config.yaml"))
    node = {"env_id": "honest_env:check_output", "env_kwargs": {"args": ["touch", str(hostile)]}}
    with pytest.raises(ConfigError, match=r"task.env_id names 'honest_env.check_output'.*allow=\[subprocess\]"):
        check_saved(OmegaConf.create(put(saved, "task", node)), Path("config.yaml"))
