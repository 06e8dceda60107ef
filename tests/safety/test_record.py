"""What is said of actions that safety changes."""

from types import SimpleNamespace

import numpy as np
import pytest

from robo_rl.core import PASSED, Verdict
from robo_rl.safety.notices import FEWEST_STEPS, NOTICE_SHARE, WINDOW_STEPS, ChangeNotices, NoticingBackend
from robo_rl.training.safety_record import SafetyRecord


def notices_of(verdicts: list[Verdict]) -> list[str]:
    record = SafetyRecord()
    return [notice for notice in map(record.count, verdicts) if notice is not None]


def test_a_filter_that_changes_more_than_a_tenth_is_named_with_advice():
    changed = Verdict(changed=True, reasons=("contact",))
    count = int(NOTICE_SHARE * WINDOW_STEPS) + 1
    (notice,) = notices_of([changed] * count + [PASSED] * (WINDOW_STEPS - count))
    assert notice.startswith(f"safety changed {count} of the last {WINDOW_STEPS} actions by contact. Is the wrist's")


@pytest.mark.parametrize(
    "verdicts",
    [
        [PASSED] * (3 * WINDOW_STEPS),
        [Verdict(changed=True, reasons=("speed",))] * int(NOTICE_SHARE * WINDOW_STEPS) + [PASSED] * WINDOW_STEPS,
        # Each for itself seldom.
        [Verdict(changed=True, reasons=(f"own_{number % 20}",)) for number in range(WINDOW_STEPS)],
        # A reason that changes nothing.
        [Verdict(reasons=("watched",))] * WINDOW_STEPS,
    ],
)
def test_what_changes_little_is_not_said(verdicts):
    assert notices_of(verdicts) == []


def test_it_is_said_ever_more_seldom_and_for_each_filter():
    verdict = Verdict(changed=True, reasons=("speed", "my_filter", "speed"))
    notices = notices_of([verdict] * (16 * WINDOW_STEPS))
    assert len(notices) == 5  # windows 1, 2, 4, 8 and 16
    assert all("by my_filter;" in notice and "by speed." in notice for notice in notices)
    again = ChangeNotices()
    assert again.count(verdict) is None


def test_a_training_says_it(tmp_path, capsys):
    """Full speed against a low limit, in a training in one process."""
    from robo_rl.cli import main

    words = ["task=reach", "agent=sac", "agent.hidden=[16]", "agent.batch_size=16", "demonstrations.episodes=0"]
    words += ["run.env_steps=220", "agent.learning_starts=300", "run.evaluation_interval=0", "run.video_episodes=0"]
    words += ["run.final_evaluation_episodes=1", f"run.dir={tmp_path / 'run'}", "safety.speed.linear=0.01"]
    with pytest.raises(SystemExit) as caught:
        main(["train", *words, "safety.violation_budget=0"])
    assert not caught.value.code
    assert "actions by speed. Do actions ask for more" in capsys.readouterr().out.replace("\n", " ")


class Changing:
    """A backend whose safety filters change the first steps."""

    def __init__(self, verdicts: list[Verdict]) -> None:
        self._verdicts = iter(verdicts)

    def step(self, action: np.ndarray) -> SimpleNamespace:
        return SimpleNamespace(verdict=next(self._verdicts))

    def close(self) -> None: ...


@pytest.mark.parametrize("steps", [FEWEST_STEPS, 100, WINDOW_STEPS - 1])
@pytest.mark.parametrize(("share", "is_said"), [(0.05, False), (0.1, False), (0.2, True), (1.0, True)])
def test_what_is_executed_for_less_than_a_window_is_judged_at_its_end(steps, share, is_said):
    said, count = [], int(share * steps)
    verdicts = [Verdict(changed=True, reasons=("barrier",))] * count + [PASSED] * (steps - count)
    backend = NoticingBackend(Changing(verdicts), said.append)
    for _ in range(steps):
        backend.step(np.zeros(1, np.float32))
    assert said == []
    backend.close()
    assert [
        f"At step {steps}: safety changed {count} of the last {steps} actions by barrier" in text for text in said
    ] == [True] * is_said


def test_a_few_steps_are_not_judged():
    said = []
    backend = NoticingBackend(Changing([Verdict(changed=True, reasons=("speed",))] * FEWEST_STEPS), said.append)
    for _ in range(FEWEST_STEPS - 1):
        backend.step(np.zeros(1, np.float32))
    backend.close()
    assert said == []


@pytest.mark.parametrize("command", ["record", "collect", "eval"])
def test_commands_that_execute_a_policy_say_it(command, tmp_path, capsys):
    """Full speed against a low limit, in episodes that are shorter than a window."""
    from robo_rl.cli import main

    limits = ["safety.speed.linear=0.0005", "safety.violation_budget=0"]
    if command == "record":
        words = ["record", "task=reach", "record.episodes=1", "record.only_successful=false", *limits]
        words.append(f"record.output={tmp_path / 'data'}")
    else:
        words = ["train", "task=reach", "agent=sac", "agent.hidden=[16]", "agent.batch_size=16"]
        words += ["demonstrations.episodes=0", "run.env_steps=30", "agent.learning_starts=300", *limits]
        words += ["run.evaluation_interval=0", "run.video_episodes=0", "run.final_evaluation_episodes=1"]
        run_main(main, [*words, f"run.dir={tmp_path / 'run'}"])
        capsys.readouterr()
        rest = {
            "collect": [f"policy={tmp_path / 'run'}", "explore=true", "noise=1.0", f"output={tmp_path / 'data'}"],
            "eval": [f"run={tmp_path / 'run'}"],
        }[command]
        words = [command, *rest, "episodes=1", "checkpoint=newest", "only_successful=false"]
        words = [word for word in words if command == "collect" or "only_" not in word]
    run_main(main, words)
    assert "actions by speed. Do actions ask for more" in capsys.readouterr().out.replace("\n", " ")


def run_main(main, words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert not caught.value.code
