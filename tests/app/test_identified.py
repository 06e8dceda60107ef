"""The table of an identification, and its warning of a fit that explains little."""

from types import SimpleNamespace
from typing import Any

import pytest

from robo_rl.app.identified import print_identified
from robo_rl.telemetry import Console


@pytest.mark.parametrize(
    ("error", "nominal_error", "noise", "warned"),
    [(0.024, 0.1, 0.001, True), (0.005, 0.1, 0.001, False), (0.0015, 0.0016, 0.001, False)],
)
def test_a_fit_that_explains_little_is_reported(
    error: float, nominal_error: float, noise: float, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"name": "delay", "value": 0.03, "interval": (0.02, 0.04), "nominal": 0.0, "unit": "s"},
        {"name": "payload", "value": 0.0, "interval": None, "nominal": 0.0, "unit": "kg"},
    ]
    result: Any = SimpleNamespace(
        parameters=lambda: rows, error=error, nominal_error=nominal_error, noise=noise, age=0.006
    )
    print_identified(result, Console(highlight=False, markup=False))
    output = capsys.readouterr().out
    assert "0.02 to 0.04" in output and "does not determine payload, which keep" in output
    assert "were 6.0 ms old" in output and "Positions do not determine forces" in output
    assert ("does not explain the motion" in output) == warned
