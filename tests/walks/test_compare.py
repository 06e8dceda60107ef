"""The guide page on comparisons of policies, as a reader follows it; a person judges virtual servos in a browser."""

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from robo_rl.evaluation.comparison import Comparison

from ..rigs.browser import open_browser, wait_until
from ..rigs.command_line import Forked
from ..rigs.guide import SMALL, Reader, command

PAGE = "compare.md"
SHORT = [*SMALL, "run.env_steps=20", "run.final_evaluation_episodes=1", "task.max_episode_steps=10"]


def test_two_runs_are_compared_in_simulation(tmp_path: Path) -> None:
    reader = Reader(PAGE, tmp_path)
    for run in ("early", "late"):
        reader.run([*command(PAGE, "robo-rl train task=reach run"), *SHORT, f"run.dir=runs/{run}"])
    words = [word for word in command(PAGE, "robo-rl eval compare") if not word.startswith("clips=")]
    printed = reader.run([*words, "pairs=6"])
    assert "The probability that equally good ones are declared different is at most 5 %" in printed
    shown = printed.partition("The comparison ended")[0]
    assert "Episode 1 of at most 12" in shown and not re.search(r"early|late\b|\b[AB]\b", shown)
    assert "runs/early" in printed.partition("The comparison ended")[2]
    assert not (tmp_path / "comparison.json.part").exists()
    comparison = Comparison.read(tmp_path / "comparison.json")
    assert [policy.name for policy in comparison.plan.policies] == ["runs/early", "runs/late"]
    assert comparison.finished
    assert "report: comparison.html" in reader.follow("robo-rl report comparison")
    page = (tmp_path / "comparison.html").read_text()
    assert "Evidence" in page and "runs/late" in page


class Judge:
    """A person who restores starts and judges episodes in a browser, without knowing who acts.

    Args:
        browser: with the open page.
    """

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.lines: list[str] = []
        self._answered: set[str] = set()

    def look(self) -> None:
        """Press the button that the page asks for, once for each episode."""
        text = self.browser.execute_script("return document.getElementById('lines').textContent")
        self.lines.append(text)
        match = re.search(r"episode (\d+) of at most 4: (place|solved)", text)
        if match is None or match[0] in self._answered:
            return
        self._answered.add(match[0])
        judgement = "success" if int(match[1]) in (1, 4) else "failure"
        self._press("pause" if match[2] == "place" else judgement)

    def _press(self, button: str) -> None:
        self.browser.execute_script(f"document.querySelector('[data-tap={button}]').click()")


def test_a_person_judges_virtual_servos_blind_in_a_browser(tmp_path: Path) -> None:
    pytest.importorskip("serial", reason="the extra 'servos' is not installed")
    pytest.importorskip("segno", reason="the extra 'web' is not installed")
    reader = Reader(PAGE, tmp_path)
    patient = ["robot.max_age=1", "robot.retries=5"]
    with open_browser(tmp_path / "profile") as browser:
        reader.follow("robo-rl train task=reach_so101", *SHORT, *patient)
        words = command(PAGE, "robo-rl eval compare 'policies=[runs/servos")
        options = ["pairs=2", "error=0.5", "web.address=127.0.0.1:0", "teleop.browser.timeout=20"]
        process = Forked(*words[1:], *options, folder=tmp_path, environment=reader.environment)
        printed: list[str] = []
        threading.Thread(target=lambda: printed.extend(process.stdout), daemon=True).start()
        try:
            link = wait_until(lambda: re.search(r"Drive at (\S+)", "".join(printed)) or process.returncode)
            browser.get(link[1])
            judge = Judge(browser)
            wait_until(lambda: judge.look() or process.returncode is not None)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, "".join(printed)
    seen = "".join(judge.lines) + "".join(printed).partition("Drive at")[2].partition("The comparison ended")[0]
    assert "servos" not in seen and not re.search(r"\b[AB]\b", seen)
    comparison = Comparison.read(tmp_path / "servos.json")
    assert [episode.person for episode in comparison.episodes] == [True, False, False, True]
    assert [episode.success for episode in comparison.episodes] == [True, False, False, True]
    assert all(episode.task is not None for episode in comparison.episodes)
    assert comparison.plan.success == "person" and comparison.agreement[1] == 4
    assert json.loads((tmp_path / "servos.json").read_text())["summary"] == comparison.describe()
