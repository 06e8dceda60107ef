"""The benchmark of precisions, run for a moment."""

import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.agents.parts.native import available, bfloat16_instructions

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.skipif(not available()[0], reason=available()[1])
def test_compares_the_kinds_of_products_that_this_machine_has() -> None:
    command = [sys.executable, str(BENCHMARKS / "bench_precision.py"), "--seconds", "0.1", "--agents", "rlpd"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    kinds = {"": [], "AVX512_BF16": ["AVX512_BF16"], "AMX": ["AVX512_BF16", "AMX"]}[bfloat16_instructions()]
    names = ["float32", *(f"bfloat16 by {instructions}" for instructions in kinds)]
    rows = [line.rsplit(maxsplit=3)[0] for line in done.stdout.splitlines()[1:]]
    assert rows[: len(names)] == names and rows[-len(names) :] == names
