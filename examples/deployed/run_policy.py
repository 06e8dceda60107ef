"""Runner of a policy that robo-rl deploy wrote, with ONNX Runtime and NumPy alone: python run_policy.py policy.onnx"""

import json
import sys
import time

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
policy = json.loads(session.get_modelmeta().custom_metadata_map["robo_rl.policy"])
rng, due = np.random.default_rng(), time.monotonic()


def observe() -> dict[str, np.ndarray]:
    """Return the observation by key; replace this by measurements, in the order of ``names``."""
    return {key: np.zeros(array["shape"], array["dtype"]) for key, array in policy["observation"].items()}


def execute(action: np.ndarray) -> None:
    """Send an action in [-1, 1] to the robot; physical value = scale * action + offset."""
    values = np.array(policy["action"]["scale"]) * action + np.array(policy["action"]["offset"])
    print(dict(zip(policy["action"]["names"], values.round(4).tolist(), strict=True)))


for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 5):
    inputs = observe()
    if policy["noise"]["size"]:  # a policy that samples
        inputs["noise"] = rng.standard_normal(policy["noise"]["size"], np.float32)
    for action in session.run(["action"], inputs)[0]:  # a chunk: several actions from one observation
        execute(action)
        due += 1 / policy["control_rate"]
        time.sleep(max(0.0, due - time.monotonic()))
