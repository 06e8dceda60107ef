"""docs/guide/safety_filter.md: a filter in a package of its own changes actions in training and evaluation."""

import json

from ..rigs.guide import SMALL, Reader


def test_the_package_is_installed_and_filters_actions(tmp_path):
    reader = Reader("safety_filter.md", tmp_path)
    reader.write_files()
    reader.install()
    reader.follow("robo-rl train", *SMALL)
    safety = json.loads((tmp_path / "runs/slow/summary.json").read_text())["safety"]
    assert safety["reasons"]["slow_near_table"] > 0
    assert "2 episodes" in reader.follow("robo-rl eval", "episodes=2")
    assert "('slow_near_table',)" in reader.run_python()
