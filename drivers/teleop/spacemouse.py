"""3D mice of 3Dconnexion, read with pyspacemouse and libhidapi."""

import contextlib
import importlib
import io
from typing import Any

from robo_rl.core import Clock, DriverError, importing_extra

from .motion import Buttons, Polled

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
LONGEST_QUEUE = 63
"""Number of reports that the kernel queues (hidraw); it drops later ones. A mouse sends about 100 per second."""
REST_SECONDS = 0.3
"""Time without reports after which a mouse is at rest [s]; a deflected mouse keeps sending reports."""
SEARCH_SECONDS = 1.0
"""Time between two searches for an unplugged mouse [s]; a search takes some milliseconds."""
ADVICE = "plug one in; needed are libhidapi (Debian: apt-get install libhidapi-hidraw0) and access to /dev/hidraw*"


def load_library() -> Any:
    """Return pyspacemouse.

    Raises:
        ConfigError: if it is not installed.
    """
    with importing_extra("teleop", "a SpaceMouse needs pyspacemouse"):
        library = importlib.import_module("pyspacemouse")
    return library


def find_spacemice() -> list[str]:
    """Return the names of the connected 3D mice.

    Raises:
        ConfigError: if pyspacemouse is not installed.
        DriverError: if libhidapi is not installed.
    """
    try:
        return list(load_library().get_connected_devices())
    except RuntimeError as error:
        raise DriverError("libhidapi is missing (Debian: apt-get install libhidapi-hidraw0)") from error


class SpaceMouseReader:
    """Reader of the first connected 3D mouse. x points away from the person, y to the left, z up.

    Without polling, as during a reset, the reports of a moving mouse fill the kernel's queue. The last reports, which
    say that the mouse was released, are then lost. In that case no deflection counts until the mouse has been at rest,
    and no button is held.

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
        self._searched_ns = self._report_ns = clock.now_ns()
        self._mouse: Any = None
        self._stamp: float | None = None  # stamp of the last report
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
            state, reports = self._read_reports()
        except self._failure:
            self.close()
            return self._buttons.look(None)
        lost = reports == LONGEST_QUEUE
        if lost:
            state.buttons[:] = [0] * len(state.buttons)  # the library keeps its last state
            self._buttons.update(frozenset())
        if reports:
            self._report_ns = now
        elif now - self._report_ns >= REST_SECONDS * 1e9:
            # the library does not reset these, because translation and rotation arrive in separate reports
            for name in AXES:
                setattr(state, name, 0.0)
        return self._buttons.look({name: float(getattr(state, name)) for name in AXES}, lost)

    def close(self) -> None:
        """Release the mouse."""
        if self._mouse is not None:
            self._mouse.close()
            self._mouse = None

    def _read_reports(self) -> tuple[Any, int]:
        """Read all queued reports; return the library's state of the mouse, and the number of reports."""
        for reports in range(LONGEST_QUEUE):
            state = self._mouse.read()
            self._buttons.update({str(number) for number, held in enumerate(state.buttons) if held})
            if state.t == self._stamp:  # each report has its own stamp
                return state, reports
            self._stamp = state.t
        return state, LONGEST_QUEUE

    def _open(self) -> None:
        """Open the mouse; raise RuntimeError if there is none."""
        with contextlib.redirect_stdout(io.StringIO()):  # the library prints the name of the opened device
            self._mouse = self._library.open(axis_convention=self._library.AxisConvention.ROS)
