"""Physics steps and images a second: our simulators beside bare MuJoCo, measured in turns.

    python benchmarks/bench_simulation.py [--tasks pick_cube] [--threads 1 2] [--json FILE]

Rows: ``mj_step``: MuJoCo alone, in its own threads (mujoco.rollout), nothing observed; ``native``: backends stepped
with random actions in as many Python threads, the control period in C++, observation, reward and success included;
``Python``: the same with the controller's ticks in Python. Shares are medians over rounds of the rate over that of
``mj_step`` in the same round.

Images are those of the task's first two cameras, in turns: by our renderer (no shadows, no multisampling, one context
for each size) and by ``mujoco.Renderer``, one for each camera, with MuJoCo's settings.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from table_runs import make_parser, write_json

import robo_rl  # noqa: F401  # chooses the graphics library, which MuJoCo reads when it is imported

# isort: split
import mujoco
import mujoco.rollout
import numpy as np

from robo_rl.sim import ArmBackend, make_backend, native
from robo_rl.sim.rendering import SceneRenderer
from robo_rl.sim.tasks import TASKS

SIZES = (64, 128)
"""Of images [pixels]."""
IMAGES = 5
"""In a round, of each of two cameras."""
PERIODS = 40
"""Control periods of each backend in a round."""


def main() -> None:
    parser = make_parser(__doc__, "--json")
    parser.add_argument("--tasks", nargs="+", choices=sorted(TASKS), default=["pick_cube", "cable_route"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    available, why = native.available()
    print(f"native: {why}")
    print(f"{'task':14} {'threads':>7} {'row':>8} {'steps/s':>10} {'share of mj_step':>17}")
    rows = []
    for task in options.tasks:
        for threads in options.threads:
            rows += measure(task, threads, options.rounds, available)
    print(f"{'task':14} {'pixels':>7} {'row':>16} {'images/s':>10}")
    images = [row for task in options.tasks for size in SIZES for row in measure_images(task, size, options.rounds)]
    write_json(options.json, {"mujoco": mujoco.__version__, "rows": rows, "images": images})


def measure(task: str, threads: int, rounds: int, available: bool) -> list[dict]:
    """Return one row for each way, with rates in physics steps a second of all threads together."""
    ways = {"native": [make_backend(task) for _ in range(threads)]} if available else {}
    ways["Python"] = [make_backend(task) for _ in range(threads)]
    for backend in ways["Python"]:
        backend.simulation.servo = None
    rates: dict[str, list[float]] = {name: [] for name in ("mj_step", *ways)}
    with ThreadPoolExecutor(threads) as pool, mujoco.rollout.Rollout(nthread=threads) as rollout:
        bare = ways["Python"]
        for seed in range(rounds):
            for backends in ways.values():
                for number, backend in enumerate(backends):
                    backend.reset(threads * seed + number)
            rates["mj_step"].append(bare_rate(rollout, bare))
            for name, backends in ways.items():
                began = time.perf_counter()
                steps = sum(pool.map(lambda backend, seed=seed: play(backend, seed), backends))
                rates[name].append(steps / (time.perf_counter() - began))
    rows = []
    for name, measured in rates.items():
        share = median(rate / bare for rate, bare in zip(measured, rates["mj_step"], strict=True))
        rows.append({"task": task, "threads": threads, "row": name, "rate": median(measured), "share": share})
        print(f"{task:14} {threads:7} {name:>8} {median(measured):10,.0f} {share:17.0%}", flush=True)
    return rows


def measure_images(task: str, size: int, rounds: int) -> list[dict]:
    """Return the median rate of images of ``size`` by ``size`` pixels of each renderer."""
    backend = make_backend(task)
    backend.reset(0)
    model, data, cameras = backend.model, backend.data, TASKS[task].cameras[:2]
    scene, references = SceneRenderer(model, size, size), {name: mujoco.Renderer(model, size, size) for name in cameras}

    def bare(camera: str) -> None:
        references[camera].update_scene(data, camera)
        references[camera].render()

    ways = {"ours": lambda camera: scene.render(data, camera), "mujoco.Renderer": bare}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, draw in ways.items():
            for camera in cameras:  # the first picture opens a context
                draw(camera)
            began = time.perf_counter()
            for _ in range(IMAGES):
                for camera in cameras:
                    draw(camera)
            rates[name].append(IMAGES * len(cameras) / (time.perf_counter() - began))
    for renderer in (scene, *references.values()):
        renderer.close()
    backend.close()
    for name, measured in rates.items():
        print(f"{task:14} {size:7} {name:>16} {median(measured):10,.0f}", flush=True)
    return [{"task": task, "pixels": size, "row": name, "rate": median(rates[name])} for name in ways]


def bare_rate(rollout: mujoco.rollout.Rollout, backends: list[ArmBackend]) -> float:
    """Return the rate of MuJoCo alone from the backends' states: the arm is held by its last torques."""
    model = backends[0].model
    full = mujoco.mjtState.mjSTATE_FULLPHYSICS
    states = np.empty((len(backends), mujoco.mj_stateSize(model, full)))
    for state, backend in zip(states, backends, strict=True):
        mujoco.mj_getState(backend.model, backend.data, state, full)
    steps = PERIODS * backends[0].config.ticks
    controls = np.stack([np.tile(backend.data.ctrl, (steps, 1)) for backend in backends])
    data = [backend.data for backend in backends]
    began = time.perf_counter()
    rollout.rollout([backend.model for backend in backends], data, states, controls)
    rate = len(backends) * steps / (time.perf_counter() - began)
    for number, backend in enumerate(backends):
        backend.reset(number)
    return rate


def play(backend: ArmBackend, seed: int) -> int:
    """Step with random actions; return the number of physics steps."""
    rng = np.random.default_rng(seed)
    ended = False
    for period in range(PERIODS):
        if ended:
            backend.reset(1000 * seed + period)
        ended = backend.step(rng.uniform(-1, 1, backend.spec.action.shape).astype(np.float32)).ended
    return PERIODS * backend.config.ticks


if __name__ == "__main__":
    main()
