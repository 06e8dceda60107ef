"""Options of robo-rl train that the rows of reward_learning.py share."""

from learning_table import EXPLORING, SINGLE_ACTIONS

ALONE = ("agent=rlpd_without_demonstrations", "agent.precision=bfloat16")
"""The agent learns from its own steps alone: it sees no action of a demonstration."""

EXPLORING_SINGLE = (*EXPLORING, SINGLE_ACTIONS)
"""More exploration than the default agent has, and single actions."""

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

FIVE = ("demonstrations.episodes=5", *ALONE)
NONE = ("demonstrations.episodes=0", *ALONE)

PREFERENCES = (
    "reward=preferences",
    "reward.modules.preferences.keys=[object]",
    "reward.modules.preferences.noise=0.2",
    "reward.modules.preferences.length=4",
)

ASKING = (*PREFERENCES, "reward.modules.preferences.queries=50")

ONLINE = (*ASKING, *NONE)

EXPECTED = ("reward.modules.preferences.mistakes=0.2", "reward.modules.preferences.hidden=[32]")

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
    *EXPLORING_SINGLE,
    "agent.precision=bfloat16",
    "agent.demonstration_ratio=0",
    "agent.cloning_weight=0",
    "agent.final_cloning_weight=0",
    "agent.online_cloning_weight=0",
    "agent.update_to_data=8",
    # A deviation of 0.09: with the usual 0.15 the noise of exploration alone brings one takeover in eight steps.
    "agent.target_entropy=-4",
    # Success goes up and down by 40 points within 1,000 updates: what acts is an average over about as many.
    "agent.actor_tau=0.001",
)

# An expert that succeeds in 125 of 200 episodes, and takes over where values say so.
BY_VALUE = (
    "intervention.criterion=value",
    # An action may waste less than a step at the default discount: 0.9, three, let policies dawdle unpunished.
    "intervention.value_share=0.98",
    "intervention.hold=8",
    "intervention.reaction=1",
    "intervention.noise=0.45",
    "demonstrations.episodes=5",
    "demonstrations.noise=0.42",
    "reward=interventions",
)

# Demonstrations with actions in its minibatches, as for rlpd, but nothing that imitates them.
SAMPLED = (
    *EXPLORING_SINGLE,
    "agent.precision=bfloat16",
    "agent.cloning_weight=0",
    "agent.final_cloning_weight=0",
    "agent.online_cloning_weight=0",
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
