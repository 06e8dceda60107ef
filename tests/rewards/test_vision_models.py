"""CLIP models on disk: what is loaded, what is refused, and that training and preprocessing are open_clip's."""

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from robo_rl.core import ConfigError, DataError
from robo_rl.rewards.vision.config import PretrainingConfig
from robo_rl.rewards.vision.encoder import Preprocessing, load_encoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig
from robo_rl.rewards.vision.files import BUNDLED, find_files
from robo_rl.rewards.vision.libraries import open_clip
from robo_rl.rewards.vision.pretraining import ClipTrainer
from robo_rl.rewards.vision.schedule import schedule

from ..rigs.small_clip import CAPTIONS, CONFIG, frames, make_small_clip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clip") / "made"
    make_small_clip(folder)
    return folder


@pytest.fixture
def copy(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "copy"))


def test_a_saved_model_is_one_of_open_clip(made):
    """By open_clip's own loader, tokenizer and transforms, as somebody else would use the folder."""
    reference, _, transform = open_clip().create_model_and_transforms(f"local-dir:{made}")
    tokenizer = open_clip().get_tokenizer(f"local-dir:{made}")
    reference.eval()
    actual = load_encoder(EncoderConfig(model=f"local-dir:{made}"))
    images = frames(3)
    with torch.inference_mode():
        pictures = torch.stack([transform(Image.fromarray(image)) for image in images])
        expected = reference.encode_image(pictures, normalize=True).numpy()
        texts = reference.encode_text(tokenizer(list(CAPTIONS)), normalize=True).numpy()
    np.testing.assert_allclose(actual.encode(images), expected, atol=1e-5)
    np.testing.assert_allclose(actual.texts(CAPTIONS), texts, atol=1e-6)


@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
@pytest.mark.parametrize("shape", [(32, 32), (48, 80), (80, 48), (20, 31), (31, 20)])
@pytest.mark.parametrize("size", [32, (24, 40)])
def test_preprocessing_is_that_of_open_clip(mode, shape, size):
    open_clip()
    from open_clip.transform import PreprocessCfg, image_transform_v2

    config = {"size": size, "mean": (0.1, 0.2, 0.3), "std": (0.5, 0.4, 0.3), "interpolation": "bicubic",
              "resize_mode": mode, "fill_color": 7}  # fmt: skip
    rng = np.random.default_rng(0)
    smooth = np.asarray(Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(shape[::-1]))
    reference = image_transform_v2(PreprocessCfg(**config), is_train=False)(Image.fromarray(smooth))
    actual = Preprocessing(config)(torch.from_numpy(smooth[None].copy()))[0]
    assert actual.shape == reference.shape
    # In grey levels: Pillow and PyTorch round a little differently where they enlarge.
    levels = (actual - reference).abs() * torch.tensor(config["std"]).view(3, 1, 1) * 255
    assert float(levels.max()) < 4 and float(levels.mean()) < 0.5


def test_training_is_the_logistic_loss_of_every_pair():
    trainer = ClipTrainer(CONFIG, 0)
    tokens, images = trainer._tokens(CAPTIONS), torch.from_numpy(frames(4))
    labels = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=torch.bool)
    model = trainer._model.eval()  # pictures are normalised by all of their batch else
    expected = 0.0
    for row in range(4):
        picture = model.encode_image(Preprocessing(trainer._preprocessing())(images[row : row + 1]), normalize=True)[0]
        for column in range(3):
            text = model.encode_text(tokens[column : column + 1], normalize=True)[0]
            logit = (model.logit_scale.exp() * picture @ text + model.logit_bias).double()
            sign = 1.0 if labels[row, column] else -1.0
            expected += float(torch.log1p(torch.exp(-sign * logit.detach()))) / 12
    assert float(trainer._loss(images, tokens, labels).detach()) == pytest.approx(expected, rel=1e-5)


def test_training_tells_what_can_be_told_and_repeats_itself(tmp_path):
    """Bright pictures from dark ones."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (64, 32, 32, 3), dtype=np.uint8)
    bright = np.arange(64) % 2 == 0
    images[bright] += 150
    truth = np.stack([bright, ~bright], axis=1)
    config = PretrainingConfig(**{**CONFIG.__dict__, "steps": 60, "batch_size": 16, "learning_rate": 3e-3})
    losses: list[list[float]] = []
    for folder in ("one", "two"):
        trainer = ClipTrainer(config, 5)
        losses.append([])
        trainer.train(images, ["it is bright", "it is dark"], truth, lambda _, loss: losses[-1].append(loss) is None)
        trainer.save(tmp_path / folder, {})
    assert losses[0] == losses[1]
    assert (tmp_path / "one/open_clip_model.safetensors").read_bytes() == (
        tmp_path / "two/open_clip_model.safetensors"
    ).read_bytes()
    assert np.mean(losses[0][-5:]) < 0.6 * np.mean(losses[0][:5])
    found = trainer.similarities(tmp_path / "one", images, ["it is bright", "it is dark"])
    assert found[bright, 0].min() > found[~bright, 0].max()
    assert found[~bright, 1].min() > found[bright, 1].max()
    # A word in no caption says nothing.
    weights = load_encoder(EncoderConfig(model=f"local-dir:{tmp_path / 'one'}"))._model.token_embedding.weight
    assert int((weights.abs().sum(1) > 0).sum()) == len(trainer._tokens(["it is bright", "it is dark"]).unique())


def test_training_refuses_what_cannot_be_learned():
    trainer = ClipTrainer(CONFIG, 0)
    with pytest.raises(DataError, match="all true or all false"):
        trainer.train(frames(4), CAPTIONS, np.zeros((4, 3), dtype=np.bool_))
    with pytest.raises(DataError, match=r"trainer.context_length=16 is too short for 'a a a"):
        trainer.train(frames(4), ["a " * 15], np.array([[True], [False]] * 2))
    steps: list[int] = []
    trainer.train(frames(4), ["it is dark"], np.array([[True], [False]] * 2), lambda step, _: bool(steps.append(step)))
    assert steps == [0], "training ends where the report says so"
    with pytest.raises(ConfigError, match=r"trainer.image_size must be a multiple of 32"):
        PretrainingConfig(image_size=40)


def test_the_rate_rises_and_falls():
    rates = [schedule(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.2) and max(rates) == rates[5] == 1.0
    assert rates[5:] == sorted(rates[5:], reverse=True) and rates[-1] < 0.01


def test_the_bundled_model_is_whole_and_small():
    files = find_files("tabletop", None, False)
    assert files.weights.parent == BUNDLED["tabletop"]
    assert sum(file.stat().st_size for file in BUNDLED["tabletop"].iterdir()) < 6_000_000
    card = json.loads((BUNDLED["tabletop"] / "card.json").read_text())
    assert card["seed"] == 0 and card["pictures"] > 1000 and card["command"][:3] == ["robo-rl", "vision", "pretrain"]
    assert load_encoder(EncoderConfig()).size == card["config"]["trainer"]["embedding"]


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def load(folder: Path) -> None:
    load_encoder(EncoderConfig(model=f"local-dir:{folder}"))


def test_changed_files_are_refused(copy):
    flip(copy / "open_clip_model.safetensors", -1)
    with pytest.raises(DataError, match=r"open_clip_model.safetensors is not the file that card.json describes"):
        load(copy)
    flip(copy / "open_clip_model.safetensors", -1)
    load(copy)
    config = copy / "open_clip_config.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(DataError, match=r"open_clip_config.json is not the file that card.json describes"):
        load(copy)
    (copy / "card.json").write_text("{")
    with pytest.raises(DataError, match=r"card.json and what it describes cannot be read"):
        load(copy)
    (copy / "card.json").unlink()
    load(copy)
    (copy / "open_clip_model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0nonsense")
    with pytest.raises(DataError, match=r"cannot be loaded from .*open_clip_model.safetensors"):
        load(copy)


def test_a_configuration_that_does_not_fit_is_refused(copy):
    (copy / "card.json").unlink()
    file = copy / "open_clip_config.json"
    config = json.loads(file.read_text())
    config["model_cfg"]["vision_cfg"]["width"] = 32
    file.write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"cannot be loaded .* size mismatch"):
        load(copy)
    config["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
    file.write_text(json.dumps(config))
    with pytest.raises(DataError, match="requires its own code"):
        load(copy)
    file.write_text("[]")
    with pytest.raises(DataError, match="is not a configuration of open_clip"):
        load(copy)
    file.unlink()
    with pytest.raises(DataError, match="is not a configuration of open_clip"):
        load(copy)
    with pytest.raises(ConfigError, match="there is no folder"):
        load(copy / "nowhere")


def test_pickles_are_never_read(copy, monkeypatch):
    """Not even where open_clip would prefer them to the safetensors beside them."""

    def refuse(*_, **__):
        raise AssertionError("torch.load was called")

    monkeypatch.setattr(torch, "load", refuse)
    (copy / "card.json").unlink()
    (copy / "open_clip_model.safetensors").rename(copy / "model.safetensors")
    (copy / "open_clip_pytorch_model.bin").write_bytes(b"pickle")
    load(copy)
    (copy / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no weights in safetensors, only open_clip_pytorch_model.bin: pickles can"):
        load(copy)
    with pytest.raises(ConfigError, match=r"pretrained must be a safetensors file or a tag of RN50"):
        load_encoder(EncoderConfig(model="RN50", pretrained=None))
    with pytest.raises(ConfigError, match=r"RN50 has no weights 'weights.pt'"):
        load_encoder(EncoderConfig(model="RN50", pretrained="weights.pt"))


def test_an_architecture_of_open_clip_with_a_file(made, tmp_path):
    """The same path as ViT-bigG-14 with its weights at hand."""
    open_clip().add_model_config(Path(shutil.copy(made / "open_clip_config.json", tmp_path / "unused.json")))
    config = json.loads((made / "open_clip_config.json").read_text())["model_cfg"]
    (tmp_path / "small-for-test.json").write_text(json.dumps(config))
    open_clip().add_model_config(tmp_path / "small-for-test.json")
    weights = made / "open_clip_model.safetensors"
    encoder = load_encoder(EncoderConfig(model="small-for-test", pretrained=str(weights)))
    same = load_encoder(EncoderConfig(model=f"local-dir:{made}"))
    np.testing.assert_array_equal(encoder.texts(CAPTIONS), same.texts(CAPTIONS))
    with pytest.raises(ConfigError, match="pretrained must be null if the model"):
        load_encoder(EncoderConfig(model="tabletop", pretrained="openai"))
    with pytest.raises(ConfigError, match="unknown CLIP model 'tabeltop': did you mean 'tabletop'"):
        load_encoder(EncoderConfig(model="tabeltop"))


def test_the_cache_of_the_hub_serves_and_the_network_is_left_alone(made, tmp_path):
    """In a process of its own: the Hub's client looks for its cache when it is imported."""
    repository = tmp_path / "models--somebody--small"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    shutil.copytree(made, repository / "snapshots" / "abc")
    code = """
from robo_rl.core import RoboRLError
from robo_rl.rewards.vision.encoder import load_encoder
from robo_rl.rewards.vision.encoder_config import EncoderConfig
print(load_encoder(EncoderConfig(model="hf-hub:somebody/small")).fingerprint)
for name, tag in (("hf-hub:somebody/else", None), ("ViT-B-32", "laion2b_s34b_b79k")):
    try:
        load_encoder(EncoderConfig(model=name, pretrained=tag))
    except RoboRLError as error:
        print(error)
"""
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"HF_HUB_CACHE": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    served, missing, tagged = done.stdout.strip().splitlines()
    assert served == load_encoder(EncoderConfig(model=f"local-dir:{made}")).fingerprint
    assert (
        missing.startswith("somebody/else is not at hand")
        and "(reward.modules.clip.download=true) fetches it" in missing
    )
    assert tagged.startswith("laion/CLIP-ViT-B-32-laion2B-s34B-b79K is not at hand")


def test_loading_leaves_the_log_as_it_was(made, caplog):
    disabled = logging.root.manager.disable
    load(made)
    assert logging.root.manager.disable == disabled
    assert "initialized randomly" not in caplog.text
