"""robo-rl view: recordings of data sets and runs, exported videos, the viewer."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import av
import numpy as np
import pytest

from robo_rl.commands import view
from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, Source, Transition
from robo_rl.evaluation import viewer as evaluation_viewer
from robo_rl.evaluation.runs import load_run
from robo_rl.evaluation.viewer import Recording, check_viewer, quantities, viewer_command, web_address
from robo_rl.monitoring.viewer import export_video, record_episodes, record_run
from robo_rl.replay import EpisodeStore

from ..rigs.videos import read_video
from .test_report import configuration, make_run


def make_dataset(path, cameras=("front", "wrist")):
    """Two episodes of 4 and 6 steps; the second is taken over by a human for steps 2 and 3, and fails."""
    observation = {"state": ArraySpec((3,), names=("joint/1", "joint/2", "gripper"))}
    observation |= {f"images/{camera}": ArraySpec((24, 32, 3), "uint8") for camera in cameras}
    action = ArraySpec((2,), low=-1, high=1, names=("dx", "gripper"))
    spec = EnvSpec("toy", observation, action, "end_effector_delta", "base", 10.0, 50, ("success", "effort"))

    def observe(time):
        images = {f"images/{camera}": np.full((24, 32, 3), 10 * time, dtype=np.uint8) for camera in cameras}
        return {"state": np.array([time, -time, 0.5], dtype=np.float32), **images}

    sequence = 0
    with EpisodeStore.create(path, spec) as store:
        for number, length in enumerate((4, 6)):
            steps = []
            for time in range(length):
                last = time == length - 1
                proposed = np.array([0.1 * time, -1], dtype=np.float32)
                steps.append(
                    Transition(
                        observation=observe(time),
                        proposed_action=proposed,
                        executed_action=proposed if number == 0 else proposed / 2,
                        rewards={"success": float(last and number == 0), "effort": -0.5},
                        next_observation=observe(time + 1),
                        terminated=last and number == 0,
                        truncated=last and number == 1,
                        source=Source.HUMAN if number == 1 and time in (2, 3) else Source.SCRIPT,
                        actor="sim",
                        session=7,
                        episode=number,
                        sequence=sequence,
                        policy_version=-1,
                        stamp_ns=10**8 * sequence,
                        success=last and number == 0,
                    )
                )
                sequence += 1
            store.append_episode(steps)
    return path


class Notes:
    """Takes the place of a Rerun recording."""

    def __init__(self):
        self.series, self.frames, self.events, self.videos = {}, {}, [], []

    def scalars(self, entity, names, values, steps, seconds, stairs=False):
        rows = np.asarray(values, dtype=float).reshape(-1, len(names))
        assert len(rows) == len(steps) == len(seconds)
        self.series.setdefault(entity, []).append((list(names), rows, np.asarray(steps), np.asarray(seconds)))

    def images(self, entity, frames, steps, seconds):
        self.frames.setdefault(entity, []).append((np.asarray(frames), np.asarray(steps)))

    def text(self, entity, text, step, seconds, warning=False):
        self.events.append((step, text))

    def video(self, entity, path):
        self.videos.append(path.name)

    def lay_out(self, pictures, plots, log):
        self.pictures, self.plots = list(pictures), {row: list(entities) for row, entities in plots.items()}


def test_episodes_are_laid_end_to_end(tmp_path):
    notes = Notes()
    with EpisodeStore.open(make_dataset(tmp_path / "data")) as store:
        record_episodes(notes, store.spec, [(number, store.arrays(number)) for number in (0, 1)])
    assert notes.pictures == ["images/front", "images/wrist"]
    assert notes.plots["observation/state"] == ["observation/state/joint", "observation/state/gripper"]
    names, values, steps, seconds = notes.series["observation/state/joint"][1]
    assert names == ["joint/1", "joint/2"]
    # Seven observations of six actions, after the five of the first episode, at 10 Hz.
    np.testing.assert_array_equal(steps, np.arange(5, 12))
    np.testing.assert_allclose(seconds, np.arange(5, 12) / 10)
    np.testing.assert_array_equal(values[:, 0], np.arange(7))
    names, values, steps, _ = notes.series["rewards"][0]
    assert names == ["success", "effort"] and values[:, 0].tolist() == [0, 0, 0, 1] and steps.tolist() == [1, 2, 3, 4]
    # The proposed action is shown where it is not what was executed.
    assert len(notes.series["action/executed"]) == 2 and len(notes.series["action/proposed"]) == 1
    assert notes.series["source/human"][0][1][:, 0].tolist() == [0, 0, 1, 1, 0, 0]
    assert notes.frames["images/wrist"][1][0].shape == (7, 24, 32, 3)
    assert notes.events == [
        (0, "episode 0 begins, actions by script (sim, session 7)"),
        (4, "episode 0: success, terminated after 4 steps"),
        (5, "episode 1 begins, actions by script (sim, session 7)"),
        (7, "human takes over from script"),
        (9, "script takes over from human"),
        (11, "episode 1: failure, truncated after 6 steps"),
    ]


def test_a_run_is_shown_by_its_metrics_and_videos(tmp_path):
    notes = Notes()
    record_run(notes, load_run(make_run(tmp_path / "run", killed=True)))
    names, values, steps, seconds = notes.series["metrics/evaluation/success_rate"][0]
    assert (names, values[:, 0].tolist(), steps.tolist()) == (["success_rate"], [0.0, 0.4, 1.0], [0, 500, 1000])
    assert seconds.tolist() == [0, 30, 60]
    assert "metrics/train/nan" not in notes.series and notes.videos == ["final #1.mp4"]
    assert notes.plots["metrics/train"] == ["metrics/train/critic_loss"]
    assert "no summary.json" in notes.events[0][1]


def test_images_are_exported_side_by_side(tmp_path):
    data, path = make_dataset(tmp_path / "data"), tmp_path / "out" / "clip.mp4"
    assert view.run(configuration("view", path=str(data), episodes=[1], export=str(path))) == 0
    frames = list(read_video(path))
    assert len(frames) == 7 and frames[0].shape == (24, 68, 3)
    brightness = [frame[2, 2].mean() for frame in frames]
    np.testing.assert_allclose(brightness, 10 * np.arange(7), atol=4)
    with av.open(str(path)) as container:
        assert float(container.streams.video[0].average_rate) == 10


def test_what_cannot_be_shown_says_why(tmp_path):
    states = make_dataset(tmp_path / "states", cameras=())
    run = make_run(tmp_path / "run")
    clip = str(tmp_path / "clip.mp4")
    with pytest.raises(
        ConfigError, match=r"holds no images, only state, so there is nothing to export; record it again"
    ):
        view.run(configuration("view", path=str(states), export=clip))
    with pytest.raises(ConfigError, match=r"is a run, but only data sets are exported\. Its videos: .*final #1\.mp4"):
        view.run(configuration("view", path=str(run), export=clip))
    with pytest.raises(ConfigError, match=r"episodes must be numbers of episodes, 0 to 1, got 2"):
        view.run(configuration("view", path=str(states), episodes=[0, 2]))
    with pytest.raises(ConfigError, match=r"there is no .*state; in .*: did you mean 'states'\?"):
        view.run(configuration("view", path=str(tmp_path / "state")))
    with pytest.raises(ConfigError, match=r"save must be a file name that ends in \.rrd"):
        view.run(configuration("view", path=str(states), save="x.mp4"))


def test_without_rerun_the_error_says_what_to_install(tmp_path, monkeypatch):
    data = make_dataset(tmp_path / "data", cameras=())
    monkeypatch.setitem(sys.modules, "rerun", None)
    with pytest.raises(ConfigError, match=r"pip install 'robo-rl\[viewer\]'"):
        view.run(configuration("view", path=str(data)))
    both = {"export": str(tmp_path / "clip.mp4"), "save": str(tmp_path / "clip.rrd")}
    with pytest.raises(ConfigError, match=r"pip install 'robo-rl\[viewer\]'"):
        view.run(configuration("view", path=str(make_dataset(tmp_path / "film")), **both))
    assert not (tmp_path / "clip.mp4").exists(), "it is said before the work"


def test_what_is_no_episode_is_refused(tmp_path):
    data = make_dataset(tmp_path / "data", cameras=())
    for given, message in [([], r"\[\]"), ("abc", "'abc'"), (True, "True"), (1.0, "1.0"), ([0, -1], "-1")]:
        with pytest.raises(ConfigError, match=f"episodes must be numbers of episodes, 0 to 1, got {message}"):
            view.run(configuration("view", path=str(data), episodes=given, save=str(tmp_path / "a.rrd")))
    with pytest.raises(ConfigError, match=r"episodes must be null, as .*run is a run, got 3"):
        view.run(configuration("view", path=str(make_run(tmp_path / "run")), episodes=3))
    with EpisodeStore.open(data) as store:
        EpisodeStore.create(tmp_path / "empty", store.spec).close()
    with pytest.raises(DataError, match=r"empty holds no episodes; record some"):
        view.run(configuration("view", path=str(tmp_path / "empty")))


def test_an_interrupted_export_leaves_no_video(tmp_path, monkeypatch):
    """Neither half a video under the name of a whole one, nor the draft that nobody would remove."""
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"the one before")

    def interrupted(*_):
        raise KeyboardInterrupt

    with EpisodeStore.open(make_dataset(tmp_path / "data")) as store:
        read = store.arrays
        monkeypatch.setattr(store, "arrays", lambda number, keys: interrupted() if number else read(number, keys))
        with pytest.raises(KeyboardInterrupt):
            export_video(store, [0, 1], path)
    assert path.read_bytes() == b"the one before" and not list(tmp_path.glob("*.partial"))


def test_an_interrupted_recording_leaves_no_file(tmp_path):
    pytest.importorskip("rerun")
    file = tmp_path / "view.rrd"
    with pytest.raises(KeyboardInterrupt), Recording(file, "interrupted") as recording:
        recording.text("events", "half", 0, 0.0)
        assert not file.exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "folder.rrd").mkdir()
    with pytest.raises(DataError, match=r"folder\.rrd: the recording cannot be written .*choose another path"):
        Recording(tmp_path / "folder.rrd", "at a folder").close()
    assert [each.name for each in tmp_path.iterdir()] == ["folder.rrd"]
    # A killed one before may have left its draft, here one that cannot be replaced.
    (tmp_path / "draft.rrd.partial").mkdir()
    with pytest.raises(DataError, match=r"draft\.rrd: the recording cannot be written"):
        Recording(tmp_path / "draft.rrd", "at a draft")


def test_a_damaged_video_of_a_run_is_named_and_the_rest_is_shown(tmp_path):
    pytest.importorskip("rerun")
    run = make_run(tmp_path / "run")
    (run / "videos" / "cut.mp4").write_bytes(b"")
    with Recording(tmp_path / "view.rrd", "run") as recording:
        with pytest.raises(DataError, match=r"cut\.mp4 cannot be shown \(.*empty"):
            recording.video("videos/cut", run / "videos" / "cut.mp4")
        record_run(recording, load_run(run))
    assert (tmp_path / "view.rrd").stat().st_size > 0


@pytest.fixture
def viewer(monkeypatch):
    """Rerun counts as installed; nothing of it is used."""
    monkeypatch.setitem(sys.modules, "rerun", types.ModuleType("rerun"))
    monkeypatch.setitem(sys.modules, "rerun.blueprint", types.ModuleType("rerun.blueprint"))


def test_a_viewer_that_cannot_open_is_told_before_anything_is_written(tmp_path, viewer, monkeypatch):
    data = make_dataset(tmp_path / "data", cameras=())
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=r"there is no display for a window; use web=true"):
        view.run(configuration("view", path=str(data)))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for given in {port, port - 1} & set(range(1024, 65535)):
            with pytest.raises(ConfigError, match=rf"port: {port} of 127\.0\.0\.1 cannot be used \(.*choose another"):
                check_viewer(web=True, port=given)
    monkeypatch.setenv("DISPLAY", ":0")
    check_viewer(web=False, port=9090)


@pytest.mark.parametrize(
    ("number", "treatment"),
    [
        (signal.SIGINT, "default_int_handler"),
        (signal.SIGTERM, "default_int_handler"),
        (signal.SIGTERM, "SIG_IGN"),
        (signal.SIGHUP, "default_int_handler"),
    ],
)
def test_the_viewer_ends_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, treatment: str
) -> None:
    """Rerun's command waits for a program that it starts. Both ignore SIGINT if a shell runs them in the background."""
    started = tmp_path / "started"
    command = (
        "import signal, subprocess, sys\n"
        f"signal.signal(signal.SIGINT, signal.{treatment})\n"
        "program = 'import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(60)'\n"
        "sys.exit(subprocess.call([sys.executable, '-c', program, sys.argv[1]]))"
    )
    monkeypatch.setattr(evaluation_viewer, "viewer_command", lambda *_: [sys.executable, "-c", command, str(started)])
    before = signal.getsignal(signal.SIGTERM)
    # Ignored where a shell started these tests in the background.
    interrupts = signal.signal(signal.SIGINT, signal.default_int_handler)
    hangups = signal.signal(signal.SIGHUP, signal.SIG_DFL)

    seen = []

    def interrupt():
        while not started.exists():
            time.sleep(0.01)
        seen.extend(line for line in _commands() if str(started) in line)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert evaluation_viewer.show(tmp_path / "view.rrd", web=True, port=9090) == 0
    thread.join()
    signal.signal(signal.SIGINT, interrupts)
    signal.signal(signal.SIGHUP, hangups)
    assert len(seen) == 2, "the command and its program"
    assert signal.getsignal(signal.SIGTERM) is before
    deadline = time.monotonic() + 60
    while left := [line for line in _commands() if str(started) in line]:  # the program, shortly after its command
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def _commands():
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield file.read_text(errors="replace")


@pytest.mark.parametrize("kind", ["dataset", "run"])
def test_a_saved_recording_is_sound(tmp_path, kind):
    pytest.importorskip("rerun")
    path = make_dataset(tmp_path / "data") if kind == "dataset" else make_run(tmp_path / "run")
    file = tmp_path / "view.rrd"
    assert view.run(configuration("view", path=str(path), save=str(file))) == 0
    rerun = [sys.executable, "-m", "rerun", "rrd"]
    subprocess.run([*rerun, "verify", str(file)], check=True, capture_output=True)
    output = subprocess.run([*rerun, "stats", str(file)], check=True, capture_output=True, text=True).stdout
    expected = ["/images/front", "/observation/state/joint", "/rewards", "/events"] if kind == "dataset" else []
    expected += ["/videos/final", "/metrics/evaluation/success_rate"] if kind == "run" else []
    for entity in expected:
        assert entity in output
    assert not list(tmp_path.glob("*.partial"))


def test_the_web_viewer_is_offered_to_this_machine_alone(tmp_path):
    """Neither does the window take data of others than this machine."""
    for web in (True, False):
        command = viewer_command(tmp_path / "a.rrd", web, port=9090)
        assert command[command.index("--bind") + 1] == "127.0.0.1"
    command = viewer_command(tmp_path / "a.rrd", web=True, port=9090)
    assert command[command.index("--port") + 1] == "9091"
    assert web_address(9090) == "http://127.0.0.1:9090?url=rerun%2Bhttp%3A%2F%2F127.0.0.1%3A9091%2Fproxy"
    assert "--serve-web" not in viewer_command(tmp_path / "a.rrd", web=False, port=9090)


def test_elements_are_grouped_by_quantity():
    names = [
        "joint1_position",
        "joint7_position",
        "tip.x",
        "tip.y",
        "observation[0]",
        "observation[1]",
        "width",
        "tip_vx",
    ]
    names += ["cube_x_axis_x", "cube_x_axis_y", "3", "force/x", "box", "r11", "r12"]
    assert quantities(names) == {
        "joint_position": [0, 1],
        "tip": [2, 3],
        "observation": [4, 5],
        "width": [6],
        "tip_v": [7],
        "cube_x_axis": [8, 9],
        "3": [10],
        "force": [11],
        "box": [12],
        "r": [13, 14],
    }
