"""3D mice of 3Dconnexion, through pyspacemouse and libhidapi."""

import contextlib
import importlib
import io
from typing import Any

from robo_rl.core import Clock, ConfigError, DriverError

from .motion import Buttons, Polled

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
LONGEST_QUEUE = 63
"""Reports that the kernel keeps (hidraw); it drops those that come after. A mouse sends about 100 a second."""
REST_SECONDS = 0.3
"""A mouse that is deflected says so again and again: one that has said nothing for so long is at rest."""
SEARCH_SECONDS = 1.0
"""Between two looks for a mouse that was unplugged, which take some milliseconds."""
ADVICE = "plug one in; needed are libhidapi (Debian: apt-get install libhidapi-hidraw0) and access to /dev/hidraw*"


def load_library() -> Any:
    """Return pyspacemouse.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        return importlib.import_module("pyspacemouse")
    except ImportError as error:
        raise ConfigError("a SpaceMouse needs pyspacemouse: pip install 'robo-rl[teleop]'") from error


def find_spacemice() -> list[str]:
    """Return the names of 3D mice that are plugged in.

    Raises:
        ConfigError: if pyspacemouse is not installed.
        DriverError: if libhidapi is not.
    """
    try:
        return list(load_library().get_connected_devices())
    except RuntimeError as error:
        raise DriverError("libhidapi is missing (Debian: apt-get install libhidapi-hidraw0)") from error


class SpaceMouseReader:
    """The first 3D mouse that is plugged in. x points away from the person, y to the left, z up.

    While nobody looks, as during a reset, reports of a mouse in motion fill the kernel's queue, and the last ones, that
    it was let go, are lost. Then no deflection counts before the mouse was at rest, and no button is held.

    Args:
        clock: monotonic time.

    Raises:
        ConfigError: if pyspacemouse is not installed.
        DriverError: if there is no mouse, no libhidapi, or no access to the mouse.
    """

    absence = "the SpaceMouse was unplugged: nothing moves until it is back"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buttons = Buttons()
        self._library = load_library()
        self._failure: type[Exception] = importlib.import_module("easyhid").HIDException
        self._searched_ns = self._heard_ns = clock.now_ns()
        self._mouse: Any = None
        self._stamp: float | None = None  # of the last report
        try:
            self._open()
        except RuntimeError as error:
            raise DriverError(f"no SpaceMouse ({error}): {ADVICE}") from error

    def poll(self) -> Polled:
        """See :class:`~.motion.Reader`."""
        now = self._clock.now_ns()
        if self._mouse is None and now - self._searched_ns >= SEARCH_SECONDS * 1e9:
            self._searched_ns = now
            with contextlib.suppress(RuntimeError):
                self._open()
        if self._mouse is None:
            return self._buttons.look(None)
        try:
            state, reports = self._take_in()
        except self._failure:
            self.close()
            return self._buttons.look(None)
        lost = reports == LONGEST_QUEUE
        if lost:
            state.buttons[:] = [0] * len(state.buttons)  # the library goes on with what it was told last
            self._buttons.hear(frozenset())
        if reports:
            self._heard_ns = now
        elif now - self._heard_ns >= REST_SECONDS * 1e9:
            for name in AXES:  # in the library: translation and rotation come in reports of their own
                setattr(state, name, 0.0)
        return self._buttons.look({name: float(getattr(state, name)) for name in AXES}, lost)

    def close(self) -> None:
        """Let go of the mouse."""
        if self._mouse is not None:
            self._mouse.close()
            self._mouse = None

    def _take_in(self) -> tuple[Any, int]:
        """Return the library's state of the mouse after all reports that wait, and how many these were."""
        for reports in range(LONGEST_QUEUE):
            state = self._mouse.read()
            self._buttons.hear({str(number) for number, held in enumerate(state.buttons) if held})
            if state.t == self._stamp:  # each report has a stamp of its own
                return state, reports
            self._stamp = state.t
        return state, LONGEST_QUEUE

    def _open(self) -> None:
        """Raise RuntimeError where there is no mouse."""
        with contextlib.redirect_stdout(io.StringIO()):  # the library prints what it opens
            self._mouse = self._library.open(axis_convention=self._library.AxisConvention.ROS)
