"""Images: geometry and colours against a projection computed here, and what happens without graphics."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from robo_rl import graphics
from robo_rl.core import ConfigError
from robo_rl.sim import make_backend, rendering
from robo_rl.sim.config import ObservationConfig


def run_python(code: str, **environment: str) -> str:
    kept = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "DISPLAY")}
    return subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.rendering
def test_the_cube_is_seen_where_it_is():
    """The pixel at the cube's projection is red, and only there: not mirrored, not upside down."""
    width, height = 160, 120
    view = ObservationConfig(cameras=("front",), width=width, height=height)
    backend = make_backend("pick_cube", observation=view, area_size=0.3)
    for seed in range(4):
        image = backend.reset(seed).observation["images/front"].astype(int)
        camera = backend.data.camera("front")
        away = camera.xmat.reshape(3, 3).T @ (backend.data.body("cube").xpos - camera.xpos)
        focal = height / 2 / np.tan(np.radians(backend.model.camera("front").fovy[0]) / 2)
        column = width / 2 + focal * away[0] / -away[2]
        row = height / 2 - focal * away[1] / -away[2]
        red = (image[..., 0] > 90) & (image[..., 1] < 60) & (image[..., 2] < 60)
        rows, columns = np.nonzero(red)
        assert red.sum() > 20
        assert abs(rows.mean() - row) < 5
        assert abs(columns.mean() - column) < 5
    backend.close()


@pytest.mark.rendering
def test_two_backends_render_in_turn():
    small = ObservationConfig(picture_width=64, picture_height=48)
    first, second = make_backend("reach", observation=small), make_backend("pick_cube", observation=small)
    first.reset(0)
    second.reset(0)
    picture, other = first.render(), second.render()
    np.testing.assert_array_equal(first.render(), picture)
    np.testing.assert_array_equal(second.render(), other)
    first.close()
    np.testing.assert_array_equal(second.render(), other)
    second.close()


@pytest.mark.rendering
def test_rendering_works_where_mujoco_was_imported_first():
    code = """
import mujoco
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig
backend = make_backend("reach", observation=ObservationConfig(picture_width=64, picture_height=48))
backend.reset(0)
print(backend.render().shape)
"""
    assert run_python(code) == "(48, 64, 3)"


def test_states_need_no_graphics_and_pictures_say_what_is_missing():
    code = """
from robo_rl.sim import make_backend
from robo_rl.core import RenderingError
backend = make_backend("reach")
backend.reset(0)
backend.step(backend.expert(0).act({}))
try:
    backend.render()
except RenderingError as error:
    print(error)
"""
    message = run_python(code, MUJOCO_GL="off")
    assert message == (
        "no image can be rendered (MUJOCO_GL=off): there is no graphics library. On Debian or Ubuntu install libegl1 "
        "libegl-mesa0 libgl1-mesa-dri libopengl0 and set MUJOCO_GL=egl, or install libosmesa6 and set MUJOCO_GL=osmesa"
    )


@pytest.mark.parametrize("room", ["reset", "safety", "sim", "app"])
def test_every_room_can_be_imported_where_the_graphics_library_is_missing(room):
    if all(map(graphics._loads, graphics.LIBRARIES["osmesa"])):
        pytest.skip("it is there")
    code = f"import os, robo_rl.{room}, mujoco; print(os.environ['MUJOCO_GL'])"
    assert run_python(code, MUJOCO_GL="osmesa") == "off"


@pytest.mark.parametrize(
    ("environment", "present", "chosen"),
    [
        ({}, {"egl", "osmesa"}, "egl"),
        ({}, {"osmesa"}, "osmesa"),
        ({}, set(), "off"),
        ({"MUJOCO_GL": "egl"}, {"osmesa"}, "off"),
        ({"MUJOCO_GL": "osmesa"}, {"egl", "osmesa"}, "osmesa"),
        ({"MUJOCO_GL": "glfw"}, set(), "glfw"),
        ({"DISPLAY": ":0"}, {"egl"}, None),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="there is no choice elsewhere")
def test_choice_of_graphics(monkeypatch, environment, present, chosen):
    for key in ("MUJOCO_GL", "DISPLAY"):
        monkeypatch.delenv(key, raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    available = {library for name in present for library in graphics.LIBRARIES[name]}
    monkeypatch.setattr(graphics, "_loads", lambda library: library in available)
    graphics.choose_graphics()
    assert os.environ.get("MUJOCO_GL") == chosen
    monkeypatch.delenv("MUJOCO_GL", raising=False)


def test_unknown_cameras_are_refused_by_name():
    with pytest.raises(ConfigError, match="there is no camera 'frnt'; did you mean 'front'"):
        make_backend("reach", observation=ObservationConfig(cameras=("frnt",)))
    with pytest.raises(ConfigError, match="there is no camera 'veiw'; did you mean 'view'"):
        make_backend("reach").render("veiw")


@pytest.mark.rendering
def test_frames_are_stacked_and_begin_anew_with_each_episode():
    views = [ObservationConfig(cameras=("front",), width=32, height=24, frame_stack=frames) for frames in (1, 3)]
    single, stacked = (make_backend("reach", observation=view) for view in views)
    action = np.full(single.spec.action.shape, 0.7, np.float32)
    for seed in (0, 1):
        frames = [single.reset(seed).observation["images/front"]] * 3
        step = stacked.reset(seed)
        for _ in range(4):
            image = step.observation["images/front"]
            stacked.spec.check_observation(step.observation)
            np.testing.assert_array_equal(image, np.concatenate(frames[-3:], axis=2))
            frames.append(single.step(action).observation["images/front"])
            step = stacked.step(action)
    single.close()
    stacked.close()


@pytest.mark.rendering
def test_a_graphics_device_that_does_not_exist_ends_in_one_error_without_tracebacks():
    code = "from robo_rl.sim import make_backend; from robo_rl.core import RenderingError\n"
    code += "backend = make_backend('reach'); backend.reset(0)\n"
    code += "try: backend.render()\nexcept RenderingError as error: print(error)"
    environment = os.environ | {"MUJOCO_GL": "egl", "MUJOCO_EGL_DEVICE_ID": "77"}
    process = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert process.stderr == ""
    assert "no image can be rendered (MUJOCO_GL=egl): " in process.stdout and "install libegl1" in process.stdout
    assert ".." not in process.stdout


@pytest.mark.rendering
def test_a_process_that_closes_nothing_ends_quietly():
    """Also where another library made a finalizer before the graphics library was loaded."""
    code = (
        "import weakref; from robo_rl.sim import make_backend\n"
        "class Other: pass\n"
        "other = Other(); weakref.finalize(other, print, end='')\n"
        "backend = make_backend('reach'); print(backend.render().shape)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "DISPLAY"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.rendering
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("alive", [False, True])
def test_a_renderer_that_is_forgotten_in_one_thread_is_freed_in_another(alive):
    small = ObservationConfig(picture_width=64, picture_height=48)
    backend = make_backend("reach", observation=small)
    backend.reset(0)
    picture = backend.render()
    forgotten = [make_backend("reach", observation=small)]
    rendered, end = threading.Event(), threading.Event()

    def render() -> None:
        forgotten[0].reset(0)
        np.testing.assert_array_equal(forgotten[0].render(), picture)
        rendered.set()
        end.wait()

    thread = threading.Thread(target=render)
    thread.start()
    assert rendered.wait(60)
    if not alive:
        end.set()
        thread.join()
    forgotten.clear()
    gc.collect()
    assert len(rendering._collected) == 1
    np.testing.assert_array_equal(backend.render(), picture)
    assert rendering._collected == []
    end.set()
    thread.join()
    backend.close()


@pytest.mark.parametrize("value", ["egll", "EGL2", "mesa", " os mesa "])
@pytest.mark.skipif(sys.platform != "linux", reason="there is no choice elsewhere")
def test_a_graphics_library_that_is_none_is_named_and_ignored(monkeypatch, value):
    monkeypatch.setenv("MUJOCO_GL", value)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(graphics, "_loads", lambda library: True)
    with pytest.warns(RuntimeWarning, match="is no graphics library: expected egl, osmesa, glfw or off"):
        graphics.choose_graphics()
    assert os.environ["MUJOCO_GL"] == "egl"


FORKED = """
import multiprocessing, os, sys, time
import gymnasium, mujoco
from robo_rl.core import RenderingError
from robo_rl.sim import make_backend
from robo_rl.sim.config import ObservationConfig
from robo_rl.sim.gymnasium_backend import GymnasiumBackend
from robo_rl.sim.gymnasium_options import GymnasiumConfig

gymnasium.register("test/Hopper-v0", "gymnasium.envs.mujoco.hopper_v5:HopperEnv", kwargs={"width": 64, "height": 48})

def arm():
    return make_backend("reach", observation=ObservationConfig(picture_width=64, picture_height=48))

def hopper():
    return GymnasiumBackend(GymnasiumConfig(env_id="test/Hopper-v0"))

class Own:
    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    def reset(self, seed):
        self.renderer = mujoco.Renderer(self.model, 48, 64)
    def render(self):
        self.renderer.update_scene(mujoco.MjData(self.model))
        return self.renderer.render()

def begun(make):
    backend = make()
    backend.reset(0)
    return backend

def same():
    backend.render()

def close():
    globals().pop("backend").close()

def new(make=None):
    begun(make or arm).render()

backend = begun({"arm": arm, "hopper": hopper, "own": Own}[sys.argv[1]])
backend.render()
for name in sys.argv[2].split(","):
    child = os.fork()
    if child == 0:
        try:
            {"same": same, "close": close, "arm": new, "hopper": lambda: new(hopper), "end": lambda: None}[name]()
        except RenderingError as error:
            print(error, flush=True)
        else:
            print("done", flush=True)
        sys.exit()  # which frees all that is left
    for _ in range(600):
        if os.waitpid(child, os.WNOHANG)[0]:
            break
        time.sleep(0.1)
    else:
        print("hangs", flush=True)
        os.kill(child, 9)
backend.render()
print("goes on", flush=True)
"""


@pytest.mark.rendering
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(
    ("parent", "children"),
    [("arm", "same,arm,hopper,close,end"), ("hopper", "same,arm,hopper,close,end"), ("own", "arm,hopper,end")],
)
def test_a_fork_after_rendering_gets_a_clear_error(parent, children):
    """Whoever drew first: robo-rl, an environment of Gymnasium, or code of one's own."""
    words = [sys.executable, "-c", FORKED, parent, children]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    *lines, last = done.stdout.splitlines()
    assert last == "goes on" and len(lines) == len(children.split(",")), (done.stdout, done.stderr)
    for name, line in zip(children.split(","), lines, strict=True):
        if name in ("close", "end"):
            assert line == "done"
        else:
            assert "was forked from it: graphics do not outlive a fork" in line and "spawn" in line
