"""Headless rendering.

A graphics context is created for the first image, so that work on states alone needs no graphics.
"""

import atexit
import functools
import os
import sys
import weakref
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robo_rl.core import ConfigError, RenderingError, nearest

PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0"

MAX_GEOMS = 2000


class SceneRenderer:
    """Renderer of images of one model at one size.

    It is not thread-safe. Close it when done; contexts of garbage-collected renderers are released when another one
    renders. It raises an error in a process that was forked after rendering, because graphics libraries hang there.

    Args:
        model: model to render.
        width: width of images [pixels].
        height: height of images [pixels].
        beautiful: whether to render shadows and smooth edges, for people. In software these take ten times as long as
            the rest.
    """

    def __init__(self, model: mujoco.MjModel, width: int, height: int, *, beautiful: bool = False) -> None:
        self._model = model
        self._shape = (height, width, 3)
        self._beautiful = beautiful
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        self._option = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._scene: Any = None
        self._window: Any = None
        self._context: Any = None

    def render(self, data: mujoco.MjData, camera: str) -> NDArray[np.uint8]:
        """Return the view (height, width, 3) of the camera named ``camera``.

        Raises:
            RenderingError: if no graphics context can be created on this machine, or this process was forked after
                rendering.
        """
        begin_drawing()
        _free_collected()
        if self._context is None:
            self._open()
        self._camera.fixedcamid = self._model.camera(camera).id
        mujoco.mjv_updateScene(
            self._model, data, self._option, None, self._camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
        )
        self._window.make_current()
        mujoco.mjr_render(self._viewport, self._scene, self._context)
        upside_down = np.empty(self._shape, dtype=np.uint8)
        mujoco.mjr_readPixels(upside_down, None, self._viewport, self._context)
        _leave(self._window)
        return np.ascontiguousarray(upside_down[::-1])

    def close(self) -> None:
        """Release the context. May be called twice."""
        if self._context is not None:
            self._finalizer.detach()
            if _process == os.getpid():
                _free(self._context, self._window)
            else:
                _inherited.append((self._context, self._window))
            self._context = self._window = self._scene = None

    def _open(self) -> None:
        model, (height, width, _) = self._model, self._shape
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        model.vis.quality.offsamples = 4 if self._beautiful else 0
        model.vis.quality.shadowsize = 2048 if self._beautiful else 0
        try:
            window = _window_class()(width, height)
            window.make_current()
            context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
        except Exception as error:
            choice, reason = os.environ.get("MUJOCO_GL", ""), str(error).rstrip(".")
            raise RenderingError(
                f"no image can be rendered (MUJOCO_GL={choice}): {reason}. On Debian or Ubuntu "
                f"install {PACKAGES} and set MUJOCO_GL=egl, or install libosmesa6 and set MUJOCO_GL=osmesa"
            ) from error
        scene = mujoco.MjvScene(model, MAX_GEOMS)
        scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = int(self._beautiful)
        scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._scene, self._window, self._context = scene, window, context
        self._finalizer = weakref.finalize(self, _collected.append, (context, window))
        _opened.add(self)
        _close_at_exit()


def begin_drawing() -> None:
    """Record that this process uses MuJoCo's graphics. Call this before anything is rendered.

    Raises:
        RenderingError: if this process was forked from one that had rendered, because graphics hang there.
    """
    global _process
    if _process not in (None, os.getpid()):
        raise RenderingError(
            f"images were rendered in process {_process}, and this one ({os.getpid()}) was forked from it: graphics do "
            "not outlive a fork. Start processes by the method spawn, as multiprocessing.get_context('spawn') does, or "
            "render nothing before the fork"
        )
    _process = os.getpid()


def check_cameras(model: mujoco.MjModel, cameras: tuple[str, ...]) -> None:
    """Raise :class:`ConfigError` unless the model has every camera."""
    names = [model.camera(index).name for index in range(model.ncam)]
    for camera in cameras:
        if camera not in names:
            raise ConfigError(f"observation.cameras: there is no camera {camera!r}; {nearest(camera, names)}")


def _window_class() -> Any:
    """Return the class of offscreen windows for ``MUJOCO_GL``, even if MuJoCo was imported before it was set."""
    choice = os.environ.get("MUJOCO_GL", "")
    if sys.platform == "linux" and choice == "egl":
        from mujoco.egl import GLContext
    elif sys.platform == "linux" and choice == "osmesa":
        from mujoco.osmesa import GLContext
    elif hasattr(mujoco, "GLContext"):
        GLContext = mujoco.GLContext  # noqa: N806
    else:
        raise RuntimeError("there is no graphics library")
    # The destructor of a window that could not be opened would print a traceback, because it has no context.
    GLContext._context = getattr(GLContext, "_context", None)
    return GLContext


_process: int | None = None
"""Id of the process in which graphics were used first; None if they have not been used."""
_inherited: list[tuple[Any, Any]] = []
"""Contexts and windows of the parent of this forked process. They are not released, because that may hang."""


def _after_fork() -> None:
    """Record in a fork whether its parent has rendered, by any code, and leave the parent's graphics alone."""
    global _process
    egl = sys.modules.get("mujoco.egl")
    if egl is not None and egl.EGL_DISPLAY is not None:  # created for the first window of the process
        _process = os.getppid() if _process is None else _process
        atexit.unregister(egl.EGL.eglTerminate)  # it would hang


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_opened: weakref.WeakSet[SceneRenderer] = weakref.WeakSet()
_collected: list[tuple[Any, Any]] = []
"""Contexts and windows of garbage-collected renderers. Collection happens in any thread at any time, even while another
renderer renders, so they are released later."""


def _leave(window: Any) -> None:
    """Release the window's context from this thread: until then EGL gives it to no other, even after this one ends."""
    if type(window).__module__ == "mujoco.egl":
        from mujoco import egl

        surface = egl.EGL.EGL_NO_SURFACE
        egl.EGL.eglMakeCurrent(egl.EGL_DISPLAY, surface, surface, egl.EGL.EGL_NO_CONTEXT)


def _free(context: Any, window: Any) -> None:
    window.make_current()
    context.free()
    window.free()


def _free_collected() -> None:
    if _process != os.getpid():
        _inherited.extend(_collected)
        _collected.clear()
    while _collected:
        _free(*_collected.pop())


@functools.cache
def _close_at_exit() -> None:
    """Release all contexts at exit, before the graphics library ends, which registered when it was loaded."""
    atexit.register(_close_all)


def _close_all() -> None:
    for renderer in list(_opened):
        renderer.close()
    _free_collected()
