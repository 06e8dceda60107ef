"""The report command on run folders, as the command line calls it."""

import html.parser
import json
from urllib.parse import unquote

import numpy as np
import pytest
from omegaconf import OmegaConf

from robo_rl.commands import report
from robo_rl.core import ConfigError, DataError
from robo_rl.evaluation.plots import DARK, plot_runs
from robo_rl.evaluation.report import markdown_table
from robo_rl.evaluation.runs import load_run

from ..rigs.videos import write_video

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
        if self.stack and self.stack[-1] not in ("style", "script"):
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
    assert "sac_0: no summary.json: the run is still active or was killed" in page.text
    assert "98.0 % [98.0, 98.0]" in page.text  # Interquartile mean of three equal rates.
    assert "> 500" in page.text
    assert "agent.update_to_data" in page.text and "c0ffee" in page.text
    # Nothing is loaded from elsewhere, nothing of the configuration becomes markup.
    assert not any("src" in script for script in page.all("script")) and page.all("link") == []
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
