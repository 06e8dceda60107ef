"""What is said of actions that safety changes."""

import pytest

from robo_rl.core import PASSED, Verdict
from robo_rl.training.safety_record import NOTICE_SHARE, WINDOW_STEPS, ChangeNotices, SafetyRecord


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
