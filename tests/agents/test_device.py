"""Where learning is computed; without a GPU: that the host has no part in an update, and what a launch copies."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from robo_rl.agents.drq.config import DrQConfig
from robo_rl.agents.drq.policy import PixelPolicy
from robo_rl.agents.drq.update import DrQUpdate, PixelMinibatches
from robo_rl.agents.parts.device import CapturedFunction, captured, choose_device, map_tensors
from robo_rl.agents.parts.encoder_config import EncoderConfig
from robo_rl.agents.parts.networks import initialise_network
from robo_rl.agents.sac import SAC, SACConfig
from robo_rl.agents.sac.critics import train_state
from robo_rl.agents.sac.update import METRICS, Minibatches, TorchUpdate, adam_corrections, draw_noise
from robo_rl.core import ArraySpec, ConfigError

from ..rigs.specs import toy_spec
from .test_drq_resnet import saved

V, A = 3, 2
SPEC = toy_spec({"state": ArraySpec((V,)), "images/front": ArraySpec((9, 12, 3), "uint8")}, A)
SMALL = SACConfig(ensemble_size=3, hidden=(16,), update_to_data=4, batch_size=6, device="cpu", implementation="torch")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def experience(updates: int, rows: int, inputs: int) -> Minibatches:
    source = torch.Generator().manual_seed(1)
    lead = (updates, rows)
    return Minibatches(
        observation=torch.randn(*lead, inputs, generator=source),
        action=torch.rand(*lead, A, generator=source),
        reward=torch.rand(lead, generator=source),
        discount=torch.full(lead, 0.9),
        next_observation=torch.randn(*lead, inputs, generator=source),
        cloning=torch.rand(lead, generator=source),
        proposed_action=torch.rand(*lead, A, generator=source),
    )


def networks(config: SACConfig, inputs: int) -> dict[str, Tensor]:
    source = torch.Generator().manual_seed(0)
    critic = initialise_network(
        "critic",
        (inputs + A, *config.hidden, 1),
        source,
        layer_norm=config.layer_norm,
        output_gain=1.0,
        ensemble=config.ensemble_size,
    )
    sizes = (inputs, *config.hidden, 2 * A)
    actor = initialise_network("actor", sizes, source, layer_norm=False, output_gain=0.5)
    target = {f"target_{name}": tensor.clone() for name, tensor in critic.items()}
    return critic | target | actor | {"temperature/log_alpha": torch.tensor(-1.0)}


def on_meta(tensors):
    return map_tensors(lambda x: x.to("meta"), tensors)


def test_devices_are_chosen_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"agent\.device=cuda: PyTorch finds 0 GPUs here .* Use agent\.device=cpu"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ConfigError, match=r"agent\.device=cuda:2: PyTorch finds 2 GPUs here"):
        choose_device("cuda:2")
    with pytest.raises(ConfigError, match=r"agent\.device must be auto, cpu, cuda or cuda:<number>, got 'gpu'"):
        SACConfig(device="gpu")


def test_structures_are_mapped_place_by_place() -> None:
    structure = (Minibatches(*(torch.tensor(float(n)) for n in range(7))), [torch.tensor(7.0)], None)
    doubled = map_tensors(lambda x, y: x + y, structure, structure)
    assert isinstance(doubled[0], Minibatches)
    assert [float(x) for x in doubled[0]] == [0, 2, 4, 6, 8, 10, 12]
    assert (type(doubled[1]), float(doubled[1][0]), doubled[2]) == (list, 14.0, None)


def test_no_host_takes_part_in_an_update() -> None:
    """A tensor on ``meta`` has no values: reading one back, or mixing in one that is elsewhere, raises."""
    config = SMALL
    parameters = on_meta_dict(networks(config, V))
    noise = draw_noise(config, A, torch.Generator().manual_seed(2))
    arguments = experience(4, 6, V), noise, adam_corrections(config, 0, torch.float32)
    result = TorchUpdate(config, train_state(parameters))._steps(*on_meta(arguments))
    assert (result.device.type, result.shape) == ("meta", (len(METRICS),))


@pytest.mark.parametrize("critic_keys", [None, ("state",)])
def test_no_host_takes_part_in_an_update_from_images(critic_keys: tuple[str, ...] | None) -> None:
    encoder = EncoderConfig(channels=(4, 5), latent=7)
    config = DrQConfig(
        ensemble_size=3, hidden=(16,), update_to_data=2, batch_size=6, encoder=encoder, critic_keys=critic_keys
    )
    policy = PixelPolicy(dataclasses.replace(config, device="cpu"), SPEC, 0)
    values = networks(config, policy.input_size if critic_keys is None else V)
    parameters = on_meta_dict(values | policy.parameters)
    images = [torch.zeros(2, 6, 9, 12, 3, dtype=torch.uint8)]
    critic = None if critic_keys is None else (torch.zeros(2, 6, V), torch.zeros(2, 6, V))
    batch = PixelMinibatches(experience(2, 6, V), images, images, critic)
    noise = draw_noise(config, A, torch.Generator().manual_seed(2))
    arguments = batch, noise, adam_corrections(config, 0, torch.float32)
    update = DrQUpdate(config, policy.inputs, train_state(parameters))
    result = update._steps(*on_meta(arguments))
    assert (result.device.type, result.shape) == ("meta", (len(METRICS),))


@pytest.mark.parametrize("frozen", [True, False])
def test_nothing_comes_from_the_host_while_a_residual_network_is_recorded(
    frozen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph of a GPU refuses a copy from memory that is not pinned."""
    file = tmp_path / "resnet.safetensors"
    saved(file)
    encoder = EncoderConfig(latent=7, checkpoint=str(file), frozen=frozen)
    config = DrQConfig(ensemble_size=3, hidden=(16,), update_to_data=2, batch_size=6, encoder=encoder, device="cpu")
    policy = PixelPolicy(config, SPEC, 0)
    parameters = networks(config, policy.input_size) | policy.parameters
    images = [torch.zeros(2, 6, 9, 12, 3, dtype=torch.uint8)]
    noise = draw_noise(config, A, torch.Generator().manual_seed(2))
    batch = PixelMinibatches(experience(2, 6, V), images, images, None)
    corrections = adam_corrections(config, 0, torch.float32)
    update = DrQUpdate(config, policy.inputs, train_state(parameters))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("values from the host")

    for name in ("tensor", "as_tensor", "from_numpy"):
        monkeypatch.setattr(torch, name, refuse)
    assert torch.isfinite(update._steps(batch, noise, corrections)).all()


def on_meta_dict(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to("meta") for name, tensor in tensors.items()}


def test_every_launch_has_its_own_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a recording that runs the function again, as a graph would, in place of the graph."""

    def record(self: CapturedFunction) -> SimpleNamespace:
        self._result = torch.empty(len(METRICS))
        return SimpleNamespace(replay=lambda: self._result.copy_(self._function(*self._arguments)))

    monkeypatch.setattr(CapturedFunction, "_capture", record)
    ends = []
    for recorded in (False, True):
        parameters = networks(SMALL, V)
        update = TorchUpdate(SMALL, train_state(parameters))
        if recorded:
            update._steps = CapturedFunction(update._steps, list(parameters.values()))
        source = torch.Generator().manual_seed(3)
        metrics = []
        for k in range(3):
            batch = experience(4, 6, V)
            batch = batch._replace(reward=batch.reward + k)
            metrics.append(update(batch, draw_noise(SMALL, A, source), k).clone())
        ends.append((torch.stack(metrics), parameters))
    torch.testing.assert_close(ends[1], ends[0], rtol=0, atol=0)


def test_on_the_cpu_nothing_is_captured() -> None:
    parameters = networks(SMALL, V)
    function = TorchUpdate(SMALL, train_state(parameters))._all_steps
    assert captured(function, parameters) is function


@needs_gpu
@pytest.mark.parametrize("implementation", ["torch", "compile"])
def test_a_gpu_computes_what_the_cpu_does(implementation: str) -> None:
    ends = []
    for device in ("cpu", "cuda"):
        config = dataclasses.replace(
            SMALL, device=device, implementation=implementation if device == "cuda" else "torch"
        )
        parameters = {name: tensor.to(device) for name, tensor in networks(config, V).items()}
        update = TorchUpdate(config, train_state(parameters), compiled=config.implementation == "compile")
        source = torch.Generator().manual_seed(3)
        metrics = [update(experience(4, 6, V), draw_noise(config, A, source), k).tolist() for k in range(5)]
        ends.append((torch.tensor(metrics), {name: tensor.cpu() for name, tensor in parameters.items()}))
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-3, atol=1e-4)


@needs_gpu
def test_an_agent_moves_between_devices() -> None:
    agents = [
        SAC(dataclasses.replace(SMALL, device=device, implementation="auto"), SPEC, 0) for device in ("cpu", "cuda")
    ]
    agents[1].load(agents[0].state())
    observation = {"state": torch.ones(V).numpy()}
    for explore in (False, True):
        left, right = (agent.act(observation, explore=explore) for agent in agents)
        assert left == pytest.approx(right, abs=1e-5)
