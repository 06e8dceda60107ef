"""The benchmark of updates of agents with a flow: the work that it counts, and a short run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils.flop_counter import FlopCounterMode

from robo_rl.core import ArraySpec

from ..rigs.specs import toy_spec

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SIZES = {"hidden": (16, 12), "batch_size": 8, "flow_steps": 3, "action_chunk": 2, "ensemble_size": 3}


@pytest.mark.parametrize(("name", "fields"), [("qc", {"candidates": 4}), ("fql", {})])
def test_operations_are_those_that_torch_counts(name: str, fields: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from bench_flow_update import AGENTS, made_up_batch, operations

    make, make_config, options = AGENTS[name]
    fields = options | fields
    config = make_config(**SIZES, **fields)
    spec = toy_spec({"state": ArraySpec((5,))}, 2)
    agent = make(spec=spec, seed=0, implementation="torch", **SIZES, **fields)
    with FlopCounterMode(display=False) as counter:
        agent.update(made_up_batch(8, 4, observation=5))
    # Autograd also makes the gradient on the observations in the actor's step, which nothing needs.
    waste = 0 if name == "qc" else 2 * 5 * config.hidden[0] * config.ensemble_size * config.batch_size
    assert counter.get_total_flops() == operations(config, 5, 4) + waste


def test_a_short_run(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = [sys.executable, str(BENCHMARKS / "bench_flow_update.py"), "--agents", "fql", "--rounds", "1"]
    done = subprocess.run([*command, "--json", str(file)], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())["results"]
    assert [row["implementation"] for row in rows][-1] == "torch"
    assert all(row["agent"] == "fql" and row["best_per_s"] > 0 and row["over_torch"] > 0 for row in rows)
