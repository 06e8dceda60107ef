"""Tests of ``agent.precision=auto``."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from robo_rl.agents.parts import flow_precision, precision
from robo_rl.agents.parts.native import available
from robo_rl.agents.sac import SACConfig, implementation, make_sac
from robo_rl.agents.sac.precision import TIMER
from robo_rl.core import ArraySpec, ConfigError

from ..rigs.specs import toy_spec

SPEC = toy_spec({"state": ArraySpec((3,), "float32")}, 2)

needs_native = pytest.mark.skipif(not available()[0], reason=available()[1])


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let the times be kept in an empty folder; the processor multiplies bfloat16."""
    path = tmp_path / "library.so"
    monkeypatch.setattr(precision.native, "library_path", lambda: path)
    monkeypatch.setattr(precision.native, "available", lambda name="float32": (True, "compiled"))
    monkeypatch.setattr(precision.native, "bfloat16_instructions", lambda: "AMX")
    TIMER.forget()
    yield path
    TIMER.forget()


def measured(monkeypatch: pytest.MonkeyPatch, *times: float) -> list[int]:
    """Let each measurement give ``times``; return a list that grows by one element with each."""
    calls: list[int] = []
    monkeypatch.setattr(TIMER, "measure", lambda names: calls.append(len(names)) or list(times))
    return calls


@needs_native
@pytest.mark.parametrize("timer", [TIMER, flow_precision.TIMER], ids=["sac", "flow"])
def test_the_times_of_updates_are_those_of_real_updates(timer: precision.UpdateTimer) -> None:
    one, other = timer.measure(("float32", "float32"))
    assert 1e-5 < one < 10
    assert 0.1 < one / other < 10


@pytest.mark.parametrize(
    ("times", "fastest"), [((2.0, 1.0), "bfloat16"), ((1.0, 2.0), "float32"), ((1.0, 0.97), "float32")]
)
def test_bfloat16_is_chosen_where_it_is_clearly_faster(library, monkeypatch, times, fastest) -> None:
    measured(monkeypatch, *times)
    assert TIMER.fastest() == fastest
    assert TIMER.bfloat16_share() == times[1] / times[0]


def test_a_machine_measures_once(library, monkeypatch) -> None:
    calls = measured(monkeypatch, 2.0, 1.0)
    for _ in range(2):
        TIMER.forget()  # as in another process
        assert TIMER.fastest() == "bfloat16"
    assert len(calls) == 1


def test_the_times_of_other_instructions_are_measured_anew(library, monkeypatch) -> None:
    """The operating system may refuse AMX tomorrow, to the same library."""
    calls = measured(monkeypatch, 2.0, 1.0)
    for instructions in ("AMX", "AVX512_BF16"):
        monkeypatch.setattr(precision.native, "bfloat16_instructions", lambda name=instructions: name)
        TIMER.forget()
        TIMER.fastest()
    assert len(calls) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"float32": 1}', '{"float32": 0, "bfloat16": 1}', '{"float32": "a"}'])
def test_a_damaged_file_is_measured_again(library, monkeypatch, text) -> None:
    calls = measured(monkeypatch, 2.0, 1.0)
    TIMER.fastest()
    (file,) = library.parent.glob("*.json")
    file.write_text(text)
    TIMER.forget()
    assert TIMER.fastest() == "bfloat16"
    assert len(calls) == 2
    assert json.loads(file.read_text()) == {"float32": 2.0, "bfloat16": 1.0}


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(library, monkeypatch) -> None:
    monkeypatch.setattr(precision.native, "library_path", lambda: Path("/proc/nowhere/library.so"))
    measured(monkeypatch, 2.0, 1.0)
    assert TIMER.fastest() == "bfloat16"


def test_without_products_of_bfloat16_nothing_is_measured(monkeypatch) -> None:
    monkeypatch.setattr(precision.native, "available", lambda name="float32": (name == "float32", "no products"))
    calls = measured(monkeypatch, 2.0, 1.0)
    assert TIMER.fastest() == "float32"
    assert not calls


def test_only_native_updates_are_ever_in_bfloat16_by_themselves(monkeypatch) -> None:
    monkeypatch.setattr(TIMER, "fastest", lambda: "bfloat16")
    for chosen, expected in (
        ("auto", "bfloat16"),
        ("native", "bfloat16"),
        ("torch", "float32"),
        ("compile", "float32"),
    ):
        config = SACConfig(precision="auto", implementation=chosen)
        assert implementation.computable(config, torch.device("cpu")).precision == expected
    config = SACConfig(precision="auto")
    assert implementation.computable(config, torch.device("cuda")).precision == "float32"
    filtering = SACConfig(precision="auto", cloning_filter=True)
    assert implementation.computable(filtering, torch.device("cpu")).precision == "float32"


@needs_native
def test_the_agent_says_which_precision_it_chose() -> None:
    """The choice itself depends on the processor."""
    agent = make_sac(spec=SPEC, seed=0, precision="auto", hidden=(8,))
    chosen = TIMER.fastest()
    assert agent.implementation.endswith("bfloat16, the faster precision here") == (chosen == "bfloat16")


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"agent\.precision.*auto, bfloat16.*float32"):
        make_sac(spec=SPEC, seed=0, precision="half")
