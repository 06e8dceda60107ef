"""Evaluation of policies, statistics of few runs, videos, learning curves and reports.

Import the modules ``plots``, ``report`` and ``video`` by name: they load codecs and matplotlib, which a control loop
does not need.
"""

from .cycle_time import CycleTime, CycleTimes, cycle_time_lines
from .decision_periods import (
    DecisionPeriods,
    SlowPolicy,
    check_periods,
    evaluate_decision_periods,
    frequency_averaged_score,
)
from .evaluate import EpisodeOutcome, EvaluationResult, evaluate, no_time_limit
from .film import film_problem
from .statistics import (
    Proportion,
    align_curves,
    bootstrap_interval,
    interquartile_mean,
    steps_to_threshold,
    wilson_interval,
)

__all__ = [
    "CycleTime",
    "CycleTimes",
    "DecisionPeriods",
    "EpisodeOutcome",
    "EvaluationResult",
    "Proportion",
    "SlowPolicy",
    "align_curves",
    "bootstrap_interval",
    "check_periods",
    "cycle_time_lines",
    "evaluate",
    "evaluate_decision_periods",
    "film_problem",
    "frequency_averaged_score",
    "interquartile_mean",
    "no_time_limit",
    "steps_to_threshold",
    "wilson_interval",
]
