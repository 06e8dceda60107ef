"""Policies trained without the task's reward, each from one reward module; success is judged by physics alone.

Takes an hour of one core; it may be stopped and started again: finished runs are kept, unfinished ones are resumed.

    python tests/benchmarks/reward_learning.py
    python tests/benchmarks/reward_learning.py --rows reach_preferences open_door_transport --seeds 0

Nothing of the task reaches the learner but through the module: the reward is the module's term alone, and an episode
ends at its time limit, never at a success. Evaluations count an episode whose last state is a success. Beside each row
stands its control: the same with the module's weight 0; where the module knows the task's success, that alone.

Writes docs/results/reward_learning.json (every run: its summary and evaluations; those of other rows and seeds stay)
and the table in reward_learning.md.
"""

import argparse
import json
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from clip_annotator import annotator
from learning_table import status, with_earlier

from robo_rl.evaluation.statistics import bootstrap_interval, interquartile_mean
from robo_rl.replay import EpisodeStore

ROOT = Path(__file__).resolve().parents[2]
NAME = "reward_learning"

ALONE = ("agent=rlpd_without_demonstrations", "agent.precision=bfloat16")
"""The agent learns from its own steps alone: it sees no action of a demonstration."""

COLLECTED = 300
"""Episodes of a data set."""

PICTURES = (
    "task.observation.width=64",
    "task.observation.height=64",
    "agent.observation_keys=[state,object]",
)
"""Pictures are for the reward."""

FROM_FRONT = ("task.observation.cameras=[front,view]", *PICTURES)
FROM_TWO_SIDES = ("task.observation.cameras=[ahead,side]", *PICTURES)


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        task: name of the task.
        reward: what the table calls the reward.
        sees: what the learner sees beside its own steps.
        steps: environment steps.
        overrides: of ``robo-rl train``.
        term: of the module; the control has weight 0 for it. None: there is none, and no control.
        control: name of the row whose control this one shares, which differs in nothing that matters without a reward.
        data: whether it learns from a data set alone; see :func:`collect`.
        instead: further overrides of the control: what it learns from instead.
        annotator: the module whose questions a small model answers; see clip_annotator.py.
    """

    task: str
    reward: str
    sees: str
    steps: int
    overrides: tuple[str, ...]
    term: str | None
    control: str | None = None
    data: bool = False
    instead: tuple[str, ...] = ()
    annotator: str | None = None


FIVE = ("demonstrations.episodes=5", *ALONE)
NONE = ("demonstrations.episodes=0", *ALONE)

PREFERENCES = (
    "reward=preferences",
    "reward.modules.preferences.keys=[object]",
    "reward.modules.preferences.noise=0.2",
    "reward.modules.preferences.length=4",
)

ONLINE = (*PREFERENCES, "reward.modules.preferences.queries=50", *NONE)

OFFLINE = (
    *PREFERENCES,
    "reward.modules.preferences.demonstration_queries=2000",
    "reward.modules.preferences.most_queries=2000",
    "reward.modules.preferences.epochs=50",
    "agent=iql",
    "agent.gamma=0.9",
    "agent.inverse_temperature=10",
    "agent.pretrain_steps=2000",
    f"demonstrations.episodes={COLLECTED}",
)

CONTRASTIVE = (
    *PREFERENCES,
    "reward.modules.preferences.regret=true",
    "reward.modules.preferences.demonstration_queries=2000",
    "reward.modules.preferences.most_queries=2000",
    # The reward that is fitted too is not looked at.
    "reward.modules.preferences.epochs=1",
    "agent=cpl",
    f"demonstrations.episodes={COLLECTED}",
)

TAKEOVERS = (
    "intervention.criterion=disagreement",
    # Where it takes over at an error of 0.25 or more only, a policy may stay 2 cm away from the cube unpunished.
    "intervention.threshold=0.2",
    # Else the wrong action is never taken, and what is punished is the right one before it.
    "intervention.reaction=1",
    "intervention.noise=0.42",
    "demonstrations.episodes=5",
    "demonstrations.noise=0.42",
    "reward=interventions",
)

RLIF = (
    "agent.precision=bfloat16",
    "agent.demonstration_ratio=0",
    "agent.cloning_weight=0",
    "agent.final_cloning_weight=0",
    "agent.update_to_data=8",
    # A deviation of 0.09: with the usual 0.15 the noise of exploration alone brings one takeover in eight steps.
    "agent.target_entropy=-4",
    *TAKEOVERS,
)

# Demonstrations with actions in its minibatches, as for rlpd, but nothing that imitates them.
SAMPLED = (
    "agent.precision=bfloat16",
    "agent.cloning_weight=0",
    "agent.final_cloning_weight=0",
    "agent.pretrain_steps=0",
    "agent.update_to_data=8",
    "demonstrations.episodes=20",
)

TRANSPORT = (
    "reward=optimal_transport",
    "reward.modules.transport.keys=[object]",
    # The door is open half way through. Where most of the demonstrations' states are of an open door, to hold the lever
    # turned is worth less than to wait above it.
    "task.max_episode_steps=20",
    *SAMPLED,
)

VICE = ("reward=vice", "reward.modules.goal.keys=[object]", "reward.modules.goal.goal_states=5", *SAMPLED)

ROWS = {
    "open_door_transport": Row(
        "open_door", "optimal transport", "20 demonstrations with actions", 5_000, TRANSPORT, "transport"
    ),
    "reach_preferences": Row(
        "reach", "preferences of a script, 20 % wrong", "1,000 answers", 10_000, ONLINE, "preferences"
    ),
    "reach_preferences_expected": Row(
        "reach",
        "preferences of a script, 20 % wrong, which is expected",
        "1,000 answers",
        10_000,
        (*ONLINE, "reward.modules.preferences.mistakes=0.2", "reward.modules.preferences.hidden=[32]"),
        "preferences",
        control="reach_preferences",
    ),
    "open_door_perceptual": Row(
        "open_door",
        "perceptual",
        "states of 5 demonstrations",
        15_000,
        (
            "reward=perceptual",
            "reward.modules.perceptual.keys=[object]",
            "reward.modules.perceptual.reward=progress",
            "reward.modules.perceptual.density=gaussian",
            *FIVE,
        ),
        "perceptual",
    ),
    "reach_preferences_offline": Row(
        "reach",
        "preferences of a script, 20 % wrong, offline (IQL)",
        "2,000 answers, 300 episodes of a worse policy",
        0,
        OFFLINE,
        "preferences",
        data=True,
    ),
    "reach_contrastive_offline": Row(
        "reach",
        "none: preferences of a script, 20 % wrong, offline (CPL)",
        "2,000 answers, 300 episodes of a worse policy",
        0,
        CONTRASTIVE,
        None,
        data=True,
    ),
    "open_door_transport_scheduled": Row(
        "open_door",
        "optimal transport, scheduled discount",
        "20 demonstrations with actions",
        5_000,
        (*TRANSPORT, "reward.modules.transport.scheduled_discount=true"),
        "transport",
        control="open_door_transport",
    ),
    "open_door_clip": Row(
        "open_door", "CLIP, the bundled model", "nothing", 10_000, ("reward=clip", *FROM_FRONT, *NONE), "clip"
    ),
    "open_door_preferences": Row(
        "open_door", "preferences of a script, 20 % wrong", "1,000 answers", 5_000, ONLINE, "preferences"
    ),
    "open_door_preferences_offline": Row(
        "open_door",
        "preferences of a script, 20 % wrong, offline (IQL)",
        "2,000 answers, 300 episodes of a worse policy",
        0,
        OFFLINE,
        "preferences",
        data=True,
    ),
    "open_door_vice": Row("open_door", "classifier (VICE)", "20 demonstrations with actions", 3_000, VICE, "goal"),
    "pick_cube_interventions": Row(
        "pick_cube",
        "interventions (RLIF)",
        "takeovers by a worse expert; how much states vary in 5 of its demonstrations",
        10_000,
        RLIF,
        "interventions",
    ),
    "pick_cube_hg_dagger": Row(
        "pick_cube",
        "none: it imitates (HG-DAgger)",
        "takeovers by the same expert, and 5 of its demonstrations with actions",
        10_000,
        ("agent=hg_dagger", "intervention.as_demonstrations=true", *TAKEOVERS),
        None,
    ),
    "open_door_keypoints": Row(
        "open_door",
        "success, else keypoints",
        "success; 3 waypoints in the picture",
        15_000,
        (
            "reward=keypoints",
            # Above the lever, where it is turned, and where the hand is when the door stands open.
            "reward.modules.keypoints.waypoints=[[0.52,0.46],[0.53,0.52],[0.64,0.44]]",
            "+reward.terms.keypoints.weight=0.5",
            *NONE,
        ),
        "keypoints",
    ),
    "reach_successes": Row(
        "reach",
        "successes (SRPO)",
        "success at the end of an episode; states of 5 demonstrations",
        10_000,
        ("reward=successes", "reward.modules.successes.keys=[object]", "agent.n_step=3", *FIVE),
        "successes",
        instead=("++reward.terms.success.weight=1",),
    ),
    "pick_cube_successes": Row(
        "pick_cube",
        "successes (SRPO)",
        "success at the end of an episode; 5 demonstrations with actions",
        5_000,
        (
            "reward=successes",
            "reward.modules.successes.keys=[object]",
            "agent.precision=bfloat16",
            "demonstrations.episodes=5",
        ),
        "successes",
        instead=("++reward.terms.success.weight=1",),
    ),
    "reach_clip": Row(
        "reach", "CLIP, the bundled model", "nothing", 10_000, ("reward=clip", *FROM_TWO_SIDES, *NONE), "clip"
    ),
    "open_door_gail": Row(
        "open_door",
        "adversarial imitation (GAIL)",
        "states of 5 demonstrations",
        5_000,
        ("reward=gail", "reward.modules.gail.keys=[object]", "task.max_episode_steps=20", *FIVE),
        "gail",
        control="open_door_transport",
    ),
    "open_door_stages": Row(
        "open_door",
        "classifier of stages",
        "states of 5 demonstrations",
        5_000,
        (
            "reward=stages",
            "reward.modules.stages.keys=[object]",
            "reward.modules.stages.stages=4",
            "task.max_episode_steps=20",
            *FIVE,
        ),
        "stages",
        control="open_door_transport",
    ),
    "open_door_annotations": Row(
        "open_door",
        "annotations by the bundled CLIP model, as a server",
        "1,000 scores of pictures",
        10_000,
        (
            "reward=annotations",
            "reward.modules.annotations.keys=[object]",
            "reward.modules.annotations.goal=the door is open",
            "reward.modules.annotations.endpoint.model=tabletop",
            *FROM_FRONT,
            *NONE,
        ),
        "annotations",
        control="open_door_clip",
        annotator="annotations",
    ),
    "open_door_code": Row(
        "open_door",
        "code",
        "a function of the states",
        10_000,
        (
            "reward=composed",
            "+reward/module@reward.modules.code=code",
            f"reward.modules.code.file={Path(__file__).with_name('open_door_reward.py')}",
            *NONE,
        ),
        "code",
        control="open_door_clip",
    ),
    "open_door_specification": Row(
        "open_door",
        "specification: eventually the door stands open by 0.35 rad",
        "20 demonstrations with actions",
        5_000,
        (
            "reward=specification",
            'reward.modules.specification.formula="eventually (hinge_angle > 0.35)"',
            "reward.modules.specification.scale=0.35",
            *SAMPLED,
        ),
        "specification",
        control="open_door_transport",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / NAME)
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--overrides", nargs="*", default=[], help="for every run, for example logging.progress=false")
    parser.add_argument("--no-controls", action="store_true", help="train with the modules alone")
    parser.add_argument("--only-summarise", action="store_true", help="write the table from the runs that are there")
    options = parser.parse_args()
    for name in [] if options.only_summarise else options.rows:
        for seed in options.seeds:
            train(name, seed, options, control=False)
            if ROWS[name].term is not None and ROWS[name].control is None and not options.no_controls:
                train(name, seed, options, control=True)
            write(options)
    write(options)


def folder_of(runs: Path, name: str, seed: int, control: bool) -> Path:
    """Return the folder of a run."""
    return runs / f"{name}{'_control' if control else ''}_{seed}"


def train(name: str, seed: int, options: argparse.Namespace, *, control: bool) -> None:
    """Make or finish one run."""
    row, folder = ROWS[name], folder_of(options.runs, name, seed, control)
    if status(folder) in ("completed", "reached", "diverged"):
        return
    overrides = ["run.evaluation_interval=1000", "run.evaluation_episodes=20", "run.stop_at_success_rate=0.95"]
    if (folder / "checkpoints").exists():
        overrides.append(f"resume={folder}")
    else:
        overrides += [f"task={row.task}", "task.terminate_on_success=false", f"seed={seed}", *row.overrides]
        overrides += [f"run.env_steps={row.steps}", "run.video_episodes=0", "runtime.threads=1"]
        overrides += [f"run.dir={folder}", "run.overwrite=true"]
        if row.data:
            overrides.append(f"demonstrations.path={collect(row, seed, options.runs)}")
        if control:
            overrides += [f"++reward.terms.{row.term}.weight=0", "reward.offset=0", *row.instead]
    with nullcontext() if row.annotator is None else annotator() as url:
        answering = [] if url is None else [f"reward.modules.{row.annotator}.endpoint.url={url}"]
        robo_rl("train", *overrides, *answering, *options.overrides)


def collect(row: Row, seed: int, runs: Path) -> Path:
    """Return a data set of episodes, good and bad: a policy cloned from 3 demonstrations, with noise."""
    policy, path = runs / f"{row.task}_cloned_{seed}", runs / f"{row.task}_data_{seed}"
    if not path.exists():
        cloning = ("agent=bc", "agent.pretrain_steps=500", "demonstrations.episodes=3", "run.env_steps=0")
        chosen = (f"task={row.task}", "task.terminate_on_success=false", f"seed={seed}", "run.video_episodes=0")
        robo_rl("train", *chosen, *cloning, f"run.dir={policy}", "run.overwrite=true", "runtime.threads=1")
        robo_rl("collect", f"policy={policy}", f"path={path}", f"seed={seed}", f"episodes={COLLECTED}", "noise=0.5")
    return path


def robo_rl(*words: str) -> None:
    """Run a command of robo-rl."""
    subprocess.run([sys.executable, "-m", "robo_rl.cli", *words], check=False)


def write(options: argparse.Namespace) -> None:
    """Write the results of all finished runs."""
    runs = []
    for name, row in ROWS.items():
        for control in (False, True):
            for folder in sorted(options.runs.glob(folder_of(Path(), name, 0, control).name[:-1] + "[0-9]*")):
                if status(folder) not in ("completed", "reached", "diverged"):
                    continue
                lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
                summary = json.loads((folder / "summary.json").read_text()) | {"row": name, "control": control}
                summary["evaluations"] = [
                    {key: line[key] for key in ("step", "wall_seconds", "success_rate", "episodes")}
                    for line in lines
                    if line["kind"] == "evaluation"
                ]
                if takeovers := -sum(line.get("reward/interventions", 0) for line in lines):
                    summary["takeovers"] = takeovers
                if row.data:
                    summary["success_of_data"] = success_of(options.runs / f"{row.task}_data_{summary['seed']}")
                runs.append(summary)
    order = list(ROWS)
    runs = with_earlier(options.results / f"{NAME}.json", runs, ("row", "control", "seed"))
    runs.sort(key=lambda run: (order.index(run["row"]), run["control"], run["seed"]))
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"{NAME}.json").write_text(json.dumps(runs, indent=1) + "\n")
    (options.results / f"{NAME}.md").write_text(table(runs))


def success_of(path: Path) -> float:
    """Return the share of a data set's episodes that end in success."""
    with EpisodeStore.open(path) as store:
        return sum(record.success is True for record in store.records) / len(store.records)


def table(runs: list[dict]) -> str:
    """Return the table in Markdown: interquartile means over seeds with 95 % bootstrap intervals."""
    lines = [
        "| task | reward | what the learner is given | seeds | steps | success at the end | without it | steps |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in ROWS.items():
        group = [run for run in runs if run["row"] == name and not run["control"]]
        controls = [run for run in runs if run["row"] == (row.control or name) and run["control"]]
        if group:
            steps, steps_without = ("-" if row.data or not of else median_steps(of) for of in (group, controls))
            taken_over = [run["takeovers"] for run in group if "takeovers" in run]
            sees = row.sees + (f" ({np.median(taken_over):,.0f} takeovers)" if taken_over else "")
            cells = (row.task, row.reward, sees, str(len(group)), steps, rate(group), rate(controls), steps_without)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def median_steps(group: list[dict]) -> str:
    """Return the median number of environment steps of several runs."""
    return f"{np.median([run['env_steps'] for run in group]):,.0f}"


def rate(group: list[dict]) -> str:
    """Return the success of several runs, and of each; a run that diverged has none."""
    if not group:
        return "-"
    final = [[100 * run["success_rate"]["value"] if run["success_rate"] else 0.0] for run in group]
    interval = bootstrap_interval(interquartile_mean, final)
    each = ", ".join(f"{value:.0f}" for (value,) in final)
    return f"{interval.value:.0f} % [{interval.low:.0f}, {interval.high:.0f}] (seeds: {each})"


if __name__ == "__main__":
    main()
