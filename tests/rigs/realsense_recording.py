"""A recording of a RealSense, made by a software device of the real package."""

import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEIGHT, RATE, FRAMES = 64, 48, 30, 40
UNIT = 0.001


def _stream(rs: Any, kind: Any, number: int, form: Any, bytes_per_pixel: int) -> Any:
    intrinsics = rs.intrinsics()
    intrinsics.width, intrinsics.height, intrinsics.fx, intrinsics.fy = WIDTH, HEIGHT, 60.0, 60.0
    intrinsics.ppx, intrinsics.ppy = WIDTH / 2, HEIGHT / 2
    intrinsics.model, intrinsics.coeffs = rs.distortion.brown_conrady, [0.0] * 5
    stream = rs.video_stream()
    stream.type, stream.index, stream.uid, stream.fmt, stream.bpp = kind, 0, number, form, bytes_per_pixel
    stream.width, stream.height, stream.fps, stream.intrinsics = WIDTH, HEIGHT, RATE, intrinsics
    return stream


def write_recording(path: Path) -> Path:
    """Record pictures in (200, 10, rising) with depth: unknown on the left, and 0.6 m on the right."""
    import pyrealsense2 as rs

    device = rs.software_device()
    device.register_info(rs.camera_info.name, "Software camera")
    device.register_info(rs.camera_info.serial_number, "123456")
    depth, colour = device.add_sensor("Stereo Module"), device.add_sensor("RGB Camera")
    profiles = (
        depth.add_video_stream(_stream(rs, rs.stream.depth, 0, rs.format.z16, 2)),
        colour.add_video_stream(_stream(rs, rs.stream.color, 1, rs.format.rgb8, 3)),
    )
    depth.add_read_only_option(rs.option.depth_units, UNIT)
    same = rs.extrinsics()
    same.rotation, same.translation = np.eye(3).ravel().tolist(), [0.0] * 3
    profiles[0].register_extrinsics_to(profiles[1], same)
    device.create_matcher(rs.matchers.dlr_c)
    recorder = rs.recorder(str(path), device)
    sensors = recorder.query_sensors()
    for sensor in sensors:
        sensor.open(sensor.get_stream_profiles()[0])
        sensor.start(lambda frame: None)
    distances = np.full((HEIGHT, WIDTH), round(0.6 / UNIT), np.uint16)
    distances[:, : WIDTH // 2] = 0
    for number in range(1, FRAMES + 1):
        colours = np.full((HEIGHT, WIDTH, 3), (200, 10, number), np.uint8)
        for sensor, profile, pixels in ((colour, profiles[1], colours), (depth, profiles[0], distances)):
            frame = rs.software_video_frame()
            frame.pixels, frame.stride, frame.bpp = pixels, pixels.strides[0], pixels.strides[1]
            frame.timestamp, frame.frame_number = number * 1000 / RATE, number
            frame.domain, frame.profile = rs.timestamp_domain.hardware_clock, profile.as_video_stream_profile()
            frame.depth_units = UNIT
            sensor.on_video_frame(frame)
        time.sleep(1 / RATE)  # the recorder notes when frames arrive, and drops those that come too fast
    for sensor in sensors:
        sensor.stop()
        sensor.close()
    return path
