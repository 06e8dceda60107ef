"""In how many threads a learner computes."""

import pytest
import torch

from robo_rl.app import set_threads

from ..rigs.composition import composed_config


@pytest.mark.parametrize(
    ("words", "threads"),
    [
        ([], 4),
        (["runtime.threads=2"], 2),
        (["runtime=async"], 4),
        (["runtime=async", "runtime.threads=2"], 2),
        (["robot=virtual"], 3),
        (["robot=virtual", "runtime.threads=4"], 4),
        # Its actor is on another machine.
        (["robot=virtual", "runtime.actors=0", "runtime.transport.address=127.0.0.1:50551"], 4),
    ],
)
def test_a_core_is_left_to_the_control_loop_of_a_robot(
    words: list[str], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = [4]
    monkeypatch.setattr(torch, "get_num_threads", lambda: chosen[-1])
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    set_threads(composed_config("train", *words))
    assert chosen[-1] == threads
