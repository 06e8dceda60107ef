"""Training from reward modules: every term is logged, and a resumed run equals an unbroken one, bit for bit."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from robo_rl.cli import main
from robo_rl.core import Batch, Source
from robo_rl.evaluation.hacking import RewardWatch
from robo_rl.learner import CheckpointFolder
from robo_rl.replay import EpisodeStore

from ..rigs.command_line import exit_code
from ..rigs.run_folder import records

STEPS = 70
# Modules that judge steps, that judge episodes, that learn, that change the discount; potentials and normalisation.
TRAIN = [
    "task=reach",
    "reward=composed",
    "+reward/module@reward.modules.steps=perceptual",
    "reward.modules.steps.steps=2",
    "+reward.terms.steps.potential=true",
    "+reward.terms.steps.normalise=true",
    "+reward/module@reward.modules.transport=optimal_transport",
    "reward.modules.transport.scheduled_discount=true",
    "reward.modules.transport.interval=1",
    "+reward.terms.transport.clip=[-5,0]",
    "+reward/module@reward.modules.goal=vice",
    "reward.modules.goal.hidden=[8]",
    "reward.modules.goal.fit_steps=5",
    "reward.modules.goal.margin=0",
    "reward.modules.goal.interval=5",
    "reward.modules.goal.updates=1",
    "reward.modules.goal.learning_starts=10",
    "+reward/module@reward.modules.imitated=gail",
    "reward.modules.imitated.hidden=[8]",
    "reward.modules.imitated.interval=7",
    "reward.modules.imitated.updates=2",
    "reward.modules.imitated.learning_starts=10",
    "+reward/module@reward.modules.reached=stages",
    "reward.modules.reached.stages=1",
    "reward.modules.reached.hidden=[8]",
    "reward.modules.reached.fit_steps=5",
    "+reward/module@reward.modules.novelty=novelty",
    "reward.modules.novelty.particles=16",
    "reward.modules.novelty.interval=10",
    "+reward.terms.novelty.weight=0",
    "+reward/module@reward.modules.agreed=ensemble",
    "reward.modules.agreed.copies=2",
    "+reward/module@reward.modules.agreed.members.one=vice",
    "reward.modules.agreed.members.one.hidden=[8]",
    "reward.modules.agreed.members.one.fit_steps=5",
    "reward.modules.agreed.members.one.margin=0",
    "reward.modules.agreed.members.one.updates=1",
    "reward.modules.agreed.members.one.learning_starts=10",
    "+reward/module@reward.modules.apart=occupancy",
    "reward.modules.apart.hidden=[8]",
    "reward.modules.apart.updates=1",
    "reward.modules.apart.first_updates=2",
    "reward.modules.apart.learning_starts=10",
    "+reward.terms.apart.weight=0",
    "+reward/module@reward.modules.liked=preferences",
    "reward.modules.liked.hidden=[8]",
    "reward.modules.liked.length=2",
    "reward.modules.liked.queries=4",
    "reward.modules.liked.interval=15",
    "reward.modules.liked.epochs=1",
    "+reward/module@reward.modules.taken_over=interventions",
    "intervention.criterion=random",
    "intervention.probability=0.2",
    "intervention.noise=1",
    "agent.hidden=[32]",
    "agent.implementation=torch",
    "agent.ensemble_size=3",
    "agent.update_to_data=2",
    "agent.batch_size=32",
    "agent.action_chunk=1",
    "agent.n_step=2",
    "agent.learning_starts=10",
    "agent.random_steps=5",
    "agent.pretrain_steps=5",
    "demonstrations.episodes=4",
    "run.relabel_rows=3",
    "run.evaluation_interval=0",
    "run.final_evaluation_episodes=1",
    "run.video_episodes=0",
    "runtime.threads=1",
    "logging.progress=false",
]


def train(*arguments: str) -> None:
    assert not exit_code("train", *arguments)


def state(run: Path) -> Batch:
    checkpoint = CheckpointFolder(run / "checkpoints").load_newest()
    assert checkpoint.step == STEPS
    return {f"{part}/{key}": value for part, arrays in checkpoint.parts.items() for key, value in arrays.items()}


def timeless(run: Path, kind: str) -> list[dict[str, object]]:
    """Return what must be the same whenever it happens."""
    return [{k: v for k, v in record.items() if k != "wall_seconds"} for record in records(run, kind)]


def test_a_run_goes_on_bit_for_bit_in_mid_episode(tmp_path: Path) -> None:
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    train(*TRAIN, f"run.dir={unbroken}", f"run.env_steps={STEPS}")
    train(*TRAIN, f"run.dir={broken}", "run.env_steps=43")
    train(f"resume={broken}", f"run.env_steps={STEPS}")
    first, second = state(unbroken), state(broken)
    assert first.keys() == second.keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key], err_msg=key, strict=True)
    assert {key.split("/")[0] for key in first} >= {"reward", "demonstrations", "replay"}
    for kind in ("episode", "reward"):
        assert timeless(unbroken, kind) == timeless(broken, kind)
    metrics = {key for record in records(unbroken, "reward") for key in record}
    assert {"goal/loss", "imitated/penalty", "liked/accuracy", "agreed/loss", "apart/divergence"} <= metrics
    assert (first["replay/source"] == Source.SCRIPT).any()
    assert first["replay/terms_version"].max() > 0

    # Every term by name, and their sum as the composition says (clipped transport and shaping, nothing of the task).
    episodes = records(unbroken, "episode")
    assert episodes
    for episode in episodes:
        assert {"reward/success", "reward/steps", "reward/steps/before", "reward/transport"} <= episode.keys()
        assert episode["reward/transport"] < 0
    assert sum(episode["reward/taken_over"] for episode in episodes) < 0


def test_an_agent_without_demonstrations_may_have_a_reward_made_from_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Imitation from observation: the agent sees no action of the demonstrations."""
    run = tmp_path / "run"
    options = [
        word
        for word in TRAIN
        if word.startswith(("task", "agent.hidden", "agent.implementation", "agent.batch", "run.", "logging"))
    ]
    train(
        *options,
        "agent=sac",
        "agent.normalise_observations=true",
        "reward=perceptual",
        "reward.modules.perceptual.steps=2",
        "demonstrations.episodes=4",
        f"run.dir={run}",
        "run.env_steps=30",
    )
    assert (run / "demonstrations" / "dataset.json").exists()
    assert records(run, "episode")[0]["reward/perceptual"] < 0

    with monkeypatch.context() as missing, pytest.raises(SystemExit):
        missing.setitem(sys.modules, "rerun", None)
        main(["reward", "inspect", f"run={run}", f"path={run / 'demonstrations'}", f"output={run / 'a.rrd'}"])
    printed = capsys.readouterr()
    assert "needs Rerun" in printed.err and "rank correlation" not in printed.out, "it is said before the work"

    viewer = importlib.util.find_spec("rerun") is not None
    outputs = [run / f"looked_at{suffix}" for suffix in (".png", ".html", *([".rrd"] if viewer else []))]
    # The run may be somebody else's: its task and robot are not made.
    monkeypatch.setattr("robo_rl.sim.make_backend", lambda *_, **__: pytest.fail("a simulator was made"))
    for output in outputs:
        assert not exit_code(
            "reward", "inspect", f"run={run}", f"path={run / 'demonstrations'}", "episode=1", f"output={output}"
        )
        assert output.stat().st_size > 10_000
        printed = capsys.readouterr().out
        assert "perceptual" in printed and "4 episodes of the data set" in printed
        assert "calibration error" in printed and "STARC distance" in printed
    assert "<td>perceptual</td>" in outputs[1].read_text()
    assert "data:image/svg+xml;base64," in outputs[1].read_text()
    for recording in outputs[2:]:
        rerun = [sys.executable, "-m", "rerun", "rrd"]
        subprocess.run([*rerun, "verify", str(recording)], check=True, capture_output=True)
        printed = subprocess.run([*rerun, "print", "-vvv", str(recording)], check=True, capture_output=True, text=True)
        assert "perceptual, true progress" in printed.stdout
    parts = CheckpointFolder(run / "checkpoints").load_newest().parts
    assert "demonstrations" not in parts
    # What is normal to see it knows from them.
    with EpisodeStore.open(run / "demonstrations") as store:
        episodes = [store.arrays(number).rows() for number in range(4)]
    seen = np.concatenate([np.hstack((rows["observation/object"], rows["observation/state"])) for rows in episodes])
    np.testing.assert_allclose(parts["policy"]["normaliser/mean"], seen.mean(0), atol=1e-5)


@pytest.mark.rendering
def test_what_a_camera_saw_is_shown_above_the_rewards(tmp_path: Path) -> None:
    """The newest frames of its stack, from the first to the last, side by side."""
    run, output = tmp_path / "run", tmp_path / "look.png"
    camera = ["task.observation.cameras=[front]", "task.observation.width=32", "task.observation.height=32"]
    options = [word for word in TRAIN if word.startswith(("agent.", "run.final", "run.video", "runtime.", "logging."))]
    train(
        "task=reach",
        "reward=perceptual",
        "reward.modules.perceptual.steps=2",
        *camera,
        "task.observation.frame_stack=2",
        "agent.observation_keys=[state,object]",
        *options,
        "demonstrations.episodes=2",
        "run.evaluation_interval=0",
        f"run.dir={run}",
        "run.env_steps=5",
    )
    data = run / "demonstrations"
    assert not exit_code("reward", "inspect", f"run={run}", f"path={data}", f"output={output}")
    drawn = cv2.cvtColor(cv2.imread(str(output)), cv2.COLOR_BGR2RGB)
    drawn = drawn[: len(drawn) // 3]  # the strip is above two panels
    with EpisodeStore.open(data) as store:
        frames = store.arrays(0).observation["images/front"][..., -3:]
    for frame, half in ((frames[0], drawn[:, : drawn.shape[1] // 2]), (frames[-1], drawn[:, drawn.shape[1] // 2 :])):
        # A frame is drawn at some size that divides the strip, so it is looked for at several.
        sizes = range(60, min(260, *(size + 1 for size in half.shape[:2])), 2)
        wanted = (cv2.resize(frame, (edge, edge), interpolation=cv2.INTER_NEAREST) for edge in sizes)
        assert any(cv2.matchTemplate(half, each, cv2.TM_CCOEFF_NORMED).max() > 0.9 for each in wanted)


def test_offline_learning_from_preferences_on_a_data_set(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(
        "task=reach",
        "agent=iql",
        "agent.hidden=[16]",
        "agent.pretrain_steps=100",
        "reward=preferences",
        "reward.modules.preferences.demonstration_queries=30",
        "reward.modules.preferences.length=2",
        "reward.modules.preferences.epochs=2",
        "demonstrations.episodes=4",
        f"run.dir={run}",
        *[word for word in TRAIN if word.startswith(("run.", "runtime.", "logging."))],
    )
    checkpoint = CheckpointFolder(run / "checkpoints").load_newest()
    assert checkpoint.step == 0
    assert checkpoint.parts["reward"]["module/preferences/counters"].tolist() == [0, 30]
    # All rows have the learned reward, which is not that of the task.
    (terms,) = (array for key, array in checkpoint.parts["demonstrations"].items() if array.dtype == np.float32)
    assert np.unique(terms).size > 10
    learned = records(run, "train")
    assert learned[-1]["pretrain_update"] == 100
    assert learned[-1]["value_mean"] != 0
    assert records(run, "evaluation")[-1]["step"] == 0


def test_a_policy_straight_from_the_preferences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    options = ["task=reach", "agent=cpl", "agent.hidden=[16]", "agent.cloning_steps=100", "agent.pretrain_steps=200"]
    options += ["demonstrations.episodes=4"]
    options += [word for word in TRAIN if word.startswith(("run.", "runtime.", "logging."))]
    assert exit_code("train", *options, f"run.dir={tmp_path / 'refused'}") == 2
    assert "agent=cpl learns from preferences between segments of the data set" in capsys.readouterr().err
    module = "reward.modules.preferences"
    query_options = [
        f"{module}.demonstration_queries=30",
        f"{module}.length=2",
        f"{module}.epochs=1",
        f"{module}.regret=true",
    ]
    train(*options, "reward=preferences", *query_options, f"run.dir={run}")
    imitated, contrasted = records(run, "train")
    assert "bc_loss" in imitated
    assert 0 <= contrasted["accuracy"] <= 1


def test_a_humanoid_is_trained_by_what_a_sentence_says(tmp_path: Path) -> None:
    """As ``task=humanoid``, with the small model in the place of the one that could teach it."""
    folder = tmp_path / "run"
    small = ["task.env_kwargs.width=64", "task.env_kwargs.height=64", "task.max_episode_steps=20", "agent.hidden=[32]"]
    model = ["reward.modules.clip.model=tabletop", "reward.modules.clip.pretrained=null"]
    steps = ["run.env_steps=60", "agent.learning_starts=40", "agent.random_steps=40", "run.evaluation_interval=0"]
    ends = ["run.final_evaluation_episodes=1", "run.video_episodes=0", "run.replay_capacity=200"]
    train("task=humanoid", *small, *model, *steps, *ends, f"run.dir={folder}")
    sums = [record["reward/clip"] for record in records(folder, "episode")]
    assert len(set(sums)) == len(sums) == 3
    assert np.isfinite(sums).all()


def test_a_run_warns_when_its_reward_rises_and_success_does_not_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch is fed with all episodes and evaluations, over a resume too; only what they are worth is made up."""
    add_episode = RewardWatch.add_episode

    def ever_more(watch: RewardWatch, number: int, total: float, steps: int, *others: Any) -> None:
        add_episode(watch, number, float(number * steps), steps, *others)

    monkeypatch.setattr(RewardWatch, "add_episode", ever_more)
    run = tmp_path / "run"
    options = [word for word in TRAIN if word.startswith(("agent.", "runtime.", "logging.", "demonstrations."))]
    options += ["task=reach", "reward=perceptual", "task.max_episode_steps=5", "run.evaluation_interval=15"]
    options += ["demonstrations.source=expert"]
    options += ["run.evaluation_episodes=1", "run.final_evaluation_episodes=1", "run.video_episodes=0"]
    train(*options, f"run.dir={run}", "run.env_steps=40")
    assert not any("warning" in line for line in records(run, "reward"))
    train(f"resume={run}", "run.env_steps=90")
    warnings = [line["warning"] for line in records(run, "reward") if "warning" in line]
    assert warnings and "The reward may be exploited: since step 15 " in warnings[0]
    assert "success has gone from 0% to 0%" in warnings[0]
