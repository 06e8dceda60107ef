"""RLPD in JAX as it is usually written, for comparison: one jitted function, critics by vmap, Adam by optax.

Mathematics, names and layout of parameters are those of ``robo_rl.agents.sac`` without its cloning term; one test
feeds both the same numbers. Source: Ball et al. 2023.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

Parameters = dict[str, jax.Array]

ADAM = optax.adam(3e-4)
DISCOUNT, TAU = 0.99, 0.005


class State(NamedTuple):
    """Networks by name, each with its optimiser; the targets of the critics have none."""

    critic: Parameters
    target_critic: Parameters
    actor: Parameters
    temperature: Parameters
    optimisers: tuple[Any, Any, Any]


class Rows(NamedTuple):
    """Minibatches of U critic updates, each array (U, B, ...)."""

    observation: Any
    action: Any
    reward: Any
    terminated: Any
    next_observation: Any


class Noise(NamedTuple):
    """Randomness of an iteration: standard normal (U, B, A), critics that count (U, M), standard normal (B, A)."""

    next_action: jax.Array
    subset: jax.Array
    action: jax.Array


def initial_state(key: jax.Array, observation: int, action: int, hidden: tuple[int, ...], critics: int) -> State:
    critic_key, actor_key = jax.random.split(key)
    critic = jax.vmap(lambda k: _network(k, (observation + action, *hidden, 1), layer_norm=True))(
        jax.random.split(critic_key, critics)
    )
    actor = _network(actor_key, (observation, *hidden, 2 * action), layer_norm=False)
    temperature = {"log_alpha": jnp.zeros(())}
    optimisers = (ADAM.init(critic), ADAM.init(actor), ADAM.init(temperature))
    # A copy: the buffers of the state are given away at each iteration, and no buffer can be given twice.
    return State(critic, jax.tree.map(jnp.copy, critic), actor, temperature, optimisers)


def _network(key: jax.Array, sizes: tuple[int, ...], layer_norm: bool) -> Parameters:
    parameters = {}
    for index, layer_key in enumerate(jax.random.split(key, len(sizes) - 1)):
        hidden = index < len(sizes) - 2
        name, shape = str(index) if hidden else "output", sizes[index : index + 2]
        parameters[f"{name}/weight"] = jax.nn.initializers.orthogonal(math.sqrt(2) if hidden else 1.0)(layer_key, shape)
        parameters[f"{name}/bias"] = jnp.zeros(shape[1])
        if layer_norm and hidden:
            parameters[f"{name}/scale"] = jnp.ones(shape[1])
            parameters[f"{name}/shift"] = jnp.zeros(shape[1])
    return parameters


def _apply(parameters: Parameters, x: jax.Array) -> jax.Array:
    layer = 0
    while f"{layer}/weight" in parameters:
        x = x @ parameters[f"{layer}/weight"] + parameters[f"{layer}/bias"]
        if f"{layer}/scale" in parameters:
            x = jax.nn.standardize(x, epsilon=1e-6) * parameters[f"{layer}/scale"] + parameters[f"{layer}/shift"]
        x = jax.nn.relu(x)
        layer += 1
    return x @ parameters["output/weight"] + parameters["output/bias"]


def _values(critic: Parameters, observation: jax.Array, action: jax.Array) -> jax.Array:
    """Return (E, B)."""
    rows = jnp.concatenate((observation, action), axis=-1)
    return jax.vmap(_apply, in_axes=(0, None))(critic, rows)[..., 0]


def _act(actor: Parameters, observation: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return actions and the logarithms of their densities."""
    mean, log_std = jnp.split(_apply(actor, observation), 2, axis=-1)
    log_std = jnp.clip(log_std, -20.0, 2.0)
    before = mean + jnp.exp(log_std) * noise
    gaussian = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
    return jnp.tanh(before), (gaussian - 2 * (math.log(2) - before - jax.nn.softplus(-2 * before))).sum(-1)


def iterate(state: State, rows: Rows, noise: Noise) -> State:
    """Do U critic updates, then one of the actor and one of the temperature on the last minibatch."""
    critic_optimiser, actor_optimiser, temperature_optimiser = state.optimisers

    def critic_update(carry: tuple[Parameters, Parameters, Any], step: tuple[Rows, Any, Any]) -> tuple[Any, None]:
        critic, target, optimiser = carry
        row, next_noise, subset = step
        next_action, _ = _act(state.actor, row.next_observation, next_noise)
        chosen = jax.tree.map(lambda leaf: leaf[subset], target)
        next_value = _values(chosen, row.next_observation, next_action).min(0)
        goal = row.reward + DISCOUNT * (1 - row.terminated) * next_value

        def loss(parameters: Parameters) -> jax.Array:
            return ((_values(parameters, row.observation, row.action) - goal) ** 2).mean(1).sum()

        change, optimiser = ADAM.update(jax.grad(loss)(critic), optimiser)
        critic = optax.apply_updates(critic, change)
        return (critic, optax.incremental_update(critic, target, TAU), optimiser), None

    # Unrolled, as in the authors' code.
    (critic, target, critic_optimiser), _ = jax.lax.scan(
        critic_update,
        (state.critic, state.target_critic, critic_optimiser),
        (rows, noise.next_action, noise.subset),
        unroll=True,
    )
    alpha, last = jnp.exp(state.temperature["log_alpha"]), rows.observation[-1]

    def actor_loss(actor: Parameters) -> tuple[jax.Array, jax.Array]:
        action, log_density = _act(actor, last, noise.action)
        return (alpha * log_density - _values(critic, last, action).mean(0)).mean(), -log_density.mean()

    gradient, entropy = jax.grad(actor_loss, has_aux=True)(state.actor)
    change, actor_optimiser = ADAM.update(gradient, actor_optimiser)
    actor = optax.apply_updates(state.actor, change)

    target_entropy = -0.5 * noise.action.shape[-1]
    gradient = {"log_alpha": alpha * (entropy - target_entropy)}
    change, temperature_optimiser = ADAM.update(gradient, temperature_optimiser)
    temperature = optax.apply_updates(state.temperature, change)
    return State(critic, target, actor, temperature, (critic_optimiser, actor_optimiser, temperature_optimiser))


@partial(jax.jit, static_argnames=("critics", "subset"), donate_argnums=0)
def _train(state: State, rows: Rows, key: jax.Array, critics: int, subset: int) -> tuple[State, jax.Array]:
    updates, batch, action = rows.action.shape
    key, *keys = jax.random.split(key, 4)
    order = jax.vmap(lambda k: jax.random.permutation(k, critics)[:subset])(jax.random.split(keys[1], updates))
    normal = jax.random.normal
    return iterate(state, rows, Noise(normal(keys[0], rows.action.shape), order, normal(keys[2], (batch, action)))), key


class RLPD:
    """The learner: its state and two stores of rows, one of them demonstrations."""

    def __init__(self, observation: int, action: int, hidden: tuple[int, ...], critics: int, subset: int) -> None:
        key, self._key = jax.random.split(jax.random.key(0))
        self.state = initial_state(key, observation, action, hidden, critics)
        self._critics, self._subset = critics, subset

    def update(self, rows: Rows) -> None:
        """Do one iteration; return when it is done."""
        self.state, self._key = _train(self.state, rows, self._key, self._critics, self._subset)
        jax.block_until_ready(self.state)


def sample_rows(stores: list[dict[str, NDArray[Any]]], rng: np.random.Generator, updates: int, batch: int) -> Rows:
    """Draw the rows of all updates at once, the same number from each store in every minibatch."""
    share = batch // len(stores)
    parts = []
    for store in stores:
        indices = rng.integers(0, len(store["reward"]), (updates, share))
        parts.append(Rows(*(store[name][indices] for name in Rows._fields)))
    return Rows(*(np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)))
