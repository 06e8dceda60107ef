"""Reader of RealSense cameras and their recordings, through the package pyrealsense2."""

import time
from typing import Any

import numpy as np

from robo_rl.core import DriverError

from .capture import READ_TIMEOUT_MS
from .config import RECORDING, SETTINGS, CameraConfig
from .frames import Frames, require_package

SIZE, RATE = (640, 480), 30.0
"""Size [pixels] and rate [Hz] of pictures, where the configuration has none."""
OPTIONS = {"auto_exposure": "enable_auto_exposure", "auto_white_balance": "enable_auto_white_balance",
           "backlight": "backlight_compensation"}  # fmt: skip
"""Names of settings in pyrealsense2, where they differ."""


class RealSense:
    """RealSense camera, or a recording of one (``realsense:FILE.db3``).

    Args:
        config: configuration of the camera.

    Raises:
        DriverError: if it does not exist, cannot be opened, or rejects a setting.
    """

    def __init__(self, config: CameraConfig) -> None:
        rs = self._rs = require_package("pyrealsense2", "RealSense")
        self._device, name = config.device, config.device.partition(":")[2]
        request, self._pipeline = rs.config(), rs.pipeline()
        if name.endswith(RECORDING):
            request.enable_device_from_file(name, config.loop)
        elif name:
            request.enable_device(name)
        width, height = config.width or SIZE[0], config.height or SIZE[1]
        rate = round(config.fps or RATE)
        request.enable_stream(rs.stream.color, width, height, rs.format.rgb8, rate)
        request.enable_stream(rs.stream.depth, rs.format.z16, rate)
        try:
            profile = self._pipeline.start(request)
        except RuntimeError as error:
            size = f"{width} x {height} at {rate} Hz"
            raise DriverError(f"{config.device} cannot be opened with {size} ({error}); {self._cameras()}") from error
        self._align = rs.align(rs.stream.color)
        try:
            self._set(profile.get_device(), config)
        except DriverError:
            self.close()
            raise

    def read(self) -> Frames | None:
        """Wait up to 2 s for the next pictures; return None if there are none."""
        until = time.monotonic() + READ_TIMEOUT_MS / 1000
        while (left := until - time.monotonic()) > 0:
            try:
                good, frames = self._pipeline.try_wait_for_frames(max(round(left * 1000), 1))
            except RuntimeError:
                return None
            if not good:
                return None
            if not (frames.get_color_frame() and frames.get_depth_frame()):
                continue  # the first ones may lack one of them
            aligned = self._align.process(frames)
            colours, depth = aligned.get_color_frame(), aligned.get_depth_frame()
            metres = np.asanyarray(depth.get_data()).astype(np.float32) * np.float32(depth.get_units())
            return Frames(np.array(colours.get_data(), np.uint8), metres)
        return None

    def close(self) -> None:
        """Release the camera."""
        self._pipeline.stop()

    def _set(self, device: Any, config: CameraConfig) -> None:
        """Set the options of the sensor that gives the colours: automatics before values."""
        rs = self._rs
        sensors = [
            sensor
            for sensor in device.query_sensors()
            if any(profile.stream_type() == rs.stream.color for profile in sensor.get_stream_profiles())
        ]
        for name in sorted(config.settings, key=list(SETTINGS).index):
            option = getattr(rs.option, OPTIONS.get(name, name), None)
            value = config.settings[name]
            try:
                if option is None or not sensors or not sensors[0].supports(option):
                    raise DriverError(f"{config.device} has no setting {name}")
                sensors[0].set_option(option, value)
            except RuntimeError as error:
                raise DriverError(f"{config.device} does not take {name}={value:g} ({error})") from error

    def _cameras(self) -> str:
        """Return a sentence that lists the RealSense cameras of this machine."""
        info = self._rs.camera_info
        cameras = [
            f"realsense:{device.get_info(info.serial_number)} ({device.get_info(info.name)})"
            for device in self._rs.context().query_devices()
        ]
        return f"RealSense cameras here: {', '.join(cameras)}" if cameras else "there are no RealSense cameras here"
