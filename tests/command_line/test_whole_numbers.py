"""Integer options are given in any usual notation, and refused where the number is not whole."""

from collections.abc import Iterator
from typing import Any

import pytest
from omegaconf import DictConfig, IntegerNode, ListConfig

from robo_rl.app import register_all_configs
from robo_rl.cli import AT_ONCE, COMMANDS, main
from robo_rl.command_line.usage import composed
from robo_rl.command_line.whole_numbers import with_whole_numbers
from robo_rl.commands import top, train

from ..rigs.command_line import exit_code


def _integers(config: DictConfig, path: str = "") -> Iterator[str]:
    """Yield the names of all integer options."""
    for key in config:
        node: Any = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_none() and not node._is_missing():
            yield from _integers(node, f"{path}{key}.")
        elif isinstance(node, IntegerNode) or (not isinstance(node, ListConfig) and type(node._value()) is int):
            yield f"{path}{key}"


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - AT_ONCE.keys()))
def test_every_integer_option_of_every_command(command: str) -> None:
    register_all_configs()
    name = command.replace(" ", "_")
    options = list(_integers(composed(name, [])))
    given, read = ([f"{option}={number}" for option in options] for number in ("1e3", "1000"))
    assert with_whole_numbers(name, [*given, "--cfg"]) == [*read, "--cfg"]
    fractions = [f"{option}=1.5" for option in options]
    assert with_whole_numbers(name, fractions) == fractions


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("run.env_steps=1e4", "run.env_steps=10000"),
        ("run.env_steps=10000.0", "run.env_steps=10000"),
        ("run.env_steps=2.5e3", "run.env_steps=2500"),
        ("run.env_steps=10_000", "run.env_steps=10000"),
        ("run.env_steps=1e9999999999", "run.env_steps=1e9999999999"),
        ("run.env_steps=1e99999999999999999999", "run.env_steps=1e99999999999999999999"),
        ("run.dir=1e99999999999999999999", "run.dir=1e99999999999999999999"),
        ("run.env_steps=1e-3", "run.env_steps=1e-3"),
        ("seed=1e0,2,3.0", "seed=1,2,3"),
        ("seed=range(0,1e1)", "seed=range(0,10)"),
        ("agent.hidden=[2.56e2,128]", "agent.hidden=[256,128]"),
        ("runtime.threads=2.0", "runtime.threads=2"),
        ("agent.gamma=1.0", "agent.gamma=1.0"),
        ("run.dir=1e4", "run.dir=1e4"),
        ("demonstrations.path='1e4'", "demonstrations.path='1e4'"),
        ("+new=1e4", "+new=1e4"),
    ],
)
def test_notations(word: str, read: str) -> None:
    register_all_configs()
    assert with_whole_numbers("train", [word, "task=reach"]) == [read, "task=reach"]


@pytest.mark.parametrize("sweep", ["seed=0,1", "agent=sac,flow", "seed=range(0,3)", "seed=choice(1,2)"])
def test_numbers_beside_a_sweep(sweep: str) -> None:
    register_all_configs()
    assert with_whole_numbers("train", [sweep, "run.env_steps=1e4"]) == [sweep, "run.env_steps=10000"]


def test_a_command_receives_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[DictConfig] = []

    def run(config: DictConfig) -> int:
        received.append(config)
        return 0

    monkeypatch.setattr(train, "run", run)
    monkeypatch.setattr(top, "run", run)
    for words in (["train", "task=reach", "run.env_steps=1e4", "seed=3.0"], ["top", "newest=1e1"]):
        with pytest.raises(SystemExit):
            main(words)
    assert [type(received[0].run.env_steps), received[0].run.env_steps] == [int, 10_000]
    assert [type(received[0].seed), received[0].seed] == [int, 3]
    assert [type(received[1].newest), received[1].newest] == [int, 10]


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["train", "task=reach", "run.env_steps=1.5e0"], "run.env_steps=1.5e0"),
        (["train", "task=reach", "run.env_steps=many"], "run.env_steps=many"),
        (["train", "task=reach", "seed=1.5"], "seed"),
        (["top", "newest=2.5"], "newest"),
    ],
)
def test_other_numbers_are_refused(words: list[str], start: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*words) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"robo-rl: {start}: expected a whole number, such as 10000, 10_000 or 1e4, got "), line
