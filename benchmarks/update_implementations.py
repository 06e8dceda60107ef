"""The implementations that bench_update.py compares, each behind the same few methods.

Packages are imported where they are needed only, so that a process pays for its own implementation alone.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from update_problem import Problem, Trained, UnavailableError


class Implementation(Protocol):
    """One way to do an iteration. Its replay is empty at first."""

    def fill(self, problem: Problem) -> None:
        """Put made-up transitions into the replay."""

    def sample(self) -> Any:
        """Draw the rows of an iteration, or None where updating does that itself."""

    def update(self, rows: Any) -> None:
        """Do one iteration; return when it is done."""

    def trained(self) -> dict[str, Trained]:
        """Return ``actor``, and ``critic`` and ``temperature`` where they can be looked at."""


def made_up_rows(problem: Problem, count: int) -> dict[str, NDArray[np.float32]]:
    """Return transitions of no task, in episodes of 100 steps that end by themselves."""
    rng = np.random.default_rng(count)
    states = rng.standard_normal((count + 1, problem.observation), np.float32)
    return {
        "observation": states[:-1],
        "action": rng.uniform(-1, 1, (count, problem.action)).astype(np.float32),
        "reward": rng.random(count, np.float32),
        "terminated": (np.arange(count) % 100 == 99).astype(np.float32),
        "next_observation": states[1:],
    }


def _flat(arrays: Iterable[Any]) -> NDArray[np.float32]:
    """Return copies of all in one array (N,)."""
    return np.concatenate([np.asarray(array).ravel() for array in arrays])


class Ours:
    """The agent and the replay of this project, as training uses them; half of the rows are demonstrations."""

    def __init__(self, problem: Problem, implementation: str, precision: str) -> None:
        from made_up import spec_of

        from robo_rl.agents.parts.native import available
        from robo_rl.agents.sac import SAC, SACConfig
        from robo_rl.core import ArraySpec, RewardWeights, generator
        from robo_rl.replay import MixedSampler, ReplayRing

        if implementation == "native":
            works, why = available(precision)
            if not works:
                raise UnavailableError(why)
        spec = spec_of(
            {"state": ArraySpec((problem.observation,))}, problem.action, reward_terms=("success", "distance", "effort")
        )
        config = SACConfig(
            ensemble_size=problem.critics,
            target_subset=problem.subset,
            hidden=problem.hidden,
            batch_size=problem.batch,
            update_to_data=problem.updates,
            actor_q="mean",  # as RLPD
            implementation=implementation,
            precision=precision,
        )
        self._config = config
        self._agent = SAC(config, spec, seed=0)
        self._rings = [
            ReplayRing(count * 51 // 50 + 2, spec) for count in (problem.transitions, problem.demonstrations)
        ]
        self._sampler = MixedSampler(
            *self._rings, 0.5, config.gamma, config.n_step, RewardWeights({"success": 1.0}), generator(0, "sampler")
        )

    def fill(self, problem: Problem) -> None:
        from made_up import transitions_of

        # A thousand at a time, so that the memory of the process in the end is not that of a long list.
        for ring, count in zip(self._rings, (problem.transitions, problem.demonstrations), strict=True):
            for begin in range(0, count, 1_000):
                ring.append(transitions_of(ring.spec, min(1_000, count - begin)))

    def sample(self) -> Any:
        return self._sampler.sample(self._agent.update_rows, self._config.batch_size)

    def update(self, rows: Any) -> None:
        self._agent.update(rows)

    def trained(self) -> dict[str, Trained]:
        # The agent counts iterations; tests/agents/test_native_update.py holds what each does to the definition.
        state = self._agent.state()
        done = int(state["updates"][0])
        steps = {"critic": done * self._config.update_to_data, "actor": done, "temperature": done}
        return {
            network: Trained(_flat(state[name] for name in state if name.startswith(f"{network}/")), count)
            for network, count in steps.items()
        }


class RLPD:
    """The update in JAX of rlpd_jax.py."""

    def __init__(self, problem: Problem) -> None:
        import rlpd_jax

        self._problem = problem
        self._learner = rlpd_jax.RLPD(
            problem.observation, problem.action, problem.hidden, problem.critics, problem.subset
        )
        self._sample_rows = rlpd_jax.sample_rows
        self._rng = np.random.default_rng(0)

    def fill(self, problem: Problem) -> None:
        self._stores = [made_up_rows(problem, count) for count in (problem.transitions, problem.demonstrations)]

    def sample(self) -> Any:
        return self._sample_rows(self._stores, self._rng, self._problem.updates, self._problem.batch)

    def update(self, rows: Any) -> None:
        self._learner.update(rows)

    def trained(self) -> dict[str, Trained]:
        state = self._learner.state
        return {
            name: Trained(_flat(getattr(state, name).values()), int(optimiser[0].count))
            for name, optimiser in zip(("critic", "actor", "temperature"), state.optimisers, strict=True)
        }


class _StableBaselines:
    """What Stable-Baselines3 and its sister in JAX have in common: ``train`` samples and updates."""

    _model: Any

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def fill(self, problem: Problem) -> None:
        replay = self._model.replay_buffer
        rows = made_up_rows(problem, problem.transitions)
        replay.observations[:, 0], replay.next_observations[:, 0] = rows["observation"], rows["next_observation"]
        replay.actions[:, 0], replay.rewards[:, 0] = rows["action"], rows["reward"]
        replay.dones[:, 0] = rows["terminated"]
        replay.full = True

    def sample(self) -> None:
        return None

    def update(self, rows: None) -> None:
        self._model.train(gradient_steps=self._problem.updates, batch_size=self._problem.batch)

    @staticmethod
    def environment(problem: Problem) -> Any:
        """Never stepped; says how large observations and actions are."""
        from gymnasium import Env, spaces

        class Nothing(Env):
            observation_space = spaces.Box(-np.inf, np.inf, (problem.observation,), np.float32)
            action_space = spaces.Box(-1, 1, (problem.action,), np.float32)

        return Nothing()


class SB3(_StableBaselines):
    """Its SAC updates the actor and the temperature after every critic update and cannot do so less often."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        from stable_baselines3 import SAC
        from stable_baselines3.common.logger import configure
        from stable_baselines3.sac.policies import SACPolicy
        from torch import nn

        class LayerNormCritics(SACPolicy):
            def make_critic(self, features_extractor=None):
                # Activations are made critic by critic, layer by layer.
                widths = iter(problem.hidden * problem.critics)
                self.critic_kwargs["activation_fn"] = lambda: nn.Sequential(nn.LayerNorm(next(widths)), nn.ReLU())
                return super().make_critic(features_extractor)

        self._model = SAC(
            LayerNormCritics,
            self.environment(problem),
            buffer_size=problem.transitions,
            policy_kwargs={"net_arch": list(problem.hidden), "n_critics": problem.critics},
            device="cpu",
        )
        self._model.set_logger(configure(None, []))

    def trained(self) -> dict[str, Trained]:
        model = self._model
        networks = {
            "critic": (list(model.critic.parameters()), model.critic.optimizer),
            "actor": (list(model.actor.parameters()), model.actor.optimizer),
            "temperature": ([model.log_ent_coef], model.ent_coef_optimizer),
        }
        return {
            name: Trained(
                _flat(parameter.detach().numpy() for parameter in parameters),
                max((int(state["step"]) for state in optimiser.state.values()), default=0),
            )
            for name, (parameters, optimiser) in networks.items()
        }


class SBX(_StableBaselines):
    """Its SAC takes the least of all critics for targets, and cannot draw a subset."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        import jax
        from sbx import SAC
        from stable_baselines3.common.logger import configure

        self._block_until_ready = jax.block_until_ready
        self._model = SAC(
            "MlpPolicy",
            self.environment(problem),
            buffer_size=problem.transitions,
            policy_delay=problem.updates,
            policy_kwargs={"net_arch": list(problem.hidden), "n_critics": problem.critics, "layer_norm": True},
        )
        self._model.set_logger(configure(None, []))

    def _states(self) -> dict[str, Any]:
        policy = self._model.policy
        return {"critic": policy.qf_state, "actor": policy.actor_state, "temperature": self._model.ent_coef_state}

    def update(self, rows: None) -> None:
        super().update(rows)
        self._block_until_ready([state.params for state in self._states().values()])

    def trained(self) -> dict[str, Trained]:
        import jax

        return {
            name: Trained(_flat(jax.tree.leaves(state.params)), int(state.step))
            for name, state in self._states().items()
        }


class RLtools:
    """Its SAC of C++ templates, compiled here for these sizes, with products by the BLAS that the linker finds.

    It has two critics, no LayerNorm, and no way to update without stepping an environment: an iteration is as many
    steps as critic updates, each with an action of the policy and an environment that costs next to nothing. Of its
    networks it shows the actor alone.
    """

    def __init__(self, problem: Problem) -> None:
        from gymnasium.envs.registration import EnvSpec
        from rltools import SAC

        self._problem = problem
        if len(set(problem.hidden)) > 1:
            raise UnavailableError(f"its hidden layers are of one width, got {problem.hidden}")
        # It takes the length of episodes from the spec; without it its code does not compile.
        environment = _StableBaselines.environment(problem)
        environment.spec = EnvSpec("Nothing-v0", max_episode_steps=100)
        states = np.random.default_rng(0).standard_normal((1_000, problem.observation), np.float32)
        following = itertools.cycle(states)
        environment.reset = lambda *, seed=None, options=None: (next(following), {})
        environment.step = lambda action: (next(following), 0.5, False, False, {})
        sizes = dict.fromkeys(("ACTOR_HIDDEN_DIM", "CRITIC_HIDDEN_DIM"), problem.hidden[0])
        depths = dict.fromkeys(("ACTOR_NUM_LAYERS", "CRITIC_NUM_LAYERS"), len(problem.hidden) + 1)
        rows = dict.fromkeys(("ACTOR_BATCH_SIZE", "CRITIC_BATCH_SIZE"), problem.batch)
        starts = ("N_WARMUP_STEPS", "N_WARMUP_STEPS_ACTOR", "N_WARMUP_STEPS_CRITIC", "REPLAY_BUFFER_CAP")
        made = SAC(
            lambda: environment,
            evaluation_interval=1_000_000,
            STEP_LIMIT=1_000_000,
            ACTOR_TRAINING_INTERVAL=problem.updates,
            **sizes | depths | rows | dict.fromkeys(starts, problem.transitions),
        )
        self._state = made.State(0)

    def fill(self, problem: Problem) -> None:
        for _ in range(problem.transitions):
            self._state.step()

    def sample(self) -> None:
        return None

    def update(self, rows: None) -> None:
        for _ in range(self._problem.updates):
            self._state.step()

    def trained(self) -> dict[str, Trained]:
        arrays = re.findall(r"memory\[\] = \{([^}]*)\}", self._state.export_policy())
        numbers = [float.fromhex(number.strip().rstrip("f")) for array in arrays for number in array.split(",")]
        return {"actor": Trained(np.array(numbers, np.float32), None)}


class Kind(NamedTuple):
    """How to make an implementation.

    Attributes:
        packages: what to import.
        make: what to call.
        precision: of the products, of ours.
        critics: the only number of critics that it can have; None: any.
    """

    packages: tuple[str, ...]
    make: Callable[[Problem], Implementation]
    precision: str | None = None
    critics: int | None = None


def _robo_rl(implementation: str, precision: str) -> Kind:
    make = functools.partial(Ours, implementation=implementation, precision=precision)
    return Kind(("robo_rl.agents.sac", "robo_rl.replay"), make, precision)


def capable(problem: Problem) -> list[str]:
    """Return the implementations with this number of critics."""
    return [name for name, kind in IMPLEMENTATIONS.items() if kind.critics in (None, problem.critics)]


IMPLEMENTATIONS = {
    "native float32": _robo_rl("native", "float32"),
    "native bfloat16": _robo_rl("native", "bfloat16"),
    "torch eager": _robo_rl("torch", "float32"),
    "torch compile": _robo_rl("compile", "float32"),
    "compile bfloat16": _robo_rl("compile", "bfloat16"),
    "RLPD in JAX": Kind(("rlpd_jax",), RLPD),
    "SBX": Kind(("sbx",), SBX),
    "RLtools": Kind(("rltools",), RLtools, critics=2),
    "Stable-Baselines3": Kind(("stable_baselines3",), SB3),
}
