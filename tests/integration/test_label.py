"""robo-rl label: what a person says of the frames of a data set, and the classifier that comes of it."""

import contextlib
import fcntl
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

from robo_rl.core import ConfigError, Intervention, ManualClock
from robo_rl.recording.labelling import FAST, Viewer
from robo_rl.recording.teleoperation import record_expert
from robo_rl.replay import UNKNOWN, EpisodeStore, LabelBook
from robo_rl.rewards.modules.stages import StagesConfig
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig

from ..rigs.command_line import exit_code


class Device:
    """A person who says what the script holds, one of it a frame: a motion, or a button."""

    def __init__(self, *script):
        self.script = list(script)
        self.displayed = []

    def read(self):
        entry = self.script.pop(0)
        moving = isinstance(entry, int)
        return Intervention(
            np.array([entry if moving else 0], np.float32), moving, frozenset([] if moving else [entry])
        )

    def reset(self, closed=False): ...

    def show(self, picture, lines):
        self.displayed.append((int(picture[0, 0, 0]), lines[0]))

    def close(self): ...


def frames(count):
    """Pictures of one colour, the number of the frame."""
    return np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None, None], (count, 4, 4, 3))


def viewer(device, stages=1):
    return Viewer(device, stages, rate=10.0, clock=ManualClock())


def test_buttons_speak_of_the_frame_that_is_shown_and_of_all_after_it():
    device = Device(0, 0, "success", 0, "discard", "failure", 0, 0, 0, 1)
    labels = viewer(device).label("episode", frames(8))
    np.testing.assert_array_equal(labels, [0, 0, 1, 1, UNKNOWN, 0, 0, 0])
    assert [number for number, _ in device.displayed] == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert device.displayed[3][1] == "episode, frame 4 of 8: success (playing)"
    assert device.displayed[-1][1].endswith("(the end; forward: the next episode)")


def test_stages_follow_one_another():
    device = Device("success", 0, "success", "success", 0, "failure", 1)
    np.testing.assert_array_equal(viewer(device, 2).label("episode", frames(6)), [1, 1, 2, 2, 2, 0])
    assert device.displayed[1][1] == "episode, frame 2 of 6: stage 1 of 2 (playing)"


def test_a_person_goes_back_and_corrects_frame_by_frame():
    """Who races to the end is not done before letting go there."""
    back = [-1, "pause", 1, "failure", -1, -1, "success", "pause"]
    device = Device("success", 1, 1, 1, 1, 0, *back, 1, 1, 1, 0, 1)
    labels = viewer(device).label("episode", frames(12))
    displayed = [number for number, _ in device.displayed]
    assert displayed[:8] == [0, 1, 1 + FAST, 1 + 2 * FAST, 11, 11, 11, 11 - FAST]
    assert displayed[8:14] == [7, 8, 8, 7, 6, 6]
    # Success from 0, failure from 8, then success from 6 on.
    np.testing.assert_array_equal(labels, np.ones(12))
    assert not device.script


def test_stop_leaves_the_episode_as_it_was():
    assert viewer(Device("success", "stop")).label("episode", frames(9)) is None
    assert viewer(Device("emergency_stop")).label("episode", frames(9)) is None
    with pytest.raises(ConfigError, match=r"teleop\.screen"):
        Viewer(object(), 1, 10.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Six episodes of the expert that go on after success, with pictures."""
    backend = make_backend(
        "reach",
        terminate_on_success=False,
        max_episode_steps=12,
        observation=ObservationConfig(cameras=("front",), width=16, height=16),
    )
    path = tmp_path_factory.mktemp("label") / "data"
    record_expert(backend, path, 6, noise=0.1, seed=0, only_successful=False)
    backend.close()
    return path


def test_labels_by_keys_in_a_terminal_and_the_classifier_of_them(recorded, tmp_path, capsys):
    """The whole command: an episode labelled by keys, the others by what physics says, a classifier from all."""
    far, near = os.openpty()
    fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    options = ["label", f"label.path={recorded}", "label.speed=3", "classifier.fit_steps=200"]
    process = subprocess.Popen(
        [sys.executable, "-m", "robo_rl.cli", *options], stdin=near, stdout=near, stderr=near, start_new_session=True
    )
    printed = b""

    def until(text, keys=b""):
        """Press ``keys`` and let go, once a second, until something like ``text`` (a pattern) is printed."""
        nonlocal printed
        deadline, start = time.monotonic() + 60, len(printed)
        press = time.monotonic()
        while not re.search(text, printed[start:]):
            assert time.monotonic() < deadline and process.poll() is None, printed[-2000:]
            if time.monotonic() >= press:
                os.write(far, keys)
                press += 1
            if select.select([far], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    printed += os.read(far, 65536)

    until(rb"episode 0 of 6, frame \d+ of 13: failure \(the end")
    until(rb"episode 0 of 6, frame [1-8] of 13", b"s")
    until(rb"episode 0 of 6, frame \d+ of 13: success \(", b"\r")
    until(rb"frame 13 of 13: success \(the end")
    until(rb"episode 1 of 6", b"w")
    os.write(far, b"\x1b")
    until(rb"1 of 6 episodes are labelled")
    assert process.wait(timeout=30) == 0
    os.close(far)
    os.close(near)

    with EpisodeStore.open(recorded) as store:
        book = LabelBook(store, 1)
        assert book.numbers == [0]
        assert book[0][-1] == 1 and (np.diff(book[0]) >= 0).all()
        for number in range(6):
            book.put(number, np.append(0, store.arrays(number).success == 1).astype(np.int8))
        truth = store.arrays(1).rows()
        spec = store.spec
    output = tmp_path / "goal.safetensors"
    capsys.readouterr()
    options += ["label.device=null", f"label.output={output}", "classifier.false_positives=0.3"]
    assert exit_code(*options) == 0
    terminal = capsys.readouterr().out
    assert "6 of 6 episodes are labelled" in terminal
    assert f"reward=stages reward.modules.stages.file={output}" in terminal
    # Of six episodes the second measures the errors: what was printed is what the classifier of the file does there.
    predicted, true = StagesConfig(file=str(output)).make("stages", spec, 0)(truth) == 1, truth["success"] == 1
    rates = [f"{100 * (predicted != true)[those].mean():.1f} % +{those.sum()}" for those in (~true, true)]
    assert re.search(rf"errors on 1 held-out episodes\n.*\nsuccess +{rates[0]} +{rates[1]}", terminal), terminal
    assert exit_code(*options) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_policy_is_trained_from_the_file(recorded, tmp_path):
    """The classifier of the file is the reward of a run, which needs no demonstrations then."""
    with EpisodeStore.open(recorded) as store:
        module = StagesConfig(stages=1, fit_steps=50).make("any", store.spec, 0)
        episodes = [store.arrays(number, ["state", "object"]).rows() for number in range(6)]
    module.learn(episodes, [(each["success"] == 1).astype(np.int8) for each in episodes])
    file = tmp_path / "goal.safetensors"
    module.save(file, {})
    small = [
        "agent=sac",
        "agent.hidden=[16]",
        "agent.implementation=torch",
        "agent.batch_size=16",
        "agent.learning_starts=10",
    ]
    ends = ["run.env_steps=30", "run.evaluation_interval=0", "run.final_evaluation_episodes=1", "run.video_episodes=0"]
    reward = ["reward=stages", f"reward.modules.stages.file={file}", "demonstrations.episodes=0"]
    run = [f"run.dir={tmp_path / 'run'}", "runtime.threads=1", "logging.progress=false"]
    assert exit_code("train", "task=reach", *reward, *small, *ends, *run) == 0
    assert '"reward/stages"' in (tmp_path / "run" / "metrics.jsonl").read_text()


def test_nothing_labelled_is_no_success(recorded, tmp_path, capsys):
    data, output = tmp_path / "data", tmp_path / "goal.safetensors"
    shutil.copytree(recorded, data, ignore=shutil.ignore_patterns("labels.json"))
    assert exit_code("label", f"label.path={data}", "label.device=null", f"label.output={output}") == 2
    printed = capsys.readouterr()
    assert "0 of 6 episodes are labelled" in printed.out
    assert printed.err.startswith("robo-rl: nothing to learn from: an episode is labelled once")
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["label.device=mouse"], "label.device must be null or one of keyboard, window, browser"),
        (["label.speed=0"], "label.speed must be above 0, got 0.0"),
        (["label.camera=side"], "label.camera: the data set has no camera 'side'"),
        (["classifier.file=x"], "there is no file x|classifier.file must be null"),
    ],
)
def test_wrong_options_end_in_one_line(recorded, arguments, line, capsys):
    assert exit_code("label", f"label.path={recorded}", "label.again=true", *arguments) == 2
    assert re.match(f"robo-rl: ({line}).*\n", capsys.readouterr().err)
