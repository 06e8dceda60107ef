"""Reader of OAK cameras, through the package depthai (version 3)."""

from datetime import timedelta
from typing import Any

import cv2
import numpy as np

from robo_rl.core import DriverError

from .capture import READ_TIMEOUT_MS
from .config import CameraConfig
from .frames import Frames, require_package

SIZE, RATE = (640, 400), 30.0
"""Size [pixels] and rate [Hz] of pictures, where the configuration has none."""
MILLIMETRE = np.float32(0.001)
STEREO_CAMERAS = 3
"""Number of cameras of an OAK that measures depth."""
SETTABLE = ("auto_exposure", "exposure", "gain", "auto_white_balance", "white_balance")


class Oak:
    """OAK camera (``oak``, or ``oak:ID`` with its identifier or address).

    Args:
        config: configuration of the camera.

    Raises:
        DriverError: if it does not exist, cannot be opened, or rejects a setting.
    """

    def __init__(self, config: CameraConfig) -> None:
        dai = require_package("depthai", "OAK")
        name = config.device.partition(":")[2]
        device = None
        try:
            device = dai.Device(dai.DeviceInfo(name)) if name else dai.Device()
            self._pipeline = dai.Pipeline(device)
            has_depth = len(device.getConnectedCameras()) >= STEREO_CAMERAS
            output = build(dai, self._pipeline, config, has_depth, device.getPlatform() == dai.Platform.RVC4)
            self._queue = output.createOutputQueue(maxSize=1, blocking=False)
            self._pipeline.start()
        except (RuntimeError, DriverError) as error:
            if device is not None:
                device.close()
            if isinstance(error, DriverError):
                raise
            cameras = ", ".join(f"oak:{each.deviceId}" for each in dai.Device.getAllAvailableDevices()) or "none"
            raise DriverError(f"{config.device} cannot be opened ({error}); OAK cameras here: {cameras}") from error

    def read(self) -> Frames | None:
        """Wait up to 2 s for the next pictures; return None if there are none."""
        try:
            group = self._queue.get(timedelta(milliseconds=READ_TIMEOUT_MS))
        except RuntimeError:
            return None
        if group is None:
            return None
        names = group.getMessageNames()
        colours = cv2.cvtColor(group["colours"].getCvFrame(), cv2.COLOR_BGR2RGB)
        depth = group["depth"].getFrame().astype(np.float32) * MILLIMETRE if "depth" in names else None
        return Frames(np.ascontiguousarray(colours, np.uint8), depth)

    def close(self) -> None:
        """Release the camera."""
        self._pipeline.stop()


def build(dai: Any, pipeline: Any, config: CameraConfig, has_depth: bool, is_rvc4: bool) -> Any:
    """Add colours and, aligned to them, depth to a pipeline; return the output of both, taken at the same time.

    Args:
        dai: the package depthai.
        pipeline: a pipeline of it.
        config: configuration of the camera.
        has_depth: whether the camera has a pair of cameras for depth.
        is_rvc4: whether its processor is of the fourth series, which aligns depth by a node of its own.
    """
    size = (config.width or SIZE[0], config.height or SIZE[1])
    rate = config.fps or RATE
    camera = pipeline.create(dai.node.Camera).build(dai.CameraBoardSocket.CAM_A)
    _set(camera.initialControl, config)
    colours = camera.requestOutput(size, type=dai.ImgFrame.Type.BGR888i, fps=rate, enableUndistortion=True)
    both = pipeline.create(dai.node.Sync)
    both.setSyncThreshold(timedelta(seconds=0.5 / rate))
    colours.link(both.inputs["colours"])
    if has_depth:
        stereo = pipeline.create(dai.node.StereoDepth).build(True, size=SIZE, fps=rate)
        if is_rvc4:
            align = pipeline.create(dai.node.ImageAlign)
            stereo.depth.link(align.input)
            colours.link(align.inputAlignTo)
            align.outputAligned.link(both.inputs["depth"])
        else:
            colours.link(stereo.inputAlignTo)
            stereo.depth.link(both.inputs["depth"])
    return both.out


def _set(control: Any, config: CameraConfig) -> None:
    """Set what the configuration fixes: exposure [us] with gain [ISO], and white balance [K]."""
    settings = config.settings
    for name in settings:
        if name not in SETTABLE:
            raise DriverError(f"{config.device} has no setting {name}; it has {', '.join(SETTABLE)}")
    if ("exposure" in settings) != ("gain" in settings):
        raise DriverError(f"{config.device} takes exposure [us] and gain [ISO] together")
    if settings.get("auto_exposure") == 0 and "exposure" not in settings:
        control.setAutoExposureLock(True)
    if settings.get("auto_white_balance") == 0 and "white_balance" not in settings:
        control.setAutoWhiteBalanceLock(True)
    if "exposure" in settings:
        control.setManualExposure(round(settings["exposure"]), round(settings["gain"]))
    if "white_balance" in settings:
        control.setManualWhiteBalance(round(settings["white_balance"]))
