"""Signal temporal logic against the definition, written out, on random formulas and signals."""

import math
import time

import numpy as np
import pytest

from robo_rl.core import ConfigError
from robo_rl.core.temporal import Always, And, Atom, Eventually, Interval, Not, Or, Until
from robo_rl.core.temporal_text import parse_specification as parse

PERIOD = 0.1


def brute(formula, signals, t, length):
    """The definition, sample by sample."""
    if isinstance(formula, Atom):
        left, right = (signals[side][t] if isinstance(side, str) else side for side in (formula.left, formula.right))
        return left - right if formula.greater else right - left
    if isinstance(formula, Not):
        return -brute(formula.child, signals, t, length)
    if isinstance(formula, And):
        return min(brute(formula.left, signals, t, length), brute(formula.right, signals, t, length))
    if isinstance(formula, Or):
        return max(brute(formula.left, signals, t, length), brute(formula.right, signals, t, length))
    start, end = formula.interval
    times = [
        s for s in range(t, length) if start - 1e-6 <= (s - t) * PERIOD <= (end if math.isinf(end) else end + 1e-6)
    ]
    if isinstance(formula, Always):
        return min((brute(formula.child, signals, s, length) for s in times), default=math.inf)
    if isinstance(formula, Eventually):
        return max((brute(formula.child, signals, s, length) for s in times), default=-math.inf)
    assert isinstance(formula, Until)
    return max(
        (
            min(
                brute(formula.right, signals, s, length),
                *(brute(formula.left, signals, r, length) for r in range(t, s)),
                math.inf,
            )
            for s in times
        ),
        default=-math.inf,
    )


def brute_bounds(formula, signals, t, length):
    """The same of signals that go on after ``length`` samples: the lowest and the highest that it can become."""
    if t >= length:
        return -math.inf, math.inf
    if isinstance(formula, Atom):
        return (brute(formula, signals, t, length),) * 2
    if isinstance(formula, Not):
        low, high = brute_bounds(formula.child, signals, t, length)
        return -high, -low

    def smallest(parts, otherwise=math.inf):
        parts = list(parts)
        return tuple(min((part[side] for part in parts), default=otherwise) for side in (0, 1))

    def largest(parts):
        parts = list(parts)
        return tuple(max((part[side] for part in parts), default=-math.inf) for side in (0, 1))

    if isinstance(formula, And | Or):
        both = [brute_bounds(side, signals, t, length) for side in (formula.left, formula.right)]
        return smallest(both) if isinstance(formula, And) else largest(both)
    start, end = formula.interval
    last = 2 * length + 20 if math.isinf(end) else t + round(end / PERIOD)  # far enough beyond the end
    times = range(t + round(start / PERIOD), last + 1)
    if isinstance(formula, Always):
        return smallest(brute_bounds(formula.child, signals, s, length) for s in times)
    if isinstance(formula, Eventually):
        return largest(brute_bounds(formula.child, signals, s, length) for s in times)
    return largest(
        smallest(
            [
                brute_bounds(formula.right, signals, s, length),
                *(brute_bounds(formula.left, signals, r, length) for r in range(t, s)),
            ]
        )
        for s in times
    )


def random_formula(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        sides = [str(rng.choice(["a", "b"])), float(np.round(rng.normal(), 2))]
        return Atom(*(sides if rng.random() < 0.5 else sides[::-1]), greater=bool(rng.random() < 0.5))
    kind = rng.choice([Not, And, Or, Always, Eventually, Until])
    children = [random_formula(rng, depth - 1) for _ in range(2 if kind in (And, Or, Until) else 1)]
    if kind in (Always, Eventually, Until):
        start = round(float(rng.integers(0, 4)) * PERIOD, 1)
        end = math.inf if rng.random() < 0.3 else round(start + float(rng.integers(0, 5)) * PERIOD, 1)
        return kind(*children, Interval(start, end))
    return kind(*children)


def written(formula):
    if isinstance(formula, Atom):
        return f"({formula.left} {'>' if formula.greater else '<'} {formula.right})"
    if isinstance(formula, Not):
        return f"not {written(formula.child)}"
    if isinstance(formula, And | Or):
        return f"({written(formula.left)} {'and' if isinstance(formula, And) else 'or'} {written(formula.right)})"
    bounds = f"[{formula.interval.start}, {formula.interval.end}]"
    if isinstance(formula, Until):
        return f"({written(formula.left)} until{bounds} {written(formula.right)})"
    return f"{'always' if isinstance(formula, Always) else 'eventually'}{bounds} {written(formula.child)}"


def test_robustness_is_exactly_that_of_the_definition():
    rng = np.random.default_rng(0)
    for _ in range(150):
        formula = random_formula(rng, 3)
        length = int(rng.integers(1, 9))
        signals = {"a": rng.normal(size=length), "b": rng.normal(size=length)}
        expected = [brute(formula, signals, t, length) for t in range(length)]
        assert formula.trace(signals, PERIOD).tolist() == expected, written(formula)
        assert formula.robustness(signals, PERIOD) == expected[0]


def test_what_is_known_of_signals_that_go_on_is_exactly_what_follows():
    rng = np.random.default_rng(2)
    decided = 0
    for _ in range(150):
        formula = random_formula(rng, 3)
        length = int(rng.integers(1, 8))
        signals = {"a": rng.normal(size=length), "b": rng.normal(size=length)}
        low, high = float(formula.trace(signals, PERIOD, -math.inf)[0]), formula.highest(signals, PERIOD)
        assert (low, high) == brute_bounds(formula, signals, 0, length), written(formula)
        longer = {name: np.concatenate([values, 9 * rng.normal(size=12)]) for name, values in signals.items()}
        decided += high < 0 or low > 0
        if "inf" not in written(formula):  # decided within what follows
            assert low <= formula.robustness(longer, PERIOD) <= high
    assert decided > 30


def test_wide_intervals_of_longer_signals_are_exactly_those_of_the_definition():
    rng = np.random.default_rng(3)
    atoms = Atom("a", 0.0, greater=True), Atom("b", 0.5, greater=False)
    for _ in range(100):
        length, first = int(rng.integers(1, 40)), int(rng.integers(0, 12))
        last = math.inf if rng.random() < 0.3 else first + int(rng.integers(0, 40))
        interval = Interval(first * PERIOD, last * PERIOD)
        signals = {"a": rng.normal(size=length), "b": rng.normal(size=length)}
        for formula in (Always(atoms[0], interval), Eventually(atoms[1], interval), Until(*atoms, interval)):
            expected = [brute(formula, signals, t, length) for t in range(length)]
            assert formula.trace(signals, PERIOD).tolist() == expected, written(formula)
            assert formula.highest(signals, PERIOD) == brute_bounds(formula, signals, 0, length)[1], written(formula)


@pytest.mark.parametrize("text", ["a < 9 until b > 9", "a < 9 until[0, 600 s] b > 9"])
def test_what_was_long_ago_costs_little(text):
    signals = {name: np.random.default_rng(0).normal(size=20_000) for name in "ab"}
    began = time.process_time()
    parse(text).highest(signals, PERIOD)
    assert time.process_time() - began < 1.0, "some milliseconds; with its square it would be many seconds"


def test_an_eventuality_is_lost_when_its_time_is_over():
    formula = parse("always (force < 30 N) and eventually[0, 0.4 s] grasped")
    force, grasped = np.full(10, 12.0), np.zeros(10)
    signals = {"force": force, "grasped": grasped}
    highest = [formula.highest({key: value[:n] for key, value in signals.items()}, 0.1) for n in range(1, 8)]
    assert [high < 0 for high in highest] == [False] * 4 + [True] * 3
    force[2] = 31.0
    assert formula.highest({key: value[:3] for key, value in signals.items()}, 0.1) == -1.0


def test_what_is_written_is_read_back():
    rng = np.random.default_rng(1)
    for _ in range(200):
        formula = random_formula(rng, 4)
        assert parse(written(formula)) == formula


def test_precedence():
    assert parse("a > 0 or b > 0 and not a < 1") == parse("(a > 0) or ((b > 0) and (not (a < 1)))")
    assert parse("a > 0 implies b > 0") == parse("(not a > 0) or b > 0")
    assert parse("always a > 0 and b > 0") == parse("(always (a > 0)) and (b > 0)")
    assert parse("a > 0 until b > 0 and b < 2") == parse("(a > 0 until b > 0) and b < 2")


def test_units_are_converted_and_checked():
    assert parse("x > 5 cm") == Atom("x", 0.05, greater=True, unit="m")
    assert parse("always[100 ms, 2 s] 30 N > force") == Always(
        Atom(30.0, "force", greater=True, unit="N"), Interval(0.1, 2.0)
    )
    units = {"x": "m", "y": "m", "force": "N", "done": None}
    assert parse("x < y and (force < 3 or not done)").check(units) == {"x", "y", "force", "done"}
    parse("x < 3").check(units)  # a plain number is in the signal's unit
    for text, message in (
        ("x < 3 N", r"compares 'x' \[m\] and a number \[N\], whose units differ"),
        ("always x < force", r"compares 'x' \[m\] and 'force' \[N\]"),
        ("done > 1 m", r"'done' \[no unit\] and a number \[m\]"),
    ):
        with pytest.raises(ConfigError, match=message):
            parse(text).check(units)


def test_the_example_of_a_grasp():
    spec = parse("always (force < 30 N) and eventually[0,8s] (grasped)")
    grasped = np.zeros(100)
    grasped[60:] = 1.0
    force = np.full(100, 12.0)
    assert spec.robustness({"force": force, "grasped": grasped}, 0.1) == 0.5
    force[20] = 31.5
    assert spec.robustness({"force": force, "grasped": grasped}, 0.1) == -1.5
    assert spec.robustness({"force": force[:55] * 0, "grasped": grasped[:55]}, 0.1) == -0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("always (a < )", r"expected a number at character 13, found '\)'"),
        ("a < 3 4", "expected the end at character 7, found '4'"),
        ("a < 3 lb", r"expected a unit \(m, cm, .*\) at character 7, found 'lb'"),
        ("always[0, 3 N] a", r"expected a time in s or ms at character 11, found '3 N\] a'"),
        ("(a < 3", r"expected '\)' at character 7, found the end"),
        ("a ? 3", r"expected a name, a number, a comparison or a bracket at character 3, found '\? 3'"),
        ("always[2, 1] a < 3", r"an interval goes from 0 s or later to its end, got \[2.0, 1.0\]"),
        ("3", "expected <, <=, > or >= at character 2, found the end"),
        ("not and", "expected a signal or a number"),
        ("always (5 < 6)", "a comparison names a signal, got the numbers 5 and 6"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text)


def test_an_unknown_signal_is_named():
    with pytest.raises(ConfigError, match=r"names 'forse', which is not a signal: did you mean 'force'"):
        parse("forse < 3").check({"force": "N"})
