"""Configuration of cameras that are read without ROS."""

from dataclasses import dataclass, field

from robo_rl.core import MAX_SECONDS, Options, nearest, option, require

SETTINGS = {
    "auto_exposure": "CAP_PROP_AUTO_EXPOSURE",
    "exposure": "CAP_PROP_EXPOSURE",
    "gain": "CAP_PROP_GAIN",
    "auto_white_balance": "CAP_PROP_AUTO_WB",
    "white_balance": "CAP_PROP_WB_TEMPERATURE",
    "brightness": "CAP_PROP_BRIGHTNESS",
    "contrast": "CAP_PROP_CONTRAST",
    "saturation": "CAP_PROP_SATURATION",
    "hue": "CAP_PROP_HUE",
    "gamma": "CAP_PROP_GAMMA",
    "sharpness": "CAP_PROP_SHARPNESS",
    "backlight": "CAP_PROP_BACKLIGHT",
    "autofocus": "CAP_PROP_AUTOFOCUS",
    "focus": "CAP_PROP_FOCUS",
    "zoom": "CAP_PROP_ZOOM",
}
"""Settings of a device and their names in OpenCV, in the order in which they are set: automatics before values."""

MAKERS = ("realsense", "oak")
"""Cameras with depth, which are read through the packages of their makers."""
RECORDING = ".db3"
"""Ending of a recording of a RealSense."""


@dataclass  # not frozen, because SourceConfig contains it (see there)
class CameraConfig:
    """Camera that this machine reads itself.

    Attributes:
        device: Video4Linux device (/dev/v4l/by-id/..., /dev/video0, or the number of the latter), URL of a stream
            (http://, rtsp://, ...) or video file; ``realsense``, ``realsense:SERIAL`` or ``realsense:FILE.db3`` (a
            recording), ``oak`` or ``oak:ID``; empty: none.
        width: width of the device's images [pixels], set together with ``height``; null: unchanged.
        height: height of the device's images [pixels]; null: unchanged.
        fps: images per second of a device, or at which a file is played; null: its own rate.
        format: format of the device's images, four characters: MJPG, YUYV, ...; null: unchanged.
        settings: settings of the device by name: ``exposure``, ``auto_exposure``, ``gain``, ``white_balance``,
            ``auto_white_balance``, ``focus``, ``autofocus``, ``brightness``, ... in the device's own units.
        loop: whether a file begins again at its end; otherwise it gives no more images.
        depth: least and largest distance [m] of a RealSense or OAK, whose depth, aligned to the colours, is the image:
            from 1 to 255, and 0 where it is unknown; empty: the colours are.
    """

    device: str = ""
    width: int | None = None
    height: int | None = None
    fps: float | None = None
    format: str | None = None
    settings: dict[str, float] = field(default_factory=dict)
    loop: bool = False
    depth: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", tuple(self.depth))  # files give lists, which would differ from the default
        path = self.path
        sized = (self.width, self.height)
        require((self.width is None) == (self.height is None), "camera.width", "given with camera.height", self.width)
        for key in ("width", "height", "fps"):
            value = getattr(self, key)
            require(value is None or value > 0, f"camera.{key}", "above 0, or null", value)
        require(self.format is None or len(self.format) == 4, "camera.format", "four characters, or null", self.format)
        for name in self.settings:
            require(name in SETTINGS, "camera.settings", nearest(name, SETTINGS), name)
        of_device = {"width": sized[0], "format": self.format, "settings": self.settings or None}
        for key, value in of_device.items():
            allowed = value is None or path is not None or (self.maker is not None and key != "format")
            require(allowed, f"camera.{key}", f"left out: only devices have it, not {self.device!r}", value)
        require(self.fps is None or not self.is_stream, "camera.fps", "null: a stream has its own", self.fps)
        is_range = len(self.depth) == 2 and 0 <= self.depth[0] < self.depth[1]
        require(not self.depth or is_range, "camera.depth", "two increasing distances [m], or none", self.depth)
        has_depth = not self.depth or self.maker is not None
        require(has_depth, "camera.depth", f"left out: {self.device!r} is not a {' or '.join(MAKERS)}", self.depth)
        require(not self.loop or self.is_file, "camera.loop", f"false: {self.device!r} is no video file", self.loop)

    @property
    def path(self) -> str | None:
        """Path of the device; None where it is a stream or file."""
        if self.device.isdecimal():
            return f"/dev/video{self.device}"
        return self.device if self.device.startswith("/dev/") else None

    @property
    def maker(self) -> str | None:
        """``realsense`` or ``oak``; None for other cameras."""
        name = self.device.partition(":")[0]
        return name if name in MAKERS else None

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream."""
        return "://" in self.device

    @property
    def is_file(self) -> bool:
        """Whether it is a video file."""
        if self.maker is not None:
            return self.device.endswith(RECORDING)
        return bool(self.device) and self.path is None and not self.is_stream


@dataclass(frozen=True)
class FinderConfig(Options, section="cameras"):
    """Cameras that ``robo-rl cameras`` looks for.

    Attributes:
        also: streams and files to look for, besides the devices of this machine.
        output: folder for one image of each camera; null: no images.
        seconds: time for which a camera is watched before its image is taken, so that exposure and colours have settled
            [s].
    """

    also: tuple[str, ...] = ()
    output: str | None = "cameras"
    seconds: float = option(1.0, low=0, high=MAX_SECONDS)
