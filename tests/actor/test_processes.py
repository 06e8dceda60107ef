"""How many actors a learner starts itself, with processes that only sleep."""

import subprocess
import sys
from pathlib import Path

import pytest

from robo_rl.core import DriverError
from robo_rl.training import actor_processes
from robo_rl.training.actor_processes import ActorProcesses, free_names
from robo_rl.transport import TransportConfig
from robo_rl.transport.control import is_command, wanted_actors

SLEEPS = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: exit(143)); print(); time.sleep(600)"


class Sleepers(ActorProcesses):
    def _start(self, name: str) -> None:
        process = subprocess.Popen([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # it listens to signals
        self._processes[name] = process


def test_actors_are_added_and_the_newest_leave_without_being_started_again(tmp_path: Path) -> None:
    actors = Sleepers(tmp_path, TransportConfig(), max_restarts=0)
    try:
        actors.resize(2)
        assert actors.running() == ["actor_0", "actor_1"]
        leaving = actors._processes["actor_1"]
        actors.resize(1)
        assert leaving.wait(30) == 143
        actors.watch(())  # would complain of one that failed
        assert actors.running() == ["actor_0"]
        actors.resize(3)
        assert sorted(actors.running()) == ["actor_0", "actor_1", "actor_2"]
    finally:
        actors.stop()
    assert actors.running() == [] and actors.restarts == 0


class Failing(ActorProcesses):
    def _start(self, name: str) -> None:
        output = self._output(name)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text("starting\nrobo-rl: robot 'virtual' is not there\n\n")
        self._processes[name] = subprocess.Popen([sys.executable, "-c", f"exit({self.code})"])
        self._processes[name].wait()

    code = 2


def test_an_actor_that_the_user_has_to_help_is_not_started_again_before_it_ever_acted(tmp_path: Path) -> None:
    actors = Failing(tmp_path, TransportConfig(), max_restarts=1)
    actors.resize(1)
    with pytest.raises(DriverError, match=r"actor_0 cannot act: robot 'virtual' is not there .*output.log"):
        actors.watch(())
    actors.watch(["actor_0"])  # its robot may come back
    assert actors.restarts == 1


def test_while_its_robot_is_away_an_actor_spends_no_restart_and_people_hear_of_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor_processes, "PAUSE_SECONDS", 0.0)
    messages: list[str] = []
    actors = Failing(tmp_path, TransportConfig(), max_restarts=1, notify=messages.append)
    actors.code = 75
    actors.resize(1)
    with pytest.raises(DriverError, match="actor_0 cannot act: robot 'virtual' is not there"):
        actors.watch(())  # it never was there
    for _ in range(8):
        actors.watch(["actor_0"])
    assert actors.restarts == 0 and len(messages) == 1
    assert messages[0].startswith("actor_0 waits for its robot: robot 'virtual' is not there (full output: ")
    actors.code = 1
    while actors.restarts == 0:
        actors.watch(["actor_0"])  # it is started, and fails
    assert actors.restarts == 1 and len(messages) == 2
    assert messages[1].startswith("actor_0 ended with exit code 1 and is restarted (restart 1 of 1): robot 'virtual'")


def test_an_actor_that_crashes_is_started_again_and_its_last_words_are_told_in_the_end(tmp_path: Path) -> None:
    actors = Failing(tmp_path, TransportConfig(), max_restarts=1)
    actors.code = 1
    actors.resize(2)
    with pytest.raises(DriverError, match=r"exit code 1 and has no restart left .*robot 'virtual' is not there"):
        actors.watch(())
    assert actors.restarts == 1


def test_a_name_is_free_again_once_its_process_has_ended() -> None:
    assert free_names(["actor_1", "actor_3"], 3) == ["actor_0", "actor_2", "actor_4"]
    assert free_names([], -1) == []


@pytest.mark.parametrize("text", ["actors", "actors N", "actors -1", "actors 1000", "actors 2 3", "jump", ""])
def test_what_is_no_command(text: str) -> None:
    assert not is_command(text)
    assert wanted_actors(text) is None


def test_commands() -> None:
    assert is_command("pause") and wanted_actors("pause") is None
    assert is_command("actors 12") and wanted_actors("actors 12") == 12
