"""Processors of a stand-in policy: they multiply the state, or the action."""

import json
from pathlib import Path


class ProcessorStepRegistry:
    """Names of the steps that there are."""

    @staticmethod
    def list():
        return ["scale", "device_processor", "rename_observations_processor"]


class Pipeline:
    """Steps that a file lists."""

    def __init__(self, file, overrides):
        self.steps = json.loads(Path(file).read_text())["steps"]
        for step in self.steps:
            step["config"] |= overrides.get(step["registry_name"], {})
        self.resets = 0

    def reset(self):
        self.resets += 1

    def __call__(self, value):
        assert self.resets, "an episode begins with a reset"
        for step in self.steps:
            config = step["config"]
            if step["registry_name"] == "device_processor":
                assert config["device"] == "cpu"
            elif step["registry_name"] == "rename_observations_processor":
                value = {config["rename_map"].get(name, name): each for name, each in value.items()}
            elif isinstance(value, dict):
                value = value | {"observation.state": value["observation.state"] * config["factor"]}
            else:
                value = value * config["factor"]
        return value
