"""The share of intervened steps over the last episodes, and the advice that follows from it."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from robo_rl.core import ManualClock, RewardWeights, Source
from robo_rl.evaluation.curves import curves
from robo_rl.evaluation.runs import Run
from robo_rl.monitoring.run_table import facts
from robo_rl.telemetry import LoggingConfig, RunLogger, intervention_rate
from robo_rl.telemetry.metrics_file import read_metrics
from robo_rl.training.earnings import Earnings
from robo_rl.training.episodes import Episodes

P, H, S, R = Source.POLICY, Source.HUMAN, Source.SCRIPT, Source.RANDOM


def episode(steps: int, interventions: int = 1, length: int = 100) -> dict[str, Any]:
    return {"kind": "episode", "length": length, "intervened_steps": steps, "interventions": interventions}


def test_the_share_is_of_steps_and_compares_the_last_ten_episodes_with_the_ten_before() -> None:
    records = [episode(90)] * 5 + [episode(20)] * 10 + [episode(0, 0, length=300), *[episode(10)] * 9]
    rate = intervention_rate(records)
    assert rate is not None and rate.episodes == 10
    assert rate.share == pytest.approx(90 / 1200) and rate.earlier == pytest.approx(0.2)
    assert str(rate) == "8% of the steps of the last 10 episodes, 20% in the 10 before"
    assert intervention_rate([episode(90), *[episode(0, 0)] * 20]) is None
    assert intervention_rate([{"kind": "episode", "length": 9}]) is None  # of an older run


@pytest.mark.parametrize(
    ("before", "recent", "advice"),
    [
        ((30, 3), (0, 0), "no longer needs help"),
        ((30, 3), (4, 1), "rarely needed"),
        ((50, 5), (30, 3), "less help than before"),
        ((30, 3), (50, 5), "more help than before"),
        ((80, 1), (80, 1), "correct briefly"),
        ((80, 8), (80, 8), "Give control back"),
        ((30, 3), (30, 3), "Correct early"),
    ],
)
def test_advice_follows_from_share_trend_and_length(
    before: tuple[int, int], recent: tuple[int, int], advice: str
) -> None:
    rate = intervention_rate([episode(*before)] * 10 + [episode(*recent)] * 10)
    assert rate is not None and advice in rate.advice()


def test_a_run_counts_logs_and_shows_interventions(tmp_path: Path) -> None:
    """Every step of the second half of an episode is the person's, in two stretches."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=False, width=200)
    with RunLogger(tmp_path, LoggingConfig(), console=console, clock=ManualClock()) as logger:
        run: Any = SimpleNamespace(
            logger=logger,
            step=0,
            safety=SimpleNamespace(metrics=dict),
            components=SimpleNamespace(agent=None),
            experience=SimpleNamespace(scorer=None),
            evaluations=SimpleNamespace(watch=None),
        )
        log = Episodes(run)
        for number in range(6):
            earnings = Earnings(RewardWeights(), ("success",))
            for source in (P, R, H, P, S, H):
                earnings.add(np.ones((1, 1), np.float32), 0.99)
                earnings.count(source)
            resumed = Earnings(RewardWeights(), ("success",))
            resumed.load(earnings.state())
            run.step += 6
            log.end(number, 6, resumed, True, None, {})
        logger.progress(run.step, 100, 0)
        record = logger.recent_episodes[-1]
    assert (record["intervened_steps"], record["interventions"], record["intervention_share"]) == (3, 2, 0.5)
    assert stream.getvalue().count("Correct early and briefly (intervened: 50% of the steps of the last 5") == 1
    assert "intervened 50 %" in stream.getvalue()
    loaded = Run(tmp_path, {}, tuple(read_metrics(tmp_path / "metrics.jsonl")), None)
    assert dict(facts(loaded, False))["intervened"].endswith("last 6 episodes. Correct early and briefly")
    drawn = {curve["title"]: curve for curve in curves(loaded)}
    assert drawn["share of intervened steps, last 10 episodes"]["y"] == [0.5] * 6
