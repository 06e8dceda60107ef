"""Small ACT and diffusion policies trained by LeRobot's own code, and their actions: for the tests of the adapter.

Run with the interpreter of LeRobot's environment (lerobot 0.3 to 0.6):

    python benchmarks/lerobot_policies.py train DATA FOLDER [--steps=800]
    python benchmarks/lerobot_policies.py act POLICY ROWS.npz --length=20

``train`` runs LeRobot's training on a LeRobotDataset that ``robo-rl export`` wrote (v2.1 for lerobot 0.3, v3.0 for
newer ones), and writes the training folders FOLDER/act and FOLDER/diffusion. ``act`` gives each observation in
ROWS.npz, (n, ...) by robo-rl's key, in episodes of ``length`` with the seeds 0, 1, ..., to ``select_action``, between
the processors of the policy if the version has them, and writes ROWS.actions.npy (n, A).
"""

import argparse
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
COMMON = ["--policy.device=cpu", "--policy.push_to_hub=false", "--wandb.enable=false", "--num_workers=0"]
COMMON += ["--batch_size=32", "--policy.optimizer_lr=1e-3"]
POLICIES = {
    "act": "chunk_size=10 n_action_steps=5 dim_model=64 n_heads=4 dim_feedforward=128 n_encoder_layers=2 use_vae=false",
    "diffusion": "horizon=8 n_action_steps=4 drop_n_last_frames=2 down_dims=[32,64] diffusion_step_embed_dim=32 "
    "noise_scheduler_type=DDIM num_inference_steps=10",
}
NAMES = {"state": "observation.state", "object": "observation.environment_state"}


def train(data: Path, folder: Path, steps: int) -> None:
    """Train one policy of each type on a data set."""
    renamed = importlib.util.find_spec("lerobot.scripts.lerobot_train")  # since 0.4
    script = "lerobot.scripts.train" if renamed is None else "lerobot.scripts.lerobot_train"
    for name, options in POLICIES.items():
        command = [sys.executable, "-m", script, "--dataset.repo_id=local/data"]
        command += [
            f"--dataset.root={data}",
            f"--policy.type={name}",
            *(f"--policy.{each}" for each in options.split()),
        ]
        command += [*COMMON, f"--steps={steps}", f"--save_freq={steps}", f"--output_dir={folder / name}"]
        subprocess.run(command, check=True, env={**os.environ, **OFFLINE})


def act(folder: Path, file: Path, length: int) -> None:
    """Write the actions of a policy on the observations in a file."""
    os.environ.update(OFFLINE)
    import torch
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies import factory  # which also registers the configurations of all types

    config = PreTrainedConfig.from_pretrained(folder)
    policy = factory.get_policy_class(config.type).from_pretrained(folder, config=config)
    preprocessor = postprocessor = lambda value: value
    if hasattr(factory, "make_pre_post_processors"):  # since 0.4
        preprocessor, postprocessor = factory.make_pre_post_processors(config, pretrained_path=str(folder))
    rows = np.load(file)
    actions = []
    for number in range(len(rows["state"])):
        if number % length == 0:
            policy.reset()
            torch.manual_seed(number // length)
        batch = {name: torch.from_numpy(rows[key][number : number + 1]) for key, name in NAMES.items()}
        with torch.inference_mode():
            actions.append(postprocessor(policy.select_action(preprocessor(batch)))[0].numpy())
    np.save(file.with_suffix(".actions.npy"), np.stack(actions))


def main() -> None:
    """Run a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("data", type=Path)
    training.add_argument("folder", type=Path)
    training.add_argument("--steps", type=int, default=800)
    acting = commands.add_parser("act")
    acting.add_argument("policy", type=Path)
    acting.add_argument("rows", type=Path)
    acting.add_argument("--length", type=int, required=True)
    words = parser.parse_args()
    if words.command == "train":
        train(words.data, words.folder, words.steps)
    else:
        act(words.policy, words.rows, words.length)


if __name__ == "__main__":
    main()
