"""Videos are read back with the decoder, not trusted."""

import errno
import os

import av
import numpy as np
import pytest

from robo_rl.core import ConfigError, DataError
from robo_rl.evaluation import video
from robo_rl.evaluation.video import VideoWriter, annotate, tile

from ..rigs.videos import read_video, write_video


def ramp(count, height=48, width=64):
    """Frames that become brighter, each of one colour: what compression cannot blur."""
    return [np.full((height, width, 3), 20 + 10 * index, dtype=np.uint8) for index in range(count)]


def test_browsers_can_play_the_file(tmp_path):
    path = tmp_path / "new" / "clip.mp4"
    write_video(path, ramp(20), 12.5)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert float(stream.average_rate) == 12.5
        assert (stream.width, stream.height, stream.frames) == (64, 48, 20)
        assert float(stream.duration * stream.time_base) == pytest.approx(20 / 12.5)
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")  # The index in front: seeking without the whole file.
    assert list(tmp_path.rglob("*.partial")) == []


def test_a_link_of_the_name_under_which_it_is_written_is_not_followed(tmp_path):
    own = tmp_path / "own"
    own.write_text("a thesis")
    (tmp_path / "clip.mp4.partial").symlink_to(own)
    (tmp_path / "clip.mp4").symlink_to(own)
    write_video(tmp_path / "clip.mp4", ramp(3), 5)
    assert own.read_text() == "a thesis" and not (tmp_path / "clip.mp4").is_symlink()


def test_frames_come_back_in_order_and_colour(tmp_path):
    path = tmp_path / "clip.mp4"
    frames = [np.zeros((64, 64, 3), dtype=np.uint8) + np.array(colour, dtype=np.uint8) for colour in np.eye(3) * 200]
    write_video(path, frames, 5)
    for written, read in zip(frames, read_video(path), strict=True):
        np.testing.assert_allclose(read.astype(int), written.astype(int), atol=12)


def test_odd_sizes_are_padded(tmp_path):
    path = tmp_path / "odd.mp4"
    write_video(path, ramp(3, 33, 47), 10)
    assert next(read_video(path)).shape == (34, 48, 3)


def test_a_video_in_the_making_is_not_under_its_name(tmp_path):
    writer = VideoWriter(tmp_path / "clip.mp4", 10)
    writer.add(ramp(1)[0])
    assert not (tmp_path / "clip.mp4").exists()
    writer.close()
    writer.close()
    assert (tmp_path / "clip.mp4").exists()


def test_after_an_error_there_is_no_video(tmp_path):
    with pytest.raises(KeyboardInterrupt), VideoWriter(tmp_path / "clip.mp4", 10) as writer:
        writer.add(ramp(1)[0])
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_and_left_no_fuller(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(video._PyAvEncoder, "close", full)
    with pytest.raises(OSError, match="No space left"), VideoWriter(tmp_path / "clip.mp4", 10) as writer:
        writer.add(ramp(1)[0])
    assert list(tmp_path.iterdir()) == []


def test_opencv_steps_in_where_pyav_has_no_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr(video, "_ENCODERS", ())
    opened = []

    class Recorder:
        def __init__(self, path, fourcc, rate, size):
            opened.append((path, rate, size))
            self.path, self.frames = path, []

        def isOpened(self):  # noqa: N802
            return True

        def write(self, frame):
            opened.append(frame[0, 0].tolist())

        def release(self):
            from pathlib import Path

            Path(self.path).write_bytes(b"video")

    monkeypatch.setattr(video.cv2, "VideoWriter", Recorder, raising=True)
    Recorder.fourcc = staticmethod(lambda *letters: "".join(letters))
    path = tmp_path / "clip.mp4"
    write_video(path, [np.zeros((32, 32, 3), dtype=np.uint8) + np.array([1, 2, 3], dtype=np.uint8)], 10)
    assert opened[0][1:] == (10, (32, 32))
    assert opened[1] == [3, 2, 1]  # OpenCV wants blue first.
    assert path.read_bytes() == b"video"


@pytest.mark.parametrize("frame", [np.zeros((8, 8)), np.zeros((8, 8, 3)), np.zeros((8, 8, 4), dtype=np.uint8)])
def test_what_is_no_picture_is_refused(tmp_path, frame):
    with pytest.raises(DataError, match=r"expected a uint8 picture \(height, width, 3\), got"):
        VideoWriter(tmp_path / "clip.mp4", 10).add(frame)


def test_other_sizes_and_names_are_refused(tmp_path):
    with VideoWriter(tmp_path / "clip.mp4", 10) as writer:
        writer.add(ramp(1)[0])
        with pytest.raises(DataError, match=r"clip\.mp4: expected every frame in 64 x 48 pixels, got \(20, 20, 3\)"):
            writer.add(np.zeros((20, 20, 3), dtype=np.uint8))
    with pytest.raises(ConfigError, match=r"video must be a file name that ends in \.mp4"):
        VideoWriter(tmp_path / "clip.avi", 10)


def test_captions_stay_in_their_corner_and_tell_success():
    frame = np.full((120, 160, 3), 90, dtype=np.uint8)
    for success, channel in ((True, 1), (False, 0)):
        marked = annotate(frame, "episode 1", success)
        changed = np.argwhere((marked != frame).any(axis=-1))
        assert changed.size and changed[:, 0].max() < 30 and changed[:, 1].max() < 80
        bright = marked[marked.max(axis=-1) > 150].mean(axis=0)
        assert bright.argmax() == channel
    assert (frame == 90).all()
    small = frame[:48, :48].copy()
    assert (annotate(small, "episode 1  success") == small).all()


def test_tiles_hold_the_last_frame_of_shorter_clips():
    tiled = tile([ramp(2, 4, 6), ramp(5, 4, 6), ramp(1, 4, 6)], columns=2, gap=2)
    assert len(tiled) == 5 and tiled[0].shape == (10, 14, 3)
    assert tiled[4][0, 0, 0] == 30 and tiled[4][0, 8, 0] == 60 and tiled[4][6, 0, 0] == 20
    assert (tiled[4][6:, 8:] == 0).all()
    with pytest.raises(DataError, match="clips of one size"):
        tile([ramp(1, 4, 6), ramp(1, 5, 6)])
    with pytest.raises(DataError, match="at least one clip"):
        tile([[]])
