"""What classifiers and other modules make of images: features of frozen networks, views, and success told from them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from robo_rl.core import ArraySpec, CheckpointError, ConfigError, DataError
from robo_rl.recording.teleoperation import record_expert
from robo_rl.replay import EpisodeStore
from robo_rl.rewards import MODULES, ComposedRewardConfig
from robo_rl.rewards.modules.classifier import ClassifierConfig, ViceConfig
from robo_rl.rewards.modules.clip import ClipConfig
from robo_rl.rewards.modules.stages import StagesConfig
from robo_rl.rewards.parts.vector_input import VectorInput
from robo_rl.rewards.vision.encoder import load_encoder
from robo_rl.rewards.vision.encoder_config import ImagesConfig
from robo_rl.rewards.vision.images import moved
from robo_rl.rewards.vision.libraries import timm
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig

from ..rigs.specs import joint_spec

SMALL = "test_resnet"  # of timm, made to be small
BUNDLED = ImagesConfig(model="tabletop")


def spec(channels=3):
    return joint_spec({"state": ArraySpec((2,)), "images/front": ArraySpec((20, 24, channels), "uint8")})


def images(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def rows(pictures):
    leading = pictures.shape[:-3]
    action = np.zeros((*leading, 1), np.float32)
    return {"action": action, "observation/images/front": pictures, "next_observation/images/front": pictures}


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A small network of timm whose weights are in a file, and where that is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = timm().create_model(SMALL).eval()
    file = tmp_path_factory.mktemp("network") / "model.safetensors"
    save_file(model.state_dict(), file)
    return model, file


def test_features_are_what_the_head_of_the_network_is_given(network):
    """Against timm itself: each picture of a stack, at the size and with the colours that the network is made for."""
    model, file = network
    look = VectorInput(["images/front"], ImagesConfig(model=f"timm:{SMALL}", pretrained=str(file)), spec(6), "goal")
    pictures = images(2, 3, 20, 24, 6)
    known = timm().data.resolve_model_data_config(model)
    mean, deviation = (torch.tensor(known[key]).view(3, 1, 1) for key in ("mean", "std"))
    size = known["input_size"][1:]
    expected = []
    for picture in pictures.reshape(-1, 20, 24, 6):
        of_stack = torch.from_numpy(np.stack((picture[..., :3], picture[..., 3:]))).permute(0, 3, 1, 2)
        squashed = torch.nn.functional.interpolate(of_stack.float(), size, mode=known["interpolation"], antialias=True)
        inputs = (squashed.round().clip(0, 255) / 255 - mean) / deviation
        with torch.no_grad():
            expected.append(model.forward_head(model.forward_features(inputs), pre_logits=True).flatten().numpy())
    found = look(rows(pictures))
    assert found.shape == (2, 3, look.size)
    np.testing.assert_allclose(found.reshape(6, -1), expected, atol=2e-2 * np.abs(expected).max())
    assert np.corrcoef(found.ravel(), np.ravel(expected))[0, 1] > 0.999


class Halves(torch.nn.Module):
    """An encoder of a user: weighted mean colours of the upper and the lower half."""

    image_size = (4, 6)
    mean = (0.5, 0.25, 0.0)
    std = 0.5

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.zeros(3))

    def forward(self, pictures):
        assert pictures.shape[1:] == (3, 4, 6)
        halves = [(half.mean((2, 3)) * self.weights).sum(1) for half in pictures.split(2, dim=2)]
        return torch.stack(halves, dim=1)


class Whole(Halves):
    """One that returns no vectors."""

    def forward(self, pictures):
        return pictures


def test_features_of_a_module_of_a_user(tmp_path):
    file = tmp_path / "weights.safetensors"
    save_file({"weights": torch.tensor([1.0, 2.0, -1.0])}, file)
    config = ImagesConfig(model=f"torch:{__name__}.Halves", pretrained=str(file))
    look = VectorInput(["images/front"], config, spec(3), "goal")
    pictures = images(2, 4, 6, 3)
    colours = (pictures / 255 - [0.5, 0.25, 0.0]) / 0.5 @ [1.0, 2.0, -1.0]
    np.testing.assert_allclose(look(rows(pictures)), colours.reshape(2, 2, 12).mean(2), atol=1e-5)
    flat = np.full((1, 40, 40, 3), 51, np.uint8)
    np.testing.assert_allclose(look(rows(flat)), np.full((1, 2), (0.2 * 2 - 1.0) / 0.5), atol=1e-5)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("torch:nowhere.Encoder", "torch:nowhere.Encoder cannot be imported .*is its package installed"),
        ("torch:torch.nn.Nothing", "torch:torch.nn.Nothing cannot be imported"),
        ("torch:Linear", "torch:Linear cannot be imported"),
        ("torch:os.system", "must be a class of torch.nn.Module with an image_size"),
        ("torch:torch.nn.Linear", "must be a class of torch.nn.Module with an image_size"),
        (f"torch:{__name__}.Whole", r"features of pictures \(20, 3, 4, 6\) must be \(n, E\)"),
    ],
)
def test_what_is_no_module_of_a_user_is_refused(model, message, tmp_path):
    file = tmp_path / "weights.safetensors"
    save_file({"weights": torch.zeros(3)}, file)
    with pytest.raises(ConfigError, match=message):
        load_encoder(ImagesConfig(model=model, pretrained=str(file)).encoder())


def test_weights_of_a_module_of_a_user_fit_it(tmp_path):
    file = tmp_path / "weights.safetensors"
    save_file({"others": torch.zeros(3)}, file)
    with pytest.raises(DataError, match=r"Halves cannot be loaded from .*weights"):
        load_encoder(ImagesConfig(model=f"torch:{__name__}.Halves", pretrained=str(file)).encoder())
    with pytest.raises(ConfigError, match="pretrained: there is no file : give one in safetensors"):
        load_encoder(ImagesConfig(model=f"torch:{__name__}.Halves").encoder())


def test_views_are_moves_that_stay_the_same_so_that_nothing_is_encoded_twice():
    look = VectorInput(["images/front"], replace(BUNDLED, cache_frames=501), spec(), "goal")
    moves = look.moves(4, 3, seed=7)
    assert moves[0] == (0, 0)
    assert moves == look.moves(4, 3, seed=7) != look.moves(4, 3, seed=8)
    assert all(max(map(abs, move)) <= 3 for move in look.moves(200, 3, seed=7))
    pictures = images(5, 20, 24, 3)
    encoder = load_encoder(replace(BUNDLED, cache_frames=501).encoder())
    before = encoder.images.encoded
    for _ in range(2):
        for down, right in moves:
            padded = np.pad(pictures, ((0, 0), (3, 3), (3, 3), (0, 0)), mode="edge")
            cut = padded[:, 3 - down : 23 - down, 3 - right : 27 - right]
            np.testing.assert_array_equal(moved(pictures, down, right), cut)
            np.testing.assert_array_equal(look(rows(pictures), move=(down, right)), encoder.encode(cut))
    assert encoder.images.encoded - before == len(pictures) * len(set(moves))
    for still in (VectorInput(["state"], ImagesConfig(), spec(), "goal").moves(4, 3, 0), look.moves(4, 0, 0)):
        assert still == [(0, 0)]


def test_all_modules_that_look_at_observations_see_images_so():
    """Each takes the network's features, and is not resumed with another network."""
    unlike = ("clip", "code", "ensemble", "interventions", "keypoints", "specification", "toggles", "annotations")
    for kind in MODULES.keys() - set(unlike):
        config = MODULES[kind](keys=("images/front",), images=BUNDLED)
        module = config.make("goal", spec(), 0)
        assert module._input.size == load_encoder(BUNDLED.encoder()).size
        state = {key: value.copy() for key, value in module.state().items()}
        module.load(state)
        state["input/encoder"][0] += 1
        with pytest.raises(CheckpointError, match="'goal' was saved with another network for images"):
            module.load(state)


def test_a_fixed_module_has_the_network_see_all_pictures_of_an_episode_at_once():
    """One by one is twenty times as slow; one that learns is called with rows in any order, and so can they be."""
    for kind, at_once in (("classifier", True), ("perceptual", True), ("stages", True), ("vice", False)):
        assert not MODULES[kind](keys=("state",)).make("goal", spec(), 0).whole_episodes
        config = MODULES[kind](keys=("images/front",), images=BUNDLED)
        assert config.make("goal", spec(), 0).whole_episodes == at_once
        scorer = ComposedRewardConfig(modules={"goal": config}).make(spec(), 0).scorer
        assert scorer.whole_episodes == at_once and not scorer.needs_steps
        pictures = images(2, 20, 24, 3)
        assert scorer.judge(rows(pictures) | {"action": np.zeros((2, 1), np.float32)})["goal"].shape == (2,)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Doors that a noisy expert opens, and some that a worse one does not open in time."""
    folder = tmp_path_factory.mktemp("doors")
    camera = ObservationConfig(cameras=("front",), width=64, height=64)
    episodes = {}
    for name, count, noise, limit in (("fitted", 12, 0.3, 40), ("held_out", 6, 0.3, 40), ("failed", 3, 1.0, 8)):
        backend = make_backend("open_door", observation=camera, max_episode_steps=limit)
        successful = name != "failed"
        record_expert(backend, folder / name, count, noise=noise, seed=len(name), only_successful=successful)
        with EpisodeStore.open(folder / name) as store:
            episodes[name] = [store.arrays(number, ["images/front"]).rows() for number in range(count)]
    return backend.spec, episodes


def errors(module, episodes):
    """The share of successes that a module does not see, and of failures that it takes for successes."""
    ends = [module(each)[-1] for each in episodes["held_out"]]
    before = [module(each)[:-2] for each in episodes["held_out"]]
    assert not any(each["success"][-1] for each in episodes["failed"])
    failures = np.concatenate([*before, *(module(each) for each in episodes["failed"])])
    return 1 - np.mean(ends), failures.mean()


@pytest.mark.rendering
def test_success_is_told_from_images_alone_on_episodes_that_were_not_seen(recorded):
    environment, episodes = recorded
    module = ClassifierConfig(keys=("images/front",), images=BUNDLED, fit_steps=200).make("goal", environment, 0)
    module.fit(episodes["fitted"])
    missed, mistaken = errors(module, episodes)
    assert missed <= 0.2
    assert mistaken <= 0.1


@pytest.mark.rendering
def test_success_learned_from_labels_of_images_is_in_the_file_with_its_network(recorded, tmp_path):
    environment, episodes = recorded
    labels = [np.arange(len(each["action"])) == len(each["action"]) - 1 for each in episodes["fitted"]]
    config = StagesConfig(keys=("images/front",), images=BUNDLED, stages=1, fit_steps=200, batch_size=64)
    module = config.make("goal", environment, 0)
    module.learn(episodes["fitted"], [each.astype(np.int8) for each in labels])
    missed, mistaken = errors(module, episodes)
    assert missed <= 0.4
    assert mistaken <= 0.1
    module.save(tmp_path / "door.safetensors", {})
    loaded = StagesConfig(file=str(tmp_path / "door.safetensors")).make("goal", environment, 1)
    assert loaded.config.images.model == "tabletop"
    for episode in episodes["held_out"]:
        np.testing.assert_array_equal(loaded(episode), module(episode))


@pytest.mark.rendering
def test_vice_unlearns_images_that_the_policy_shows(recorded):
    environment, episodes = recorded
    config = ViceConfig(
        keys=("images/front",), images=BUNDLED, fit_steps=200, interval=1, soft=True, learning_rate=1e-3
    )
    module = config.make("goal", environment, 0)
    module.fit(episodes["fitted"])
    fooled = {key: value[-1:] for key, value in episodes["held_out"][0].items()}

    class Practice:
        def __len__(self):
            return 1000

        def sample_rows(self, n, rng):
            return {key: value.repeat(n, axis=0) for key, value in fooled.items()}

    before = module(fooled)[0]
    for _ in range(20):
        module.update(Practice())
    assert before > 0.7
    assert module(fooled)[0] < before - 0.15


def test_what_does_not_fit_is_said(network, tmp_path):
    _, file = network
    with pytest.raises(ConfigError, match=r"goal.images.model: tabletop is for images and .*goal.keys names none"):
        ClassifierConfig(images=BUNDLED).make("goal", spec(), 0)
    with pytest.raises(ConfigError, match="'front' has no colours"):
        ClassifierConfig(keys=("images/front",), images=BUNDLED).make("goal", spec(1), 0)
    with pytest.raises(ConfigError, match="timm has no 'resnet81': did you mean"):
        load_encoder(ImagesConfig(model="timm:resnet81").encoder())
    with pytest.raises(ConfigError, match=r"there is no file nowhere.safetensors"):
        load_encoder(ImagesConfig(model=f"timm:{SMALL}", pretrained="nowhere.safetensors").encoder())
    with pytest.raises(DataError, match=r"test_vit cannot be loaded from .*it lacks"):
        load_encoder(ImagesConfig(model="timm:test_vit", pretrained=str(file)).encoder())
    with pytest.raises(ConfigError, match=f"timm:{SMALL} does not encode texts"):
        ClipConfig(model=f"timm:{SMALL}", pretrained=str(file), goals=("a",), alpha=0).make("goal", spec(), 0)
