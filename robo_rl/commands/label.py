"""robo-rl label: labels by a person for the frames of recorded episodes, and a classifier that learns them."""

from pathlib import Path
from typing import cast

import numpy as np
from omegaconf import DictConfig

from ..app import build
from ..command_line.destination import new_output
from ..core import DataError, require, typed
from ..recording.labelling import ClassifierConfig, LabelConfig, format_counts, print_errors, show_episodes
from ..replay import EpisodeStore, LabelBook
from ..telemetry import Console


def run(config: DictConfig) -> int:
    """Label and learn as configured in configs/label.yaml, and print the errors of the classifier; return 0.

    Raises:
        DataError: if no episode is labelled at the end.
    """
    settings = typed(LabelConfig, config, "label")
    learning = cast(ClassifierConfig, build(config.classifier))
    require(learning.file is None, "classifier.file", "null: label.output sets the file to write", learning.file)
    output = None if settings.output is None else new_output("label.output", settings.output, "file")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with EpisodeStore.open(Path(settings.path)) as store:
        book = LabelBook(store, learning.stages)
        if settings.device is not None:
            show_episodes(store, book, learning.stages, settings, config)
        console.print(f"{settings.path}: {len(book.numbers)} of {len(store)} episodes are labelled")
        if not book.numbers:
            raise DataError(
                "nothing to learn from: an episode is labelled once a person at its last frame lets go and moves "
                "forward (with the device in label.device)"
            )
        labels = [book[number][1:] for number in book.numbers]
        console.print(f"after their steps: {format_counts(np.concatenate(labels), learning.stages)}")
        if output is None:
            return 0
        classifier = learning.make("classifier", store.spec, config.seed)
        read_keys = {key for key in store.spec.observation if not key.startswith("images/")} | {*(learning.keys or ())}
        episodes = [store.arrays(number, read_keys).rows() for number in book.numbers]
    errors = classifier.learn(episodes, labels)
    classifier.save(output, {"data_set": settings.path, "seed": config.seed, "errors": errors})
    print_errors(errors, learning.stages, console)
    console.print(f"use it: reward=stages reward.modules.stages.file={output}", markup=False)
    return 0
