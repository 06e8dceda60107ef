"""Stand-in policies: chunks of actions with noise, a history of observations, and misbehaviour by type."""

import os
import sys
import time
from collections import deque

import torch

from .. import __version__
from ..processor import Pipeline


class StandIn:
    """Decides n_action_steps actions: tanh of the state, of the oldest one in its history, and noise."""

    def __init__(self, config):
        self.config = config
        self.reset()

    @classmethod
    def from_pretrained(cls, folder, *, config, strict):
        assert strict and getattr(config, "pretrained_backbone_weights", None) is None
        assert os.environ["HF_MODULES_CACHE"] == os.devnull, "transformers could import code of a folder"
        return cls(config)

    def eval(self):
        return self

    def reset(self):
        self._queues = {"observation.state": deque(maxlen=2), "action": deque()}

    def select_action(self, batch):
        state, kind = batch["observation.state"], self.config.type
        states, actions = self._queues["observation.state"], self._queues["action"]
        states.append(state)
        size = self.config.output_features["action"]["shape"][0]
        if kind == "crash":
            raise ValueError("the weights are strange")
        if kind == "talkative":
            line = "x" * 999 + "\n"
            for _ in range(100_000):
                sys.stderr.write(line)
            raise ValueError("the weights are strange")
        if kind == "exit":
            sys.exit("out of memory")
        if kind == "silent":
            time.sleep(60)
        if kind == "shape":
            return torch.zeros(1, size + 1)
        if kind == "nan":
            return torch.full((1, size), torch.nan)
        for name in self.config.input_features:
            if name.startswith("observation.images."):
                assert batch[name].shape[:2] == (1, 3) and batch[name].max() <= 1, batch[name].shape
        if not actions:
            noise = 0.1 * torch.randn(1, size) if kind == "noise" else 0
            first = 2 * torch.tanh(state[:, :size] + states[0][:, :size] + noise)
            actions.extend(first / (1 + step) for step in range(self.config.n_action_steps))
        return actions.popleft()


def get_policy_class(name):
    return StandIn


if __version__ >= "0.4":

    def make_pre_post_processors(policy_cfg, pretrained_path, preprocessor_overrides):
        overrides = {"preprocessor": preprocessor_overrides, "postprocessor": {}}
        return tuple(Pipeline(f"{pretrained_path}/policy_{name}.json", each) for name, each in overrides.items())
