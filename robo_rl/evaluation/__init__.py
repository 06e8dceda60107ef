"""Evaluation of policies, statistics of few runs, videos, learning curves and reports.

Import the modules ``plots``, ``report`` and ``video`` by name: they load codecs and matplotlib, which a control loop
does not need.
"""

from .cycle_time import CycleTime, CycleTimes, cycle_time_lines
from .decision_periods import DecisionPeriods, check_periods, evaluate_decision_periods
from .evaluate import EpisodeOutcome, EvaluationResult, evaluate, no_time_limit
from .film import film_problem

__all__ = [
    "CycleTime",
    "CycleTimes",
    "DecisionPeriods",
    "EpisodeOutcome",
    "EvaluationResult",
    "check_periods",
    "cycle_time_lines",
    "evaluate",
    "evaluate_decision_periods",
    "film_problem",
    "no_time_limit",
]
