"""docs/guide/reward.md: a reward term in a package of its own is part of a training."""

import json

import numpy as np

from robo_rl.rewards import FunctionModule

from ..rigs.guide import SMALL, Reader


def test_the_package_is_installed_and_counts_in_a_training(tmp_path):
    reader = Reader("reward.md", tmp_path)
    reader.write_files()
    reader.install()
    reader.follow("robo-rl train", *SMALL, "reward.modules.gentle.limit=0.1")
    lines = map(json.loads, (tmp_path / "runs/gentle/metrics.jsonl").read_text().splitlines())
    sums = [line["reward/gentle"] for line in lines if "reward/gentle" in line]
    assert sums and max(sums) < 0, "every hand feels a tenth of a newton"


def test_a_function_module_scores_rows():
    module = FunctionModule(lambda batch: batch["action"].sum(axis=1), judges_state=False)
    rewards = module({"action": np.ones((3, 2))})
    np.testing.assert_array_equal(rewards, np.full(3, 2, np.float32))
    assert rewards.dtype == np.float32 and not module.judges_state and not module.learned
