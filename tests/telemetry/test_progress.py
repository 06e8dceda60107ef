"""The progress line, driven by a manual clock and read back from what it printed."""

import io

import pyte
from rich.console import Console

from robo_rl.core import ManualClock
from robo_rl.telemetry.progress import ProgressLine

SECOND = 1_000_000_000


def plain_line(seconds: float = 10.0) -> tuple[ProgressLine, io.StringIO, ManualClock]:
    stream, clock = io.StringIO(), ManualClock()
    return ProgressLine("pick_cube", seconds, Console(file=stream, force_terminal=False), clock), stream, clock


def test_rates_ratio_and_time_left_follow_from_the_counters() -> None:
    line, stream, clock = plain_line(seconds=5)
    line.episode(1.0, True)
    line.episode(0.25, False)
    for second in range(6):  # 4 steps and 80 updates a second
        line.update(4 * second, 1000, 80 * second)
        clock.advance_ns(SECOND)
    assert stream.getvalue().splitlines()[-1] == (
        "pick_cube  20/1,000 steps  return 0.25  success 50 % of 2  80 updates/s  update-to-data 20  4:05 left"
    )


def test_success_rate_is_over_the_last_20_episodes() -> None:
    line, _, _ = plain_line()
    for _ in range(30):
        line.episode(0.0, False)
    for _ in range(5):
        line.episode(1.0, True)
    line.update(1, 10, 0)
    assert "success 25 % of 20" in line.text()


def test_success_is_left_out_where_nobody_knows_it() -> None:
    line, _, _ = plain_line()
    line.episode(123.0, None)
    line.update(1, 10, 0)
    assert line.text() == "pick_cube  1/10 steps  return 123.00"


def test_rates_forget_what_is_older_than_their_window() -> None:
    line, _, clock = plain_line()
    for second in range(100):
        line.update(second, 1000, 1000 * second if second < 50 else 49_000 + 10 * second)
        clock.advance_ns(SECOND)
    assert "10 updates/s" in line.text()


def test_without_a_terminal_lines_are_rare_and_the_last_step_is_always_told() -> None:
    line, stream, clock = plain_line(seconds=10)
    for step in range(1, 251):  # 25 s at 10 Hz
        clock.advance_ns(SECOND // 10)
        line.update(step, 250, step)
    line.close()
    line.close()
    lines = [text.split()[1] for text in stream.getvalue().splitlines()]
    assert lines == ["1/250", "101/250", "201/250", "250/250"]
    assert "\x1b" not in stream.getvalue()


def test_an_interrupted_run_tells_where_it_stopped() -> None:
    line, stream, clock = plain_line(seconds=10)
    for step in range(1, 51):
        clock.advance_ns(SECOND // 2)
        line.update(step, 250, step)
    line.close()
    assert stream.getvalue().splitlines()[-1].split()[1] == "50/250"


def test_in_a_terminal_one_line_is_rewritten_and_messages_stand_above_it() -> None:
    stream, clock = io.StringIO(), ManualClock()
    console = Console(file=stream, force_terminal=True, width=120, height=10, _environ={"TERM": "xterm"})
    line = ProgressLine("reach", 10, console, clock)
    for step in range(1, 51):
        clock.advance_ns(SECOND)
        line.update(step, 50, 20 * step)
        if step == 10:
            line.message("checkpoint [saved]")
    line.close()
    screen = pyte.Screen(120, 10)
    pyte.Stream(screen).feed(stream.getvalue().replace("\n", "\r\n"))
    lines = [text.rstrip() for text in screen.display if text.strip()]
    assert lines[0] == "checkpoint [saved]"
    assert len(lines) == 2
    assert lines[1].startswith("reach  50/50 steps")
    assert lines[1].endswith("20 updates/s  update-to-data 20  0:00 left")
    assert stream.getvalue().endswith("\x1b[?25h"), "the cursor must be given back"


def test_what_the_robot_does_stands_before_the_rest_and_a_terminal_shows_it_at_once() -> None:
    line, stream, _ = plain_line()
    line.status("LEARNING")
    line.update(10, 10, 0)
    assert stream.getvalue().splitlines()[-1] == "pick_cube  10/10 steps  LEARNING"
    line.status("RECOVERY")
    assert "RECOVERY" not in stream.getvalue(), "no line for each change where the output is no terminal"
    screen = io.StringIO()
    live = ProgressLine("drive", 10.0, Console(file=screen, force_terminal=True, width=100), ManualClock())
    live.status("LEARNING")
    live.update(1, 10, 0)
    live.status("RECOVERY")
    assert "RECOVERY" in screen.getvalue()
    live.close()


def test_the_newest_step_is_shown_at_the_end_however_short_it_is_after_the_one_before() -> None:
    line, stream, clock = plain_line()
    line.update(1, 100, 0)
    clock.advance_ns(SECOND // 100)
    line.update(2, 100, 0)
    line.episode(1.0, True)
    line.show_newest()
    line.message("Evaluating")
    line.close()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "pick_cube  1/100 steps" and lines[2:] == ["Evaluating"]
    assert lines[1].startswith("pick_cube  2/100 steps  return 1.00  success 100 % of 1")
