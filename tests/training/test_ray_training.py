"""What runs inside the processes of Ray, without Ray; tests/integration/test_ray_training.py has it as a whole."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf, open_dict

from robo_rl.app import RayRuntimeConfig
from robo_rl.commands import train
from robo_rl.core import ConfigError, DataError, DriverError, Interruption
from robo_rl.training import ray_actors
from robo_rl.training import with_ray as ray_training
from robo_rl.training.ray_actors import RayActors, Simulators, demands, parsed_config
from robo_rl.training.with_ray import RayLearner, connect
from robo_rl.transport import TransportConfig

from ..rigs.command_line import exit_code
from ..rigs.composition import composed_config


@pytest.fixture(scope="module")
def text() -> str:
    """A run's config.yaml."""
    config = composed_config("train", "task=reach", "runtime=ray", "run.dir=none", "agent.gamma=0.9", "seed=7")
    with open_dict(config):
        config.choices = {"task": "reach", "runtime": "ray", "agent": "rlpd"}
    return OmegaConf.to_yaml(config, resolve=True)


class Acting:
    """Stands for a RemoteActor: acts until it is told to end; the one named ``fails`` fails instead."""

    names: list[str]

    def __init__(self, config: DictConfig, backend: object, interruption: Interruption) -> None:
        self.config, self.interruption = config, interruption

    def run(self) -> int:
        Acting.names.append(self.config.actor.name)
        if self.config.actor.name == "fails":
            raise DataError("this one fails")
        deadline = time.monotonic() + 60
        while self.interruption.signal is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        return 128 + self.interruption.signal


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Backends that were closed, while simulators are played."""
    backends: list[str] = []
    Acting.names = []
    monkeypatch.setattr(ray_actors, "RemoteActor", Acting)
    make = lambda config: SimpleNamespace(close=lambda: backends.append(config.actor.spool))  # noqa: E731
    monkeypatch.setattr(ray_actors, "build_backend", make)
    return backends


def test_simulators_have_names_and_spools_of_their_own_and_leave_when_told(text: str, closed: list[str]) -> None:
    simulators = Simulators(text, ["actor_1_0", "actor_1_1"], "/spools", TransportConfig("unix:/there"))
    for config in simulators._configs:
        assert (config.seed, config.agent.gamma, config.transport.address) == (7, 0.9, "unix:/there")
    thread = threading.Thread(target=simulators.run)
    thread.start()
    while len(Acting.names) < 2:
        time.sleep(0.001)
    simulators.leave()
    thread.join(60)
    assert not thread.is_alive()
    assert sorted(closed) == ["/spools/actor_1_0/spool", "/spools/actor_1_1/spool"]
    simulators.run()  # begun again by Ray, it leaves at once


def test_a_simulator_that_fails_ends_the_others_so_that_all_are_begun_again(text: str, closed: list[str]) -> None:
    simulators = Simulators(text, ["acts", "fails"], "/spools", TransportConfig("unix:/there"))
    for _ in range(2):
        with pytest.raises(DataError, match="this one fails"):
            simulators.run()
    assert len(closed) == 4


@pytest.mark.parametrize(
    ("identities", "restarts"), [(["a", "a", "a"], []), (["a", "b", "b"], [1]), (["a", "b", "c"], [1, 2])]
)
def test_a_process_that_ray_restarts_is_said(
    text: str, identities: list[str], restarts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    left, words = list(identities), list[str]()
    monkeypatch.setattr(ray_actors, "ray", SimpleNamespace(get=lambda request: left.pop(0)))
    monkeypatch.setattr(ray_actors, "is_done", lambda result: result == "identity")
    actors = RayActors(parsed_config(text), Path("run"), TransportConfig("unix:/there"), words.append)
    handle = SimpleNamespace(identity=SimpleNamespace(remote=lambda: "identity"))
    monkeypatch.setattr(actors, "_start", lambda name: ray_actors._Process(handle, "run", "identity"))
    actors.resize(1)
    for _ in identities:
        actors.watch(())
    assert words == [f"actor_0 ended and was restarted by Ray (restart {number})" for number in restarts]
    assert actors.restarts == len(restarts)


def test_a_learner_goes_on_where_there_is_a_checkpoint(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str | None] = []

    class Training:
        def __init__(self, config: DictConfig, folder: Path, interruption: Interruption, actors: Any) -> None:
            self.interruption = interruption
            began.append(config.resume)
            (folder / "checkpoints" / "step_0").mkdir(parents=True, exist_ok=True)
            (folder / "checkpoints" / "step_0" / "manifest.json").touch()

        def run(self) -> int:
            return 0 if self.interruption.signal is None else 128 + self.interruption.signal

        def close(self) -> None: ...

    monkeypatch.setattr(ray_training, "AsyncTraining", Training)
    learner = RayLearner(text, str(tmp_path / "run"))
    assert (tmp_path / "run" / "config.yaml").read_text() == text
    assert learner.run() == 0
    again = RayLearner(text, str(tmp_path / "run"))
    again.interrupt(signal.SIGINT)
    assert again.run() == 130
    assert began == [None, str(tmp_path / "run")]


def play(monkeypatch: pytest.MonkeyPatch, cluster: object) -> None:
    """Put ``cluster`` in the place of Ray."""
    for module in (ray_training, ray_actors):
        monkeypatch.setattr(module, "ray", cluster)


class PlayedCluster:
    """Stands for Ray with a learner that is placed or not, and that ends once it is told to."""

    def __init__(self, placed: bool) -> None:
        self.placed, self.ended = placed, False
        self.signals: list[int] = []

    def remote(self, _: object) -> Any:
        learner = SimpleNamespace(
            __ray_ready__=SimpleNamespace(remote=lambda: "placed"),
            run=SimpleNamespace(remote=lambda: "code"),
            wait_begun=SimpleNamespace(remote=lambda: "begun"),
            interrupt=SimpleNamespace(remote=self.signals.append),
        )
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: learner))

    def wait(self, results: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        if results == ["code"] and not self.signals:
            os.kill(os.getpid(), signal.SIGTERM)
        done = self.placed and (results == ["placed"] or bool(self.signals))
        return (results, []) if done else ([], results)

    def get(self, result: str) -> int | None:
        return 128 + self.signals[0] if result == "code" else None

    def shutdown(self) -> None:
        self.ended = True


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("resumed", [True, False])
def test_the_first_signal_ends_a_run_whether_its_learner_has_a_place_or_not(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, placed: bool, resumed: bool
) -> None:
    cluster = PlayedCluster(placed)
    play(monkeypatch, cluster)
    config = parsed_config(text)
    config.resume = str(tmp_path) if resumed else None
    (tmp_path / "config.yaml").write_text(text)
    if placed:
        assert ray_training.learn(config, tmp_path, lambda: None) == 143
    else:
        with pytest.raises(SystemExit, match="143"):
            ray_training.learn(config, tmp_path, lambda: None)
    assert cluster.signals == ([signal.SIGTERM] if placed else []) and cluster.ended
    assert (tmp_path / "config.yaml").exists() == (placed or resumed)


class PlayedRuns:
    """Stands for Ray with a learner that begins, refuses what it is to learn, or waits until a signal comes."""

    def __init__(self, ends: str, gone: Callable[[], bool]) -> None:
        self.ends, self.gone = ends, gone
        self.seen: list[bool] = []

    def remote(self, _: object) -> Any:
        names = {name: SimpleNamespace(remote=lambda name=name: name) for name in ("run", "wait_begun", "interrupt")}
        learner = SimpleNamespace(__ray_ready__=SimpleNamespace(remote=lambda: "placed"), **names)
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda *_: learner))

    def wait(self, results: list[str], num_returns: int, timeout: float) -> tuple[list[str], list[str]]:
        if self.ends == "waits" and results == ["run"]:
            os.kill(os.getpid(), signal.SIGTERM)
        self.seen.append(self.gone())
        begun = self.ends == "begins" and len(self.seen) > 3
        done = {"run": self.ends in ("refuses", "interrupted") or (begun and self.seen[-1]), "wait_begun": begun}
        return (results, []) if done.get(results[0], False) else ([], results)

    def get(self, result: str) -> int:
        if self.ends == "refuses":
            raise ConfigError("no such thing")
        return 0

    def shutdown(self) -> None: ...


@pytest.mark.parametrize("ends", ["begins", "refuses", "waits"])
def test_a_run_is_replaced_only_by_one_that_began(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    config, folder, weeks = parsed_config(text), tmp_path / "run", f"{text}# weeks of work\n"
    config.run.overwrite = True
    folder.mkdir()
    (folder / "config.yaml").write_text(weeks)
    earlier = folder / f".replaced-{os.getpid()}"
    cluster = PlayedRuns(ends, lambda: not earlier.exists())
    play(monkeypatch, cluster)
    monkeypatch.setattr(ray_training, "connect", lambda _: None)
    if ends == "begins":
        assert train._with_ray(config, folder) == 0
        assert cluster.seen[:3] == [False] * 3 and cluster.seen[-1], (
            "it goes when the new one began, not before or after"
        )
    else:
        with pytest.raises(ConfigError if ends == "refuses" else SystemExit):
            train._with_ray(config, folder)
    assert ((folder / "config.yaml").read_text() == weeks) == (ends != "begins")
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]


def test_a_learner_that_is_interrupted_before_it_began_gives_its_claim_up(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise SystemExit(130)

    monkeypatch.setattr(ray_training, "AsyncTraining", interrupted)
    assert RayLearner(text, str(tmp_path / "run")).run() == 130
    assert list((tmp_path / "run").iterdir()) == []
    cluster = PlayedRuns("interrupted", lambda: False)
    play(monkeypatch, cluster)
    with pytest.raises(SystemExit):
        ray_training.learn(parsed_config(text), tmp_path, lambda: None)


def test_more_than_the_machine_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, Any] = {}
    played = SimpleNamespace(
        is_initialized=lambda: False,
        init=lambda *words, **options: calls.update(options, address=words),
        cluster_resources=lambda: {"CPU": 2.0},
        shutdown=lambda: calls.update(ended=True),
    )
    monkeypatch.setattr(ray_training, "ray", played)
    connect(RayRuntimeConfig(actors=1))
    assert calls["address"] == ("local",) and "ended" not in calls
    with pytest.raises(ConfigError, match="needs 4 CPU of 2, 1 GPU of 0 that this machine has: lower runtime"):
        connect(RayRuntimeConfig(actors=3, learner_resources={"CPU": 1, "GPU": 1}))
    assert calls["ended"]
    connect(RayRuntimeConfig(cluster="head:6379", actors=30, transport=TransportConfig("127.0.0.1:1")))
    assert calls["address"] == ("head:6379",)


def test_a_ray_that_does_not_come_up_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.\nmore")

    monkeypatch.setattr(ray_training, "ray", SimpleNamespace(is_initialized=lambda: False, init=fail))
    with pytest.raises(DriverError, match=r"Ray did not start on this machine: The current node timed"):
        connect(RayRuntimeConfig())
    with pytest.raises(ConfigError, match=r"cluster=auto: no Ray cluster answers there \(The current node timed"):
        connect(RayRuntimeConfig(cluster="auto", transport=TransportConfig("127.0.0.1:1")))


def test_a_process_of_ray_begins_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a sweep with hydra/launcher=ray and runtime=ray."""
    monkeypatch.setattr(ray_training, "ray", SimpleNamespace(is_initialized=lambda: True))
    with pytest.raises(ConfigError, match=r"this is already a Ray process; choose runtime=local or runtime=async"):
        connect(RayRuntimeConfig())


def test_bounds() -> None:
    with pytest.raises(ConfigError, match=r"runtime.environments must be 1 or more, got 0"):
        RayRuntimeConfig(environments=0)
    with pytest.raises(ConfigError, match=r"runtime.actor_resources must be 0, or 0.0001 or more, of each, got"):
        RayRuntimeConfig(actor_resources={"CPU": -1})
    with pytest.raises(ConfigError, match=r"runtime.learner_resources must be 0, or 0.0001 or more, of each"):
        RayRuntimeConfig(learner_resources={"GPU": 0.00001})
    with pytest.raises(ConfigError, match=r"must be CPU, GPU, memory \[bytes\] and your own names, got \['object_st"):
        RayRuntimeConfig(learner_resources={"CPU": 1, "object_store_memory": 1e9})


def test_what_is_asked_for_is_what_ray_reserves() -> None:
    """Ray takes CPU, GPU and memory by keywords alone."""
    options = demands({"CPU": 0.5, "GPU": 1.0, "memory": 2e9, "lab": 1.0})
    assert options == {"num_cpus": 0.5, "num_gpus": 1.0, "memory": 2_000_000_000, "resources": {"lab": 1.0}}
    assert demands({"CPU": 1.0}) == {"num_cpus": 1.0, "num_gpus": 0, "resources": {}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "pip install 'robo-rl[ray]'"),
        (["runtime.cluster=auto"], "runtime.transport.address must be an address if runtime.cluster is"),
        (["teleop.device=window"], "a person cannot intervene in simulators of Ray"),
        (["robot=virtual"], "choose runtime=async"),
    ],
)
def test_mistakes_are_one_line_before_anything_begins(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine without Ray, what to install is said last."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "robo_rl.training.with_ray")
    assert exit_code("train", "task=reach", "runtime=ray", f"run.dir={tmp_path}/run", *words) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "config.yaml").exists()
