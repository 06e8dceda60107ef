"""Videos of camera images: read only where size, number and times of the images are as declared."""

from fractions import Fraction

import av
import numpy as np
import pytest

from robo_rl.core import DataError
from robo_rl.replay.interchange.mp4 import grey_bits
from robo_rl.replay.interchange.pictures import VideoDecoder, VideoEncoder


def write(path, times, rate=10, side=32):
    """Write a video of images that are shown at ``times`` [s]."""
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width = stream.height = side
        stream.pix_fmt, stream.thread_count = "yuv420p", 1
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(times):
            picture = av.VideoFrame.from_ndarray(np.full((side, side, 3), 10 * (number % 25), np.uint8), format="rgb24")
            picture.pts, picture.time_base = round(1000 * time), Fraction(1, 1000)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def test_images_are_read_in_any_order(tmp_path):
    decoder = VideoDecoder(write(tmp_path / "a.mp4", np.arange(20) / 10), 10, 20, (32, 32))
    for first, count in ((0, 3), (12, 4), (2, 5)):
        values = decoder.read(first, count)[:, 16, 16, 0]
        np.testing.assert_allclose(values, 10 * np.arange(first, first + count), atol=4)
    assert not decoder.is_over()
    decoder.read(19, 1)
    assert decoder.is_over()
    with pytest.raises(DataError, match="expected at least 21 images, found 20"):
        decoder.read(19, 2)
    decoder.close()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0, 0.1, 0.2, 2.3, 2.4], r"image 3 is shown at 2\.3 s, but at 10 Hz it should be at 0\.3 s"),
        (np.arange(5) / 20, r"image 1 is shown at 0\.05 s, but at 10 Hz it should be at 0\.1 s"),
        (np.arange(30) / 9.5, r"image \d+ is shown at .* the video has gaps or another rate"),
    ],
)
def test_images_that_are_not_a_period_apart_are_refused(tmp_path, times, message):
    decoder = VideoDecoder(write(tmp_path / "a.mp4", times), 10, 30)
    with pytest.raises(DataError, match=message):
        decoder.read(0, len(times))


def test_a_start_that_is_not_zero_and_jitter_are_taken(tmp_path):
    times = 0.5 + np.arange(10) / 10 + np.random.default_rng(0).uniform(-0.015, 0.015, 10)
    assert len(VideoDecoder(write(tmp_path / "a.mp4", np.sort(times)), 10, 10).read(0, 10)) == 10


def test_other_sizes_codecs_and_containers_are_refused(tmp_path):
    write(tmp_path / "a.mp4", np.arange(5) / 10)
    with pytest.raises(DataError, match=r"expected images of 32 x 48 pixels \(height x width\), the video has 32 x 32"):
        VideoDecoder(tmp_path / "a.mp4", 10, 5, (32, 48))
    for kind, codec in (("matroska", "libx264"), ("mp4", "mjpeg"), ("avi", "mpeg4")):
        with av.open(str(tmp_path / "other"), "w", format=kind) as container:
            stream = container.add_stream(codec, rate=10)
            stream.width = stream.height = 32
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            for _ in range(3):
                container.mux(
                    stream.encode(av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24"))
                )
            container.mux(stream.encode(None))
        with pytest.raises(DataError, match=r"not an MP4 file|damaged|codec 'mjpeg'"):
            VideoDecoder(tmp_path / "other", 10, 5)


def test_a_size_that_changes_within_a_video_is_refused(tmp_path):
    """Images of 64 pixels are followed by images of 2048 with headers of their own."""
    context = av.CodecContext.create("libx264", "w")
    context.width = context.height = 2048
    context.pix_fmt, context.time_base, context.thread_count = "yuv420p", Fraction(1, 10), 1
    context.options = {"x264-params": "repeat-headers=1:annexb=1", "tune": "zerolatency"}
    large = context.encode(av.VideoFrame.from_ndarray(np.zeros((2048, 2048, 3), np.uint8), format="rgb24"))
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=10, options={"tune": "zerolatency"})
        stream.width = stream.height = 64
        stream.pix_fmt, stream.thread_count = "yuv420p", 1
        small = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
        packets = [packet for _ in range(3) for packet in stream.encode(small)]
        for number, packet in enumerate([*packets, *stream.encode(None), *large]):
            packet.stream, packet.time_base = stream, Fraction(1, 10)
            packet.pts = packet.dts = number
            container.mux(packet)
    decoder = VideoDecoder(tmp_path / "a.mp4", 10, 6, (64, 64))
    assert decoder.read(0, 3).shape == (3, 64, 64, 3)
    with pytest.raises(DataError, match=r"its images change size|pixels, expected"):
        decoder.read(3, 1)


def test_what_is_encoded_is_decoded(tmp_path):
    encoder = VideoEncoder(tmp_path / "a.mp4", 48, 64, 30, 10)
    encoder.add(np.full((7, 48, 64, 3), 90, np.uint8))
    encoder.close()
    assert np.abs(VideoDecoder(tmp_path / "a.mp4", 30, 7, (48, 64)).read(0, 7).astype(int) - 90).max() < 4


COLOURS = np.zeros((64, 96, 3), np.uint8)
COLOURS[:, :32], COLOURS[:, 32:64], COLOURS[:, 64:] = (200, 30, 60), (20, 180, 90), (128, 128, 128)


def write_as(path, codec, pixels):
    """Write a video of bars of colours, or skip the test if PyAV cannot."""
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV has no {codec}")
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=10, options={"crf": "2"} if codec.startswith("libx26") else {})
        stream.height, stream.width, stream.pix_fmt, stream.thread_count = 64, 96, pixels, 1
        for _ in range(6):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(COLOURS, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("codec", "pixels"),
    [
        *(("libx264", f"yuv{kind}") for kind in ("420p", "444p", "420p10le", "422p10le", "444p10le")),
        ("libx265", "yuv420p12le"),
        ("libx265", "gbrp10le"),
        ("libsvtav1", "yuv420p10le"),
        ("mpeg4", "yuv420p"),
    ],
)
def test_colours_of_any_pixel_format_are_converted(tmp_path, codec, pixels):
    decoder = VideoDecoder(write_as(tmp_path / "a.mp4", codec, pixels), 10, 6, (64, 96))
    read = decoder.read(0, 2)
    decoder.close()
    for column in (16, 48, 80):
        np.testing.assert_allclose(read[:, 32, column], np.tile(COLOURS[32, column], (2, 1)), atol=12)


@pytest.mark.parametrize(
    ("codec", "pixels", "bits"), [("libx264", "gray10le", 10), ("libx265", "gray10le", 10), ("libx265", "gray12le", 12)]
)
def test_grey_videos_of_more_than_8_bits_are_refused(tmp_path, codec, pixels, bits):
    """FFmpeg decodes those in H.264 as videos with colours."""
    path = write_as(tmp_path / "a.mp4", codec, pixels)
    with pytest.raises(DataError, match=f"a grey video of {bits} bits, such as depth, which would be reduced"):
        VideoDecoder(path, 10, 6)


@pytest.mark.parametrize("configuration", [None, b"", b"\x01", bytes(40), b"\x01\x6e" + bytes(7) + b"\x6e" + bytes(60)])
def test_parameters_of_a_video_that_are_damaged_say_nothing(configuration):
    assert grey_bits(configuration) is None


def write_ramp(path, codec, stored, stated):
    """Write a video with all brightnesses, stored in one range of colours (1: limited, 2: full) and stating another."""
    picture = av.VideoFrame.from_ndarray(np.tile(np.arange(256, dtype=np.uint8)[:, None], (64, 1, 3)), format="rgb24")
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.thread_count = 256, 64, "yuv420p", 1
        stream.codec_context.color_range = stated
        for number in range(3):
            frame = picture.reformat(format="yuv420p", dst_color_range=stored)
            frame.pts, frame.time_base, frame.color_range = number, Fraction(1, 10), stated
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("codec", ["libx264", "libsvtav1"])
@pytest.mark.parametrize(("stored", "stated", "exceeds"), [(1, 0, False), (1, 1, False), (2, 2, False), (2, 0, True)])
def test_brightness_beyond_the_range_of_colours_is_noticed(tmp_path, codec, stored, stated, exceeds):
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV has no encoder {codec}")
    decoder = VideoDecoder(write_ramp(tmp_path / "a.mp4", codec, stored, stated), 10, 3)
    images = decoder.read(0, 3)
    assert decoder.exceeds_range == exceeds
    right = np.abs(images[:, 32, :, 0].astype(int) - np.arange(256)).mean() < 4
    assert right != exceeds, "the colours are wrong where it is said, and nowhere else"


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
@pytest.mark.parametrize("size", [(120, 160), (64, 256), (16, 640), (64, 1920), (256, 64), (240, 320), (480, 640)])
def test_videos_of_every_size_are_read(tmp_path, codec, size):
    """OpenCV writes MPEG-4 by default."""
    with av.open(str(tmp_path / "a.mp4"), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=10)
        stream.height, stream.width = size
        stream.pix_fmt, stream.thread_count = "yuv420p", 1
        for number in range(3):
            frame = av.VideoFrame.from_ndarray(np.full((*size, 3), 90, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 10)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    images = VideoDecoder(tmp_path / "a.mp4", 10, 3, size).read(0, 3)
    assert images.shape == (3, *size, 3)
    np.testing.assert_allclose(images, 90, atol=4)
