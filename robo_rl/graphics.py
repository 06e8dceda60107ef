"""Choice of the graphics library for headless rendering, before MuJoCo is imported: it reads ``MUJOCO_GL`` then.

MuJoCo cannot even be imported when ``MUJOCO_GL`` names a library that is not there. Then ``off`` is chosen: everything
works but images, and :class:`~robo_rl.core.RenderingError` says what to install.
"""

import ctypes
import os
import sys
import warnings

LIBRARIES = {"egl": ("libEGL.so.1", "libOpenGL.so.0"), "osmesa": ("libOSMesa.so.8",)}
"""Shared libraries by value of ``MUJOCO_GL``, the preferred one first."""
OTHERS = frozenset(("glfw", "on", "enable", "enabled", "true", "1", "off", "disable", "disabled", "false", "0"))
"""Further values that MuJoCo takes. It cannot be imported with any other."""


def choose_graphics() -> None:
    """Set ``MUJOCO_GL`` on Linux: to what works without a display if there is none, to ``off`` if nothing does."""
    wanted = os.environ.get("MUJOCO_GL", "").lower().strip()
    if sys.platform == "linux" and wanted and wanted not in LIBRARIES and wanted not in OTHERS:
        given = os.environ.pop("MUJOCO_GL")
        message = f"MUJOCO_GL={given!r} is no graphics library: expected egl, osmesa, glfw or off. It is ignored"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        wanted = ""
    if sys.platform != "linux" or (wanted and wanted not in LIBRARIES) or (not wanted and "DISPLAY" in os.environ):
        return
    for name in [wanted] if wanted else LIBRARIES:
        if all(_loads(library) for library in LIBRARIES[name]):
            os.environ["MUJOCO_GL"] = name
            return
    os.environ["MUJOCO_GL"] = "off"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
