"""Rows of reward_learning.py: the data, rewards and options that policies learn from without the task's reward."""

from dataclasses import dataclass
from pathlib import Path

from reward_options import (
    ASKING,
    BY_VALUE,
    CONTRASTIVE,
    EXPECTED,
    EXPLORING_SINGLE,
    FIVE,
    FROM_FRONT,
    FROM_TWO_SIDES,
    NONE,
    OFFLINE,
    ONLINE,
    RLIF,
    SAMPLED,
    TAKEOVERS,
    TRANSPORT,
    VICE,
)


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        task: name of the task.
        reward: name of the reward in the table.
        sees: data that the learner receives besides its own steps.
        steps: environment steps.
        overrides: of ``robo-rl train``.
        term: of the module; the control has weight 0 for it. None: there is none, and no control.
        control: name of the row whose control this one shares, which differs in nothing that matters without a reward.
        data: whether it learns from a data set alone; see :func:`collect`.
        instead: further overrides of the control: what it learns from instead.
        annotator: the module whose questions a small model answers; see clip_annotator.py.
        reference: whether a policy of the task's reward takes over; see reference() in reward_learning.py.
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
    reference: bool = False


ROWS = {
    "open_door_transport": Row(
        "open_door", "optimal transport", "20 demonstrations with actions", 5_000, TRANSPORT, "transport"
    ),
    "reach_preferences": Row(
        "reach", "preferences of a script, 20 % wrong", "1,000 answers", 10_000, ONLINE, "preferences"
    ),
    "reach_preferences_expected": Row(
        "reach",
        "preferences of a script, 20 % wrong, as the module assumes",
        "1,000 answers",
        10_000,
        (*ONLINE, *EXPECTED),
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
    "open_door_transport_published": Row(
        "open_door",
        "optimal transport, its cost as published",
        "20 demonstrations with actions",
        5_000,
        (
            *TRANSPORT,
            "reward.modules.transport.reward=cost",
            "reward.modules.transport.metric=euclidean",
            "reward.modules.transport.epsilon=0.01",
        ),
        "transport",
        control="open_door_transport",
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
        "open_door", "preferences of a script, 20 % wrong", "1,000 answers", 10_000, ONLINE, "preferences"
    ),
    "push_cube_preferences": Row(
        "push_cube",
        "preferences of a script, 20 % wrong",
        "1,000 answers; 20 demonstrations with actions",
        10_000,
        (*ASKING, *SAMPLED, "agent.gamma=0.9"),
        "preferences",
    ),
    "push_cube_preferences_expected": Row(
        "push_cube",
        "preferences of a script, 20 % wrong, as the module assumes",
        "1,000 answers; 20 demonstrations with actions",
        10_000,
        (*ASKING, *EXPECTED, *SAMPLED, "agent.gamma=0.9"),
        "preferences",
        control="push_cube_preferences",
    ),
    "push_cube_preferences_offline": Row(
        "push_cube",
        "preferences of a script, 20 % wrong, offline (IQL)",
        "2,000 answers, 300 episodes of a worse policy",
        0,
        OFFLINE,
        "preferences",
        data=True,
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
        "interventions of a worse expert; variation of the states in 5 of its demonstrations",
        10_000,
        (*RLIF, *TAKEOVERS),
        "interventions",
    ),
    "pick_cube_hg_dagger": Row(
        "pick_cube",
        "none: it imitates (HG-DAgger)",
        "interventions of the same expert, and 5 of its demonstrations with actions",
        10_000,
        ("agent=hg_dagger", "intervention.as_demonstrations=true", *TAKEOVERS),
        None,
    ),
    "pick_cube_interventions_by_value": Row(
        "pick_cube",
        "interventions (RLIF), by value",
        "interventions of another expert, timed by values; variation of the states in 5 demonstrations",
        5_000,
        (*RLIF, *BY_VALUE),
        "interventions",
        control="pick_cube_interventions",
        reference=True,
    ),
    "pick_cube_hg_dagger_by_value": Row(
        "pick_cube",
        "none: it imitates (HG-DAgger)",
        "interventions of the same expert, and 5 demonstrations with actions",
        5_000,
        ("agent=hg_dagger", "intervention.as_demonstrations=true", *BY_VALUE),
        None,
        reference=True,
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
            *EXPLORING_SINGLE,
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
        8_000,
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
        "specification: eventually the door is open by 0.35 rad",
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
