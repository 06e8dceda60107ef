"""The report and view commands on run folders and data sets, as the command line calls them."""

import contextlib
import html.parser
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from urllib.parse import unquote

import av
import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.commands import report, view
from robo_rl.core import ArraySpec, ConfigError, DataError, EnvSpec, Source, Transition
from robo_rl.evaluation import viewer as evaluation_viewer
from robo_rl.evaluation.plots import DARK, plot_runs
from robo_rl.evaluation.report import markdown_table
from robo_rl.evaluation.runs import load_run
from robo_rl.evaluation.viewer import Recording, check_viewer, quantities, viewer_command, web_address
from robo_rl.monitoring.viewer import export_video, record_episodes, record_run
from robo_rl.replay import EpisodeStore

from ..rigs.videos import read_video, write_video

HOSTILE = "<script>alert('&')</script>"


def configuration(command, **values):
    """The command's configuration file with ``values``, without Hydra."""
    from importlib.resources import files

    config = OmegaConf.create((files("robo_rl.configs") / f"{command}.yaml").read_text())
    del config["defaults"]
    return OmegaConf.merge(config, values)


def make_run(folder, seed=0, agent="rlpd", rates=(0.0, 0.4, 1.0), killed=False):
    (folder / "videos").mkdir(parents=True)
    config = {
        "seed": seed,
        "choices": {"task": "pick_cube", "agent": agent},
        "task": {"control_rate": 10},
        "agent": {"note": HOSTILE, "update_to_data": 20 if agent == "rlpd" else 1},
    }
    OmegaConf.save(OmegaConf.create(config), folder / "config.yaml")
    lines = [
        {"step": 500 * i, "wall_seconds": 30.0 * i, "kind": "evaluation", "success_rate": rate, "episodes": 20}
        for i, rate in enumerate(rates)
    ]
    lines.append({"step": 100, "wall_seconds": 4.0, "kind": "train", "critic_loss": 0.25, "nan": None})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if not killed:
        rate = {"value": 0.98, "low": 0.93, "high": 0.99, "episodes": 100}
        summary = {"status": "completed", "task": "pick_cube", "agent": agent, "seed": seed, "env_steps": 1000,
                   "robot_minutes": 1000 / 600, "wall_seconds": 66.0, "success_rate": rate, "updates_per_second": 321.0,
                   "versions": {"torch": "2.13.0"}, "git_commit": "c0ffee"}  # fmt: skip
        (folder / "summary.json").write_text(json.dumps(summary))
    write_video(folder / "videos" / "final #1.mp4", [np.zeros((32, 32, 3), dtype=np.uint8)] * 5, 10)
    return folder


class Page(html.parser.HTMLParser):
    """Collects tags, their attributes and the text of a page."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.text, self.stack = [], "", []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.stack.append(tag)

    def handle_data(self, data):
        if self.stack and self.stack[-1] != "style":
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def test_report_of_several_groups_with_a_killed_run(tmp_path, capsys):
    runs = tmp_path / "runs"
    for seed in range(3):
        make_run(runs / f"rlpd_{seed}", seed, rates=(0.0, 0.4 + 0.1 * seed, 1.0))
    make_run(runs / "sac_0", agent="sac", rates=(0.0, 0.0), killed=True)
    table = tmp_path / "results" / "table.md"
    assert report.run(configuration("report", runs=str(runs), table=str(table))) == 0
    page = Page(runs / "report.html")
    assert "sac_0: no summary.json: the run is still going on or was killed" in page.text
    assert "98.0 % [98.0, 98.0]" in page.text  # Interquartile mean of three equal rates.
    assert "> 500" in page.text
    assert "agent.update_to_data" in page.text and "c0ffee" in page.text
    # Nothing is loaded from elsewhere, nothing of the configuration becomes markup.
    assert page.all("script") == [] and page.all("link") == []
    assert HOSTILE in page.text
    assert len(page.all("img")) == 1 and page.all("img")[0]["src"].startswith("data:image/svg+xml;base64,")
    videos = [runs / unquote(video["src"]) for video in page.all("video")]
    assert len(videos) == 4 and all(video.is_file() for video in videos)
    rows = table.read_text().splitlines()
    cells = "98.0 % [98.0, 98.0] | 1,000 [1,000, 1,000] | 1.7 [1.7, 1.7] | 1.0 [1.0, 1.0] | – | – |"
    assert rows[2] == f"| pick_cube | rlpd | 3 | {cells}"
    assert rows[3].startswith("| pick_cube | sac | 1 | 0.0 % [0.0, 16.1] | > 500 |")
    assert "report.html" in capsys.readouterr().out


def test_report_of_one_run_may_be_sent_alone(tmp_path):
    folder = make_run(tmp_path / "run")
    assert report.run(configuration("report", runs=[str(folder)], embed=True)) == 0
    page = Page(folder / "report.html")
    assert page.all("video")[0]["src"].startswith("data:video/mp4;base64,")
    assert "98.0 %" in page.text and "success of 100 episodes, 95 % interval [93.0, 99.0]" in page.text
    assert "Not all runs are complete" not in page.text


def test_no_is_no(tmp_path):
    """YAML 1.2 takes no for a string, which would be true."""
    folder = make_run(tmp_path / "run")
    assert report.run(configuration("report", runs=str(folder), embed="no")) == 0
    assert not Page(folder / "report.html").all("video")[0]["src"].startswith("data:")


def test_figures_of_a_group_whose_first_run_died_early_are_those_of_all(tmp_path):
    """A run that was never evaluated is told, neither is what the others reached called a return."""
    make_run(tmp_path / "0", seed=0, rates=(), killed=True)
    make_run(tmp_path / "1", seed=1)
    make_run(tmp_path / "2", seed=2)
    report.run(configuration("report", runs=[str(tmp_path)]))
    text = Page(tmp_path / "report.html").text
    assert "98.0 %success, 95 % interval [98.0, 98.0] (2 of 3 runs)" in text
    assert "700environment steps a run, on average" in text, "(100 + 1000 + 1000) / 3"


def test_runs_of_one_seed_are_named_wherever_their_interval_is(tmp_path, capsys):
    """Two folders of a seed, by a copy or a second start, are no two samples of what a seed may bring."""
    for name, seed in {"first/0": 0, "first/1": 1, "second/0": 0}.items():
        make_run(tmp_path / name, seed=seed)
    table = tmp_path / "table.md"
    report.run(configuration("report", runs=[str(tmp_path)], output=str(tmp_path / "all.html"), table=str(table)))
    twice = f"seed 0 counts 2 times ({tmp_path}/first/0, {tmp_path}/second/0). Runs of one seed are not independent"
    output = capsys.readouterr().out
    assert twice in output and "3 (2 seeds)" in output
    assert twice in Page(tmp_path / "all.html").text
    assert "| rlpd | 3 (2 seeds) |" in table.read_text()
    report.run(configuration("report", runs=[str(tmp_path / "first")], table=str(table)))
    assert "not independent" not in capsys.readouterr().out + Page(tmp_path / "first" / "report.html").text
    assert "| rlpd | 2 |" in table.read_text()


def test_square_brackets_are_no_markup(tmp_path, capsys):
    for name in ("[/b]", "[bold]x"):
        report.run(configuration("report", runs=[str(make_run(tmp_path / name, agent=name))]))
        assert name in capsys.readouterr().out.splitlines()[1]


def test_report_of_a_run_without_evaluation(tmp_path):
    folder = make_run(tmp_path / "run", rates=(), killed=True)
    assert report.run(configuration("report", runs=[str(folder)], output=str(tmp_path / "a" / "page.html"))) == 0
    page = Page(tmp_path / "a" / "page.html")
    assert "No run holds an evaluation yet." in page.text
    assert (tmp_path / "a" / unquote(page.all("video")[0]["src"])).resolve() == folder / "videos" / "final #1.mp4"
    with pytest.raises(DataError, match="no curve to draw"):
        plot_runs([load_run(folder)], tmp_path / "curve.png")


def test_report_refuses_what_it_cannot_use(tmp_path):
    make_run(tmp_path / "run")
    with pytest.raises(DataError, match="did you mean 'run'"):
        report.run(configuration("report", runs=[str(tmp_path / "rum")]))
    with pytest.raises(ConfigError, match=r"output must be a file name that ends in \.html"):
        report.run(configuration("report", runs=[str(tmp_path / "run")], output="page.pdf"))
    with pytest.raises(ConfigError, match="runs must be one or more run folders"):
        report.run(configuration("report", runs=[]))


def test_curves_are_drawn_the_same_each_time(tmp_path):
    runs = [load_run(make_run(tmp_path / str(seed), seed, rates=(0, 0.1 * seed, 1))) for seed in range(3)]
    first = plot_runs(runs, tmp_path / "a.svg").read_bytes()
    assert plot_runs(runs, tmp_path / "b.svg").read_bytes() == first
    assert plot_runs(runs, tmp_path / "c.svg", DARK).read_bytes() != first
    assert plot_runs(runs, tmp_path / "d.png").read_bytes()[:4] == b"\x89PNG"


def test_markdown_cells_cannot_break_the_table(tmp_path):
    from robo_rl.evaluation.aggregate import Group

    group = Group("a|b", (load_run(make_run(tmp_path / "run")),))
    assert markdown_table([group]).splitlines()[2].startswith("| pick_cube | a\\|b | 1 |")


# --- view ------------------------------------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match=r"folder\.rrd: the recording cannot be written .*give another path"):
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
    with pytest.raises(ConfigError, match=r"there is no display for a window; give web=true"):
        view.run(configuration("view", path=str(data)))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for given in {port, port - 1} & set(range(1024, 65535)):
            with pytest.raises(ConfigError, match=rf"port: {port} of 127\.0\.0\.1 cannot be used \(.*give another"):
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
    deadline = time.monotonic() + 20
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
