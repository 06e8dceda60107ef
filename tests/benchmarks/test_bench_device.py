"""The benchmark of whole updates on one device."""

import importlib
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_measures_states_and_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "result.json"
    sizes = ["--updates", "1", "--image-size", "16", "--rows", "4"]
    kinds = ["--device", "cpu", "--implementations", "torch", "--precisions", "float32", "--json", str(file)]
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.setattr(sys, "argv", ["bench_device.py", *sizes, *kinds])
    importlib.import_module("bench_device").main()
    rows = json.loads(file.read_text())["rows"]
    names = ["state, 10 critics", "state, 2 critics", "pixels, two cameras", "cached features, two cameras"]
    assert [row["name"] for row in rows] == names
    for row, updates in zip(rows, (20, 20, 1, 1), strict=True):
        assert row["critic_updates_per_s"] == pytest.approx(1e3 * updates / row["ms"])
        assert row["first_s"] > 0
        assert "failed" not in row
        assert ("share" in row) == row["name"].startswith("state")
