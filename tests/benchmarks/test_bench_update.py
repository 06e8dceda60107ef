"""The benchmark of full iterations: what it runs and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SIZES = {"critics": 3, "observation": 5, "action": 2, "hidden": (16, 12), "batch": 8, "updates": 4}


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Make the scripts of the benchmark importable."""
    monkeypatch.syspath_prepend(BENCHMARKS)


def test_ours_alone_in_a_tiny_run(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = [sys.executable, str(BENCHMARKS / "bench_update.py"), "--only", "native float32", "torch eager"]
    sizes = "--critics 2 --hidden 16 8 --batch 4 --updates 3 --rounds 2 --iterations 2 --threads 1"
    command += [*sizes.split(), "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    native, eager = json.loads(file.read_text())["results"]
    rows = [eager] if "unavailable" in native else [native, eager]
    for row in rows:
        assert row["implementation"] in done.stdout
        assert row["best_per_s"] >= row["median_per_s"] > 0
        assert (row["critic_steps"], row["actor_steps"], row["temperature_steps"]) == (3, 1, 1)
        assert row["first_s"] > 0 and row["import_s"] > 0 and row["memory_peak_mb"] >= row["memory_mb"] > 10
    if "unavailable" not in native:
        # That by the clock may be anything on a busy machine.
        assert all(0 < row["share_by_cpu"] < 1 for row in rows)


def test_what_a_peer_cannot_be_asked_for(benchmark, capsys) -> None:
    import bench_update

    with pytest.raises(SystemExit):
        bench_update.main(["--critics", "10", "--only", "native float32", "RLtools"])
    assert "--only: RLtools cannot have that number of critics" in capsys.readouterr().err


def test_a_missing_package_says_how_to_install_it(benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    import update_implementations
    import update_problem
    import update_worker

    kind = update_implementations.Kind(("robo_rl_no_such_package",), update_implementations.RLPD)
    monkeypatch.setitem(update_implementations.IMPLEMENTATIONS, "absent", kind)
    worker = update_worker.Worker("absent", update_problem.Problem(), 0.0)
    with pytest.raises(update_problem.UnavailableError, match=r"robo_rl_no_such_package is not installed: pip install"):
        worker.start()


def test_a_worker_that_dies_leaves_a_row_that_says_so(benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    import bench_update

    monkeypatch.setattr(bench_update.sys, "executable", "/bin/false")
    problem = bench_update.Problem(critics=1)
    (row,) = bench_update.compare(problem, ["SBX"], rounds=1, iterations=1)
    assert row["unavailable"] == "failed: its process ended with exit code 1"
    assert row["unavailable"] in bench_update.line_of(row)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.ones(3, np.float32)}, "critic: expected .* parameters, got 3"),
        ({"values": None}, "critic: did not change in 4 iterations"),
        ({"values": np.nan}, "critic: not finite after 5 iterations"),
        ({"steps": 19}, "critic: expected 4 steps an iteration, got 19 in all"),
    ],
)
def test_work_that_was_not_done_is_refused(benchmark, change: dict, message: str) -> None:
    from update_problem import Problem, Trained, check

    problem = Problem(**SIZES)
    before = {name: Trained(np.zeros(size, np.float32), 0) for name, size in problem.parameters.items()}
    after = {
        name: Trained(np.ones(size, np.float32), 20 if name == "critic" else 5)
        for name, size in problem.parameters.items()
    }
    assert check(problem, before, after, 5) == {"critic_steps": 4, "actor_steps": 1, "temperature_steps": 1}
    partial = {"actor": after["actor"]._replace(steps=None)}
    assert check(problem, before, partial, 5) == {}
    with pytest.raises(ValueError, match="actor: not shown"):
        check(problem, before, {"critic": after["critic"]}, 5)
    if "values" in change and not isinstance(change["values"], np.ndarray):
        wrong = before["critic"].values if change["values"] is None else np.full_like(after["critic"].values, np.nan)
        change = {"values": wrong}
    with pytest.raises(ValueError, match=message):
        check(problem, before, after | {"critic": after["critic"]._replace(**change)}, 5)
