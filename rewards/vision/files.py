"""Files of models: bundled, in a folder, or in the cache of the Hugging Face Hub. Pickles are not read."""

import difflib
import hashlib
import importlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import nn

from robo_rl.core import ConfigError, DataError, NoJsonError, nearest, parse_json, read_bytes

from .libraries import open_clip, timm

BUNDLED = {name: Path(__file__).parent / "models" / name for name in ("tabletop", "play")}
"""Models that come with this package, by name; the data card in each folder describes the model."""

CONFIG_NAME = "open_clip_config.json"
WEIGHTS_NAME = "open_clip_model.safetensors"
TIMM_CONFIG_NAME = "config.json"
TIMM_WEIGHTS_NAME = "model.safetensors"
CARD_NAME = "card.json"
"""Data card of a model trained with this package: its origin, and the SHA-256 of its other files."""

TIMM = "timm:"
"""Prefix of the names of timm architectures."""
TORCH = "torch:"
"""Prefix of the names of PyTorch module classes."""
JSON_BYTES = 16 << 20

WANTED = ("*.json", "*.safetensors", "*.txt", "*.model")
"""Files of a model that are downloaded: configuration, weights and tokenizer, but not pickled weights."""


@dataclass(frozen=True)
class ModelFiles:
    """Model that can be loaded.

    Attributes:
        library: library of the model, ``open_clip``, ``timm`` or ``torch``.
        name: name of the model in the library: ``local-dir:<folder>``, the name of an architecture, or of a class.
        weights: file of its weights, safetensors.
        overrides: arguments of ``open_clip.create_model`` that depend on the origin of the weights.
    """

    library: str
    name: str
    weights: Path
    overrides: dict[str, Any]


def find_files(model: str, pretrained: str | None, download: bool) -> ModelFiles:
    """Return the files of a model.

    Args:
        model: a name of :data:`BUNDLED`; ``local-dir:<folder>`` or ``hf-hub:<owner>/<name>`` with a model in the format
            of open_clip or timm; the name of an architecture of open_clip, such as ``ViT-bigG-14``, or of timm, such as
            ``timm:resnet18``; or a class of PyTorch modules, such as ``torch:my_package.MyEncoder``.
        pretrained: weights of an architecture or a class: a safetensors file, or a tag of open_clip. None for the
            default weights of timm.
        download: whether files may be downloaded from the Hugging Face Hub; if not, only its cache is searched.

    Raises:
        ConfigError: if there is no such model, it has no safetensors, or it would have to be downloaded.
        DataError: if the files of the model are damaged.
    """
    if download:  # set now, because the variable is read when the client of the Hub is imported
        os.environ.setdefault("HF_HUB_OFFLINE", "0")
    schema, _, name = model.partition(":")
    if model in BUNDLED or schema in ("local-dir", "hf-hub"):
        if pretrained is not None:
            raise ConfigError(f"pretrained must be null if the model ({model}) has its own weights, got {pretrained!r}")
        if schema == "hf-hub":
            return _files_in_folder(_repository_folder(name, download))
        return _files_in_folder(BUNDLED[model] if model in BUNDLED else Path(name).expanduser())
    if model.startswith(TIMM):
        return _timm_files(name, pretrained, download)
    if model.startswith(TORCH):
        encoder_class(name)
        return ModelFiles("torch", name, _weights(pretrained), {})
    architectures: list[str] = open_clip().list_models()
    if model not in architectures:
        # Only close matches, because there are more than a hundred architectures.
        candidates = difflib.get_close_matches(model, [*BUNDLED, *architectures]) or BUNDLED
        raise ConfigError(
            f"unknown CLIP model {model!r}: {nearest(model, candidates)}; or another of open_clip.list_models(), "
            "local-dir:FOLDER, hf-hub:OWNER/NAME"
        )
    if pretrained is None or pretrained.endswith(".safetensors"):
        weights = Path(pretrained or "").expanduser()
        if pretrained is None or not weights.is_file():
            tags = ", ".join(open_clip().list_pretrained_tags_by_model(model)) or "none"
            raise ConfigError(f"pretrained must be a safetensors file or a tag of {model} ({tags}), got {pretrained!r}")
        return ModelFiles("open_clip", model, weights, {})
    return _tagged_files(model, pretrained, download)


def _timm_files(architecture: str, pretrained: str | None, download: bool) -> ModelFiles:
    """Return the files of a timm architecture."""
    if not timm().is_model(architecture):
        matches = difflib.get_close_matches(architecture, timm().list_models()) or ["resnet18"]
        raise ConfigError(
            f"model: timm has no {architecture!r}: {nearest(architecture, matches)}; or another of timm.list_models()"
        )
    if pretrained is None:
        facts = timm().get_pretrained_cfg(architecture)
        repository = None if facts is None else facts.hf_hub_id
        if not repository:
            raise ConfigError(f"pretrained must be a safetensors file for {TIMM}{architecture}: timm offers no weights")
        pretrained = str(_repository_folder(repository, download) / "model.safetensors")
    return ModelFiles("timm", architecture, _weights(pretrained), {})


def encoder_class(name: str) -> type[nn.Module]:
    """Return the PyTorch module class with a qualified name, such as ``my_package.MyEncoder``.

    Raises:
        ConfigError: if there is no such class.
    """
    package, _, class_name = name.rpartition(".")
    try:
        result = getattr(importlib.import_module(package), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"model: {TORCH}{name} cannot be imported ({error}); is its package installed?") from error
    if not (isinstance(result, type) and issubclass(result, nn.Module) and hasattr(result, "image_size")):
        raise ConfigError(
            f"model: {TORCH}{name} must be a class of torch.nn.Module with an image_size (pixels), got {result!r}"
        )
    return result


def _weights(pretrained: str | None) -> Path:
    """Return the path of a file of weights after checking that it exists."""
    file = None if pretrained is None else Path(pretrained).expanduser()
    if file is None or not file.is_file():
        raise ConfigError(f"pretrained: there is no file {file or ''}: give one in safetensors")
    return file


def _files_in_folder(folder: Path) -> ModelFiles:
    """Return the model in a folder, after checking all files that open_clip or timm would read."""
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder} with a model")
    if (folder / TIMM_CONFIG_NAME).is_file() and not (folder / CONFIG_NAME).exists():
        return _timm_files_in_folder(folder)
    try:
        config = _read_json(folder / CONFIG_NAME)
        towers = (config["model_cfg"]["vision_cfg"], config["model_cfg"]["text_cfg"])
    except (DataError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / CONFIG_NAME} is not a configuration of open_clip with model_cfg.vision_cfg and .text_cfg "
            f"({type(error).__name__}: {error})"
        ) from error
    # The text configuration is passed to the tokenizer of transformers, which can execute code in the folder.
    if any(name == "trust_remote_code" for tower in towers for name in _keys(tower)):
        raise DataError(f"{folder / CONFIG_NAME} requires its own code (trust_remote_code), which is refused")
    # The order of preference of open_clip.
    preferred = [WEIGHTS_NAME, "open_clip_pytorch_model.safetensors", "model.safetensors"]
    weights = [folder / name for name in preferred if (folder / name).is_file()] or sorted(folder.glob("*.safetensors"))
    if not weights:
        pickles = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in folder.glob(pattern))
        raise ConfigError(
            f"{folder} has no weights in safetensors"
            + (f", only {', '.join(pickles)}: pickles can run code and are not read; convert them" if pickles else "")
        )
    _check_card(folder, CONFIG_NAME, WEIGHTS_NAME)
    return ModelFiles("open_clip", f"local-dir:{folder}", weights[0], {})


def _timm_files_in_folder(folder: Path) -> ModelFiles:
    """Return a model in timm's format: its configuration contains an architecture and the differences from it."""
    file = folder / TIMM_CONFIG_NAME
    try:
        architecture = _read_json(file)["architecture"]
    except (DataError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{file} is not a configuration of timm, with an architecture ({error!r})") from error
    if not (isinstance(architecture, str) and timm().is_model(architecture)):
        raise DataError(f"{file} names {architecture!r}, which is not an architecture of timm")
    weights = folder / TIMM_WEIGHTS_NAME
    if not weights.is_file():
        raise ConfigError(f"{folder} has no {TIMM_WEIGHTS_NAME}; pickles can run code and are not read: convert them")
    _check_card(folder, TIMM_CONFIG_NAME, TIMM_WEIGHTS_NAME)
    return ModelFiles("timm", f"local-dir:{folder}", weights, {})


def _read_json(file: Path) -> Any:
    return parse_json(read_bytes(file, JSON_BYTES), str(file), finite=False)


def _keys(node: Any) -> Iterable[str]:
    """Yield all keys of nested dictionaries and lists."""
    if isinstance(node, dict):
        yield from node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _keys(child)


def _check_card(folder: Path, *names: str) -> None:
    """Compare the files of a model trained with this package with their checksums."""
    if not (folder / CARD_NAME).exists():
        return
    try:
        sums = _read_json(folder / CARD_NAME)["sha256"]
        for name in names:
            if hashlib.sha256((folder / name).read_bytes()).hexdigest() != sums[name]:
                raise DataError(
                    f"{folder / name} is not the file that {CARD_NAME} describes: it is damaged or was changed. "
                    f"Restore it, or make the model anew ({CARD_NAME} has the command)"
                )
    except (NoJsonError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / CARD_NAME} and what it describes cannot be read ({error!r})") from error


def write_model(
    folder: Path, model: Any, weights_name: str, config_name: str, config: Mapping[str, Any], card: Mapping[str, Any]
) -> None:
    """Write a model of PyTorch in float16, its configuration, and its data card with the SHA-256 of both.

    Args:
        folder: created if it is missing.
        model: the model.
        weights_name: name of the file of weights.
        config_name: name of the file of the configuration, JSON.
        config: the configuration.
        card: facts about the model, as JSON values.

    Raises:
        OSError: if a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in model.state_dict().items()
    }
    (folder / weights_name).write_bytes(save(tensors))
    (folder / config_name).write_text(json.dumps(config, indent=2) + "\n")
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (config_name, weights_name)}
    (folder / CARD_NAME).write_text(json.dumps({**card, "sha256": sums}, indent=2) + "\n")


def _tagged_files(model: str, tag: str, download: bool) -> ModelFiles:
    """Return the weights that open_clip lists under a tag for an architecture."""
    facts: dict[str, Any] = open_clip().get_pretrained_cfg(model, tag)
    if not facts:
        tags = open_clip().list_pretrained_tags_by_model(model)
        raise ConfigError(f"pretrained: {model} has no weights {tag!r}: {nearest(tag, tags)}; or a safetensors file")
    repository, _, file = str(facts.get("hf_hub") or "").rpartition("/")
    if not repository:
        raise ConfigError(f"pretrained: the weights {tag!r} of {model} are not offered as safetensors; choose others")
    folder = _repository_folder(repository, download)
    names = [str(Path(file).with_suffix(".safetensors"))] if file else [
        "open_clip_model.safetensors", "open_clip_pytorch_model.safetensors", "model.safetensors"
    ]  # fmt: skip
    weights = [folder / name for name in names if (folder / name).is_file()]
    if not weights:
        raise ConfigError(f"pretrained: {repository} has no {' or '.join(names)}; choose weights in safetensors")
    image = {key: facts[key] for key in ("mean", "std", "interpolation", "resize_mode") if facts.get(key) is not None}
    return ModelFiles(
        "open_clip",
        model,
        weights[0],
        {"force_preprocess_cfg": image, "force_quick_gelu": bool(facts.get("quick_gelu", False))},
    )


def _repository_folder(repository: str, download: bool) -> Path:
    """Return the folder of a repository of the Hub, from the cache or the network."""
    open_clip()
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(repository, allow_patterns=list(WANTED), local_files_only=not download)
    except Exception as error:  # the network, the Hub and its client raise many kinds of errors
        advice = "" if download else "; download=true beside the model (reward.modules.clip.download=true) fetches it"
        raise ConfigError(
            f"{repository} is not at hand ({str(error).strip().partition(chr(10))[0]}){advice}. Without a network: "
            "robo-rl vision pretrain makes a small model, and local-dir:FOLDER takes one that you copied here"
        ) from error
    return Path(folder)
