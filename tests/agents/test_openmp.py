"""Threads of OpenMP do not keep cores from others: docs/measured/performance.md says what that costs."""

import os
import subprocess
import sys

import pytest

SHOW = "import robo_rl, os, sys; assert 'torch' not in sys.modules; print(os.environ.get('GOMP_SPINCOUNT'))"


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "20000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_of_openmp_wait_briefly_unless_somebody_says_how(given: dict[str, str], expected: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", SHOW], env=kept | given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
