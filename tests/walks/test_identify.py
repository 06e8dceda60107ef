"""The guide page on identification, as a reader follows it."""

import json
from pathlib import Path

import yaml

from ..rigs.guide import SMALL, Reader, command

PAGE = "identify.md"


def test_an_unknown_arm_is_identified_and_used(tmp_path: Path) -> None:
    reader = Reader(PAGE, tmp_path)
    printed = reader.follow("robo-rl identify task=reach_so101 fit=false", "episodes=2", "excitation.seconds=6")
    assert "moves its joints around home by up to" in printed and "2/2 stored" in printed
    assert "robo-rl identify data=unknown/log" in printed
    printed = reader.follow("robo-rl identify task=reach_so101 data=")
    assert "Predictions over one second that were not fitted err by" in printed
    report = json.loads((tmp_path / "identified" / "identified.json").read_text())
    assert report["ratio"] < 0.2
    dynamics = yaml.safe_load((tmp_path / "identified" / "arm" / "identified.yaml").read_text())["arm"]["dynamics"]
    assert abs(dynamics["delay"] - 0.03) < 0.005
    assert (tmp_path / "identified" / "curves.png").exists()
    train = command(PAGE, "robo-rl train")
    reader.run([*train, *SMALL])
    run = yaml.safe_load((tmp_path / "runs" / "identified" / "config.yaml").read_text())
    assert run["task"]["arm"]["dynamics"]["delay"] == dynamics["delay"]
    randomised = [word.replace("=identified", "=identified_randomised") for word in train if "run.dir" not in word]
    shown = reader.run([*randomised, "--cfg", "job"])
    assert yaml.safe_load(shown)["task"]["randomisation"]["dynamics"] > 0
