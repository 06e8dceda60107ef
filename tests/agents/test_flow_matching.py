"""Flow matching: Euler's method and the loss in closed form, and what the field sees."""

import math

import pytest
import torch

from robo_rl.agents.parts.flow import (
    MAX_GUIDANCE,
    flow_matching_loss,
    initialise_flow,
    inpaint_flow,
    integrate,
    sample_flow,
    velocity,
)
from robo_rl.agents.parts.offline_config import OfflineConfig


class Config(OfflineConfig):
    flow_steps = 10


def test_euler_of_a_linear_field_is_its_closed_form() -> None:
    """dx/dt = a x + b carries x to (x + b/a) (1 + a/K)^K - b/a in K steps, and in the limit to (x + b/a) e^a - b/a."""
    start = torch.linspace(-2, 2, 12, dtype=torch.float64).view(4, 3)
    a, b = 0.7, -0.3
    for steps in (1, 5, 10):
        expected = (start + b / a) * (1 + a / steps) ** steps - b / a
        torch.testing.assert_close(integrate(lambda x, _: a * x + b, start, steps), expected)
    exact = (start + b / a) * math.exp(a) - b / a
    torch.testing.assert_close(integrate(lambda x, _: a * x + b, start, 4000), exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize("steps", [1, 3, 10])
def test_the_field_of_a_single_chunk_leads_there_in_any_number_of_steps(steps: int) -> None:
    """With x_1 = c alone the velocity at (x, t) is (c - x) / (1 - t), the time before each step."""
    chunk = torch.tensor([[0.3, -0.8]])
    reached = integrate(lambda x, t: (chunk - x) / (1 - t), torch.randn(5, 2), steps)
    torch.testing.assert_close(reached, chunk.expand(5, 2), rtol=0, atol=1e-5)


def test_the_loss_of_a_constant_field_is_its_distance_to_the_displacements() -> None:
    config = Config(hidden=(8,), activation="gelu")
    parameters = initialise_flow(config, 3, 2, torch.Generator().manual_seed(0))
    parameters["flow/output/weight"].zero_()
    parameters["flow/output/bias"].copy_(torch.tensor([0.5, -1.0]))
    observation, chunk, noise = torch.randn(6, 3), torch.randn(6, 2), torch.randn(6, 2)
    loss = flow_matching_loss(parameters, observation, chunk, noise, torch.rand(6, 1), "gelu")
    expected = (torch.tensor([0.5, -1.0]) - (chunk - noise)).square().mean()
    torch.testing.assert_close(loss, expected)
    # A step of the length 0.5 and one of the length -1, cut at the limits of actions.
    sampled = sample_flow(parameters, observation, noise, config)
    torch.testing.assert_close(sampled, (noise + torch.tensor([0.5, -1.0])).clamp(-1, 1))


def test_the_field_sees_observation_chunk_and_time() -> None:
    parameters = initialise_flow(Config(hidden=(8,)), 3, 2, torch.Generator().manual_seed(0))
    inputs = {"observation": torch.zeros(1, 3), "chunk": torch.zeros(1, 2), "time": torch.full((1, 1), 0.3)}
    before = velocity(parameters, **inputs, activation="gelu")
    for name, value in inputs.items():
        changed = velocity(parameters, **(inputs | {name: value + 0.2}), activation="gelu")
        assert (changed - before).abs().max() > 1e-3, name


def test_without_weights_inpainting_is_sampling() -> None:
    config = Config(hidden=(8,), activation="gelu")
    parameters = initialise_flow(config, 3, 4, torch.Generator().manual_seed(0))
    observation, noise, known = torch.randn(5, 3), torch.randn(5, 4), torch.randn(5, 4)
    chunk = inpaint_flow(parameters, observation, noise, known, torch.zeros(5, 4), config)
    torch.testing.assert_close(chunk, sample_flow(parameters, observation, noise, config))


def test_guidance_is_the_gradient_towards_the_known_chunk() -> None:
    """Each step of real-time chunking, with the gradient by automatic differentiation of the squared distance."""
    config = Config(hidden=(8,), activation="gelu")
    parameters = initialise_flow(config, 3, 4, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    observation, noise = (torch.randn(5, width, generator=generator) for width in (3, 4))
    known, weights = 0.3 * torch.randn(5, 4, generator=generator), torch.rand(5, 4, generator=generator)
    x = noise
    for step in range(10):
        time = step / 10
        start = x.clone().requires_grad_()
        moved = velocity(parameters, observation, start, torch.full((5, 1), time), "gelu")
        end = start + (1 - time) * moved
        distance = 0.5 * (weights * (known - end).square()).sum()
        (gradient,) = torch.autograd.grad(distance, start)
        variance = (1 - time) ** 2 / (time**2 + (1 - time) ** 2)
        strength = MAX_GUIDANCE if step == 0 else min(MAX_GUIDANCE, (1 - time) / (time * variance))
        x = x + (moved.detach() - strength * gradient) / 10
    chunk = inpaint_flow(parameters, observation, noise, known, weights, config)
    torch.testing.assert_close(chunk, x.clamp(-1, 1), rtol=1e-4, atol=1e-5)
    sure = inpaint_flow(parameters, observation, noise, known, torch.ones(5, 4), config)
    free = sample_flow(parameters, observation, noise, config)
    assert (sure - known).abs().max() < 0.2 * (free - known.clamp(-1, 1)).abs().max()
