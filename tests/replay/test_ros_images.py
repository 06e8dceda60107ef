"""Image and CompressedImage of sensor_msgs: read by their encoding, or refused by it."""

from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from robo_rl.core import DataError, ImageConfig, SpecError, decode_ros_compressed_image, decode_ros_image
from robo_rl.core.ros_images import ENCODINGS
from robo_rl.replay.interchange import ForeignConfig, Rosbag
from robo_rl.replay.interchange.rosbag_messages import TopicConfig

from ..rigs.bags import image, number, record_messages

HEIGHT, WIDTH = 12, 16
RANDOM = np.random.default_rng(0)
COLOURS = RANDOM.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
CAMERA = TopicConfig(topic="camera", gives="images/front")
COMMAND = TopicConfig(topic="command", gives="action", fields=("data",))


def message(encoding, rows, padding=5, **fields):
    rows = np.ascontiguousarray(rows).view(np.uint8).reshape(HEIGHT, -1)
    rows = np.concatenate([rows, np.full((HEIGHT, padding), 99, np.uint8)], 1)
    about = {"height": HEIGHT, "width": WIDTH, "encoding": encoding, "is_bigendian": 0, "step": rows.shape[1]}
    return SimpleNamespace(**{**about, "data": rows.ravel(), **fields})


def with_alpha(colours):
    return np.concatenate([colours, np.full((HEIGHT, WIDTH, 1), 255, np.uint8)], 2)


@pytest.mark.parametrize(
    ("encoding", "rows", "expected"),
    [
        ("rgb8", COLOURS, COLOURS),
        ("bgr8", COLOURS[..., ::-1], COLOURS),
        ("rgba8", with_alpha(COLOURS), COLOURS),
        ("bgra8", with_alpha(COLOURS[..., ::-1]), COLOURS),
        ("mono8", COLOURS[..., 0], COLOURS[..., [0, 0, 0]]),
        ("8UC1", COLOURS[..., 0], COLOURS[..., [0, 0, 0]]),
        ("16UC1", COLOURS[..., 0] * np.uint16(257), COLOURS[..., 0] * np.uint16(257)),
        ("mono16", COLOURS[..., 0] * np.uint16(257), COLOURS[..., 0] * np.uint16(257)),
        ("32FC1", COLOURS[..., 0] / np.float32(7), COLOURS[..., 0] / np.float32(7)),
    ],
)
def test_encodings_that_lose_nothing(encoding, rows, expected):
    decoded = decode_ros_image(message(encoding, rows, padding=8))
    assert decoded.dtype == expected.dtype
    np.testing.assert_array_equal(decoded, expected)


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name.startswith("yu") or name == "uyvy"])
def test_yuv_of_half_the_colours(encoding):
    packed = np.empty((HEIGHT, WIDTH, 2), np.uint8)
    luminance = 0 if encoding in ("yuyv", "yuv422_yuy2") else 1
    packed[..., luminance], packed[..., 1 - luminance] = 126, 128
    assert (np.abs(decode_ros_image(message(encoding, packed)).astype(int) - 128) <= 1).all()
    packed[:, 1::2, 1 - luminance] = 240  # V, the second colour of each pair
    red = decode_ros_image(message(encoding, packed)).astype(int)
    assert (red[..., 0] > 200).all() and (red[..., 1] < 100).all()
    with pytest.raises(SpecError, match=f"not a {encoding} image of 15 x 12 pixels"):
        decode_ros_image(message(encoding, packed, width=15))


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_mosaics_of_bayer(pattern):
    colours = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    colours[:] = (200, 120, 40)
    mosaic = np.empty((HEIGHT, WIDTH), np.uint8)
    for place, colour in enumerate(pattern):
        mosaic[place // 2 :: 2, place % 2 :: 2] = colours[0, 0, "rgb".index(colour)]
    np.testing.assert_array_equal(decode_ros_image(message(f"bayer_{pattern}8", mosaic)), colours)


def test_the_order_of_bytes_is_followed():
    depth = np.arange(HEIGHT * WIDTH, dtype=">u2")
    np.testing.assert_array_equal(
        decode_ros_image(message("16UC1", depth, is_bigendian=1)).ravel(), np.arange(HEIGHT * WIDTH)
    )


@pytest.mark.parametrize("encoding", ["rgb16", "8UC3", "nv21", "h264", "", "RGB8", "32FC3"])
def test_other_encodings_are_refused_by_name(encoding):
    with pytest.raises(
        SpecError, match=rf"unknown encoding '{encoding}' of an image of 16 x 12 pixels.*Valid: 16UC1, "
    ):
        decode_ros_image(message(encoding, COLOURS))


@pytest.mark.parametrize("wrong", [{"height": 11}, {"width": 20}, {"step": 3}, {"height": 0}, {"width": 0}])
@pytest.mark.parametrize("encoding", ["rgb8", "yuv422", "16UC1"])
def test_sizes_that_do_not_agree_are_refused(encoding, wrong):
    sizes = {"rgb8": 3, "yuv422": 2, "16UC1": 2}
    with pytest.raises(SpecError, match=f"bytes are not a {encoding} image of"):
        decode_ros_image(message(encoding, COLOURS[..., :1].repeat(sizes[encoding], 2), **wrong))


def compressed(format_, data):
    return SimpleNamespace(format=format_, data=np.frombuffer(data, np.uint8))


def test_compressed_images_keep_their_depth():
    png = cv2.imencode(".png", COLOURS[..., ::-1])[1].tobytes()
    np.testing.assert_array_equal(decode_ros_compressed_image(compressed("rgb8; png compressed bgr8", png)), COLOURS)
    grey = cv2.imencode(".png", COLOURS[..., 0])[1].tobytes()
    np.testing.assert_array_equal(decode_ros_compressed_image(compressed("mono8; png", grey)), COLOURS[..., [0, 0, 0]])
    millimetres = np.full((HEIGHT, WIDTH), 1011, np.uint16)
    depth = decode_ros_compressed_image(compressed("16UC1; png", cv2.imencode(".png", millimetres)[1].tobytes()))
    np.testing.assert_array_equal(depth, millimetres)
    for format_, data in (
        ("16UC1; compressedDepth png", bytes(12) + png),
        ("jpeg", b"\xff\xd8"),
        ("h264", bytes(9)),
        ("png", b""),
    ):
        with pytest.raises(SpecError, match=f"{len(data)} bytes of format '{format_}' are not an image"):
            decode_ros_compressed_image(compressed(format_, data))


# --- in bags ---------------------------------------------------------------------------------------------------------


def load(path, rows, **options):
    """Record ``rows`` (time, image) beside commands, and import them."""
    messages = [("/camera", t, each) for t, each in rows] + [("/command", n / 50, number(0)) for n in range(50)]
    record_messages(path, sorted(messages, key=lambda each: each[1]))
    data = Rosbag(topics={"camera": CAMERA, "command": COMMAND}).load(path, ForeignConfig(control_rate=10.0, **options))
    return list(data.episodes()), data.notes.lines()


def images(encoding, rows, height=HEIGHT, width=WIDTH):
    return [(n / 20, image(encoding, height, width, rows)) for n in range(20)]


def test_a_camera_of_yuv_is_read_and_its_encoding_named_where_it_is_not(tmp_path):
    packed = np.full((HEIGHT, WIDTH, 2), 128, np.uint8)
    (episode,), lines = load(tmp_path / "a", images("yuv422_yuy2", packed))
    assert (episode.observation["images/front"].shape, lines) == ((10, HEIGHT, WIDTH, 3), [])
    with pytest.raises(DataError, match=r"/camera \(sensor_msgs/msg/Image\) at .* s: unknown encoding 'nv24'.*yuv422"):
        load(tmp_path / "b", images("nv24", packed))


def test_depth_is_refused_or_scaled_on_request(tmp_path):
    depth = np.linspace(0, 2000, HEIGHT * WIDTH).astype(np.uint16).reshape(HEIGHT, WIDTH)
    with pytest.raises(DataError, match=r"16-bit images.*'foreign\.images=\{front:\{low:LOW,high:HIGH\}\}'"):
        load(tmp_path / "a", images("16UC1", depth))
    (episode,), lines = load(tmp_path / "b", images("16UC1", depth), images={"front": ImageConfig(low=0, high=2000)})
    expected = np.rint(depth[..., None] * (255 / 2000)).astype(np.uint8)
    np.testing.assert_array_equal(episode.observation["images/front"][0], expected)
    assert lines == ["Images converted: 1 (images/front: uint16 values 0 to 2000 become 0 to 255)"]


def test_a_camera_that_changes_size_or_encoding_is_refused_with_its_time(tmp_path):
    other = [(0.5, image("rgb8", WIDTH, HEIGHT, COLOURS.transpose(1, 0, 2)))]
    for name, changed, message in (
        (
            "size",
            other,
            r"expected uint8 images of shape \(12, 16, 3\), found .* \(16, 12, 3\)",
        ),
        (
            "encoding",
            [(0.5, image("16UC1", HEIGHT, WIDTH, COLOURS[..., :2]))],
            "found uint16",
        ),
    ):
        rows = [each for each in images("rgb8", COLOURS) if each[0] != 0.5] + changed
        with pytest.raises(DataError, match=rf"/camera at 1000000000\.500 s: .*{message}"):
            load(tmp_path / name, rows)


def test_what_is_no_image_is_named(tmp_path):
    with pytest.raises(DataError, match=r"/camera \(std_msgs/msg/Float64\) at .* neither Image nor CompressedImage"):
        load(tmp_path / "bag", [(n / 20, number(0)) for n in range(20)])


def test_an_image_can_be_left_out(tmp_path):
    messages = [("/camera", n / 20, image("nv24", HEIGHT, WIDTH, COLOURS)) for n in range(20)]
    messages += [("/command", n / 20, number(0)) for n in range(20)]
    path = record_messages(tmp_path / "bag", sorted(messages, key=lambda each: each[1]))
    state = TopicConfig(topic="command", gives="state", fields=("data",))
    config = ForeignConfig(control_rate=10.0, leave_out=["images/front"])
    data = Rosbag(topics={"camera": CAMERA, "command": COMMAND, "state": state}).load(path, config)
    assert set(data.spec.observation) == {"state"}
    assert data.notes.lines() == ["Observations left out: 1 (images/front: foreign.leave_out)"]


PATTERNS = {"bayer_rggb8": "RGGB", "bayer_bggr8": "BGGR", "bayer_gbrg8": "GBRG", "bayer_grbg8": "GRBG"}


def pattern(layout):
    """Return what a camera with a Bayer filter sees of a red, not very green surface."""
    values = np.array([{"R": 200, "G": 60, "B": 10}[colour] for colour in layout], np.uint8).reshape(2, 2)
    return np.tile(values, (HEIGHT // 2, WIDTH // 2))


@pytest.mark.parametrize("after", ["; png compressed ", "; jpeg compressed", "; png compressed {}", ""])
@pytest.mark.parametrize(("encoding", "layout"), PATTERNS.items())
def test_a_pattern_that_was_compressed_as_it_is_becomes_colours(encoding, layout, after):
    """image_transport compresses what a camera with a Bayer filter publishes without converting it."""
    kind = ".jpg" if "jpeg" in after else ".png"
    data = cv2.imencode(kind, pattern(layout), [cv2.IMWRITE_JPEG_QUALITY, 100])[1].tobytes()
    decoded = decode_ros_compressed_image(SimpleNamespace(format=encoding + after.format(encoding), data=data))
    assert decoded.shape == (HEIGHT, WIDTH, 3)
    np.testing.assert_allclose(decoded[4:-4, 4:-4].reshape(-1, 3), [[200, 60, 10]] * 32, atol=6)


@pytest.mark.parametrize("after", ["; jpeg compressed bgr8", "; png compressed bgr8", "; jpeg compressed mono8"])
def test_a_pattern_that_was_converted_before_stays_as_it_is(after):
    colours = cv2.imencode(".png", np.full((HEIGHT, WIDTH, 3), (10, 60, 200), np.uint8))[1].tobytes()
    grey = cv2.imencode(".png", np.full((HEIGHT, WIDTH), 90, np.uint8))[1].tobytes()
    message = SimpleNamespace(format=f"bayer_rggb8{after}", data=grey if "mono8" in after else colours)
    assert (decode_ros_compressed_image(message) == ([90] * 3 if "mono8" in after else [200, 60, 10])).all()


def test_a_pattern_of_16_bits_is_refused():
    data = cv2.imencode(".png", pattern("RGGB").astype(np.uint16) * 256)[1].tobytes()
    with pytest.raises(
        SpecError, match=r"unknown encoding 'bayer_rggb16' of a uint16 image; did you mean 'bayer_rggb8'"
    ):
        decode_ros_compressed_image(SimpleNamespace(format="bayer_rggb16; png compressed", data=data))
