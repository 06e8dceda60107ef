"""robo-rl reward benchmark: the agreement of modules with the truth, and what it is measured with."""

import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import spearmanr

from robo_rl.cli import main
from robo_rl.commands import reward_benchmark
from robo_rl.core import Batch, TermScorer
from robo_rl.evaluation.correlation import calibration_error, rank_correlation
from robo_rl.monitoring.reward_comparison import agreement, compare_rewards, print_comparison
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import exit_code
from ..rigs.replay_episodes import SPEC, make_episode
from ..rigs.vlm_server import vlm_server


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=20))
def test_rank_correlation_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    one, other = (np.array(values, dtype=float) for values in zip(*pairs, strict=True))
    found = rank_correlation(one, other)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(float(spearmanr(one, other).statistic), abs=1e-12)


def test_agreement_over_steps_within_and_between_episodes() -> None:
    """Rewards rise within each episode as progress does, but better episodes have lower rewards."""
    progress = [np.array([0.0, 1, 2], np.float32), np.array([10.0, 11, 12], np.float32), np.full(3, 5, np.float32)]
    rewards = [np.array([5.0, 6, 7], np.float32), np.array([1.0, 2, 3], np.float32), np.array([4, 4, 4.0], np.float32)]
    found = agreement(rewards, progress, [])
    assert found.within == 1.0
    assert found.episodes == -1.0
    everything = spearmanr(np.concatenate(rewards), np.concatenate(progress)).statistic
    assert found.steps == pytest.approx(float(everything))
    assert found.calibration is None
    chances = [np.array([0.1, 0.92], np.float32), np.array([0.95, 0.45], np.float32)]
    ends = [np.array([0, 1], np.float32), np.array([0, 1], np.float32)]
    # Two cases of 0.935 in the mean of which one is so, one of 0.1 that is not, one of 0.45 that is.
    assert agreement(chances, ends, ends).calibration == pytest.approx((2 * 0.435 + 0.1 + 0.55) / 4)


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=30))
def test_calibration_is_that_of_a_sum_over_bins(cases: list[tuple[int, bool]]) -> None:
    chances = np.array([number / 40 for number, _ in cases])
    so = np.array([happened for _, happened in cases])
    expected = 0.0
    for lower in range(10):
        inside = [number for number in range(len(cases)) if min(cases[number][0] // 4, 9) == lower]
        if inside:
            expected += len(inside) / len(cases) * abs(np.mean(chances[inside]) - np.mean(so[inside]))
    assert calibration_error(chances, so) == pytest.approx(expected, abs=1e-12)
    assert calibration_error(chances - 1.5, so) is None


def test_the_command_measures_modules_on_episodes_they_have_not_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "new" / "result.json"
    arguments = [
        "task=open_door",
        "+reward/module@reward.modules.preferences=preferences",
        "reward.modules.preferences.length=4",
        "reward.modules.preferences.noise=0.2",
        "benchmark.episodes=15",
        "benchmark.demonstrations=4",
        "benchmark.practice_episodes=10",
        "benchmark.practice_steps=1000",
    ]
    assert not exit_code("reward", "benchmark", *arguments, f"benchmark.output={output}")
    result = json.loads(output.read_text())
    assert result["task"] == "open_door"
    assert result["episodes"] == 15
    assert str(tmp_path) not in output.read_text(), "results say nothing of the machine"
    # Few episodes and a hundred answers, a fifth of them wrong: the signs are certain, not the numbers.
    assert result["modules"]["perceptual"]["within"] > 0.3
    assert result["modules"]["preferences"]["within"] > 0.2
    assert result["modules"]["optimal_transport"]["episodes"] > 0.2
    starc = result["starc"]
    assert set(starc) == {"perceptual", "optimal_transport", "preferences", "progress"}
    for one, row in starc.items():
        assert row[one] == pytest.approx(0, abs=1e-6)
        assert all(0 <= distance <= 1 and distance == starc[other][one] for other, distance in row.items())
    assert starc["perceptual"]["progress"] < 0.7
    printed = capsys.readouterr().out
    assert "STARC distance" in printed


class TwoRewards:
    """A scorer of two rewards that have nothing to do with each other."""

    terms = ("first", "second")

    def score(self, rows: Batch, online: bool) -> dict[str, NDArray[np.float32]]:
        return {"first": rows["observation/state"][:, 0] * rows["action"][:, 0], "second": rows["action"][:, 1]}


@pytest.mark.parametrize(("steps", "known"), [(13, False), (14, True)])
def test_too_few_steps_give_no_distance(steps: int, known: bool, tmp_path: Path) -> None:
    """With as many steps as features of the potentials shaping would explain all rewards, as if they were the same."""
    with EpisodeStore.create(tmp_path / "data", SPEC) as store:
        store.append_episode(make_episode(0, steps))
        found = compare_rewards(cast(TermScorer, TwoRewards()), [store.arrays(0)], 0.9)
    distances = found.starc.values
    assert (distances["first"]["first"] is None) != known
    between = distances["first"]["second"]
    assert between is None if not known else between is not None and between > 0.3
    console = Console(record=True, width=100)
    print_comparison(console, found)
    printed = console.export_text()
    assert ("STARC takes 14 steps or more, there are 13: add episodes" in printed) != known


def test_a_result_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(reward_benchmark, "build_backend", None)
    assert exit_code("reward", "benchmark", f"benchmark.output={tmp_path / 'file' / 'result.json'}") == 2
    assert f"benchmark.output: {tmp_path}/file/result.json cannot be written" in capsys.readouterr().err


@pytest.mark.rendering
def test_models_that_see_pictures_over_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model that sees how near the hand is to the cube, and one that sees where the cube is, both scripted."""
    output = tmp_path / "result.json"
    with vlm_server(tmp_path / "server") as url:
        phrases = {"preferences": "near", "keypoints": '"lift red"'}
        options = [f"reward.modules.{module}.endpoint.model={model}" for module, model in phrases.items()]
        options += [f"reward.modules.{module}.endpoint.url={url}" for module in phrases]
        options += [f"reward.modules.{module}.endpoint.cache={tmp_path / 'cache'}" for module in phrases]
        options += [f"reward.modules.{module}.goal=lift the red cube" for module in phrases]
        with pytest.raises(SystemExit) as caught:
            main([
                "reward", "benchmark", "task=pick_cube", "~reward/module@reward.modules.perceptual",
                "~reward/module@reward.modules.optimal_transport",
                "+reward/module@reward.modules.preferences=preferences",
                "+reward/module@reward.modules.keypoints=keypoints", *options, "task.observation.cameras=[front]",
                "task.observation.width=64", "task.observation.height=64", "reward.modules.preferences.oracle=endpoint",
                "reward.modules.preferences.length=1", "benchmark.demonstrations=1", "benchmark.episodes=5",
                "benchmark.practice_episodes=5", "benchmark.practice_steps=600", f"benchmark.output={output}",
            ])  # fmt: skip
    assert not caught.value.code
    result = json.loads(output.read_text())
    assert 0 < result["learned"]["preferences/answers"] <= result["learned"]["preferences/queries"] == 60
    assert result["modules"]["preferences"]["steps"] > 0.3
    assert result["modules"]["keypoints"]["steps"] > 0.3
    assert "preferences/requests" in capsys.readouterr().out
