"""LeRobot data sets that claim or expand to far more than they declare: 21 frames of two episodes."""

import json
import os
import struct

import av
import numpy as np
import pyarrow
import pyarrow.parquet as parquet

from .images import fill_byte_jpeg, jpeg, png

FRAMES, LENGTHS = 21, (12, 9)
DATA, EPISODES = "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
VIDEO = "videos/chunk-000/observation.images.front/episode_000000.mp4"
MANY = 60_000_000
NUMBERS = {
    "observation.state": {"dtype": "float32", "shape": [3], "names": None},
    "action": {"dtype": "float32", "shape": [3], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
}
TIMES = {"timestamp": 0.0, "episode_index": 0}
CAMERA = "observation.images.front"


def camera(kind, side=64):
    return {CAMERA: {"dtype": kind, "shape": [side, side, 3], "names": ["height", "width", "channels"]}}


def write(folder, features=NUMBERS, version="v3.0", columns=None, frames=FRAMES, lengths=LENGTHS):
    """Write a small, sound data set; ``columns`` take the place of its own."""
    info = {"codebase_version": version, "fps": 10, "chunks_size": 1000, "features": features}
    info |= {"total_episodes": len(lengths), "total_frames": frames}
    episodes = [{"episode_index": n, "length": length, "tasks": ["go"]} for n, length in enumerate(lengths)]
    for name in (DATA, EPISODES, VIDEO):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / "meta/info.json").write_text(json.dumps(info))
    numbers = np.concatenate([np.arange(length) for length in lengths])
    table = {
        "observation.state": list(np.zeros((len(numbers), 3), np.float32)),
        "action": list(np.zeros((len(numbers), 3), np.float32)),
        "timestamp": (numbers / 10).astype(np.float32),
        "episode_index": np.repeat(np.arange(len(lengths)), lengths),
        **(columns or {}),
    }
    if version == "v2.1":
        (folder / "meta/episodes.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in episodes))
        for number in range(len(lengths)):
            rows = pyarrow.table({**table}).filter(np.asarray(table["episode_index"]) == number)
            parquet.write_table(rows, folder / f"data/chunk-000/episode_{number:06d}.parquet")
    else:
        places = {"data/chunk_index": 0, "data/file_index": 0}
        parquet.write_table(pyarrow.Table.from_pylist([{**row, **places} for row in episodes]), folder / EPISODES)
        parquet.write_table(pyarrow.table(table), folder / DATA)
    return folder


def with_images(folder, *images):
    """Write a data set whose images are ``images``, the last of them again and again."""
    cells = [{"bytes": images[min(n, len(images) - 1)], "path": None} for n in range(FRAMES)]
    return write(folder, NUMBERS | camera("image"), columns={CAMERA: cells})


def many_rows(path, rows, columns):
    """Write a table of the same row again and again: a few kilobytes."""
    part = 2_000_000
    arrays = {name: pyarrow.repeat(pyarrow.scalar(value), 1000) for name, value in columns.items()}
    table = pyarrow.concat_tables([pyarrow.table(arrays)] * (part // 1000))
    with parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(rows // part):
            writer.write_table(table)


def rows_of_data(folder):
    write(folder)
    many_rows(folder / DATA, MANY // 15, {"observation.state": [0.0] * 3, "action": [0.0] * 3, **TIMES})
    return folder


def rows_that_are_declared(folder):
    features = {name: {**feature, "shape": [1]} for name, feature in NUMBERS.items()}
    write(folder, features, frames=MANY, lengths=(12,))
    rows = [{"episode_index": 0, "length": MANY, "tasks": ["go"], "data/chunk_index": 0, "data/file_index": 0}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), folder / EPISODES)
    many_rows(folder / DATA, MANY, {"observation.state": 0.0, "action": 0.0, **TIMES})
    return folder


def rows_of_episodes(folder):
    write(folder)
    columns = {"episode_index": 0, "length": 1, "tasks": ["go"], "data/chunk_index": 0, "data/file_index": 0}
    many_rows(folder / EPISODES, MANY // 15, columns)
    return folder


def long_lists(folder):
    rows = pyarrow.ListArray.from_arrays([0, *([10_000_000] * FRAMES)], pyarrow.nulls(10_000_000, pyarrow.float32()))
    return write(folder, columns={"action": rows})


def large_value(folder):
    """One image of 100 MB of zeros, which Parquet packs into kilobytes."""
    cells = [{"bytes": bytes(100_000_000) if n == 3 else png(64, 64), "path": None} for n in range(FRAMES)]
    write(folder, NUMBERS | camera("image"))
    table = parquet.read_table(folder / DATA).append_column(CAMERA, pyarrow.array(cells))
    parquet.write_table(table, folder / DATA, compression="zstd")
    return folder


def repeated_value(folder):
    """An image of 20 MB in a dictionary, which every row names."""
    cells = [{"bytes": png(64, 64) + bytes(20_000_000), "path": None}] * FRAMES
    write(folder, NUMBERS | camera("image"))
    table = parquet.read_table(folder / DATA).append_column(CAMERA, pyarrow.array(cells))
    parquet.write_table(table, folder / DATA, compression="zstd", dictionary_pagesize_limit=2**30)
    return folder


def claimed_page(folder):
    """A page header that says two gigabytes."""
    write(folder)
    path = folder / DATA
    data = bytearray(path.read_bytes())
    chunk = parquet.ParquetFile(path).metadata.row_group(0).column(2)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    size = 0x15  # type, then the size of what follows, both in the same type of field
    place = data.index(bytes([size]), begin + 2)
    number = b"\xfe\xff\xff\xff\x0f"
    old = place + 2
    while data[old - 1] >= 128:
        old += 1
    data[place + 1 : old] = number[: old - place - 1] if old - place - 1 == 5 else number
    path.write_bytes(data)
    return folder


def sparse(name, version="v3.0"):
    """Return a maker of a data set in which a small file has three gigabytes."""

    def make(folder):
        write(folder, version=version)
        with (folder / name).open("wb") as stream:
            stream.truncate(3 * 2**30)
        return folder

    return make


def image_files(make_file):
    """Return a maker of a data set whose images are files, the first of them made by ``make_file``."""

    def make(folder):
        cells = [{"bytes": None, "path": f"images/{n}.png"} for n in range(FRAMES)]
        write(folder, NUMBERS | camera("image"), columns={CAMERA: cells})
        (folder / "images").mkdir()
        make_file(folder / "images/0.png")
        return folder

    return make


def grow(path):
    with path.open("wb") as stream:
        stream.truncate(3 * 2**30)


def video(path, side, frames=12):
    """Write a video whose frames are all alike."""
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=10, options={"preset": "ultrafast"})
        stream.width = stream.height = side
        stream.pix_fmt, stream.thread_count = "yuv420p", 1
        picture = av.VideoFrame.from_ndarray(np.zeros((side, side, 3), np.uint8), format="rgb24")
        for _ in range(frames):
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


def film(change, side=64):
    """Return a maker of a data set with a video, whose bytes ``change`` returns."""

    def make(folder):
        write(folder, NUMBERS | camera("video"), "v2.1")
        video(folder / VIDEO, side)
        (folder / VIDEO).write_bytes(change((folder / VIDEO).read_bytes()))
        return folder

    return make


def table_count(name, offset, count):
    """Return a change of a video in which a table states ``count`` entries."""

    def change(data):
        place = data.index(name) + 4 + offset
        return data[:place] + struct.pack(">I", count) + data[place + 4 :]

    return change


def run_length(data):
    """Let one entry of the table of times stand for two thousand million samples."""
    place = data.index(b"stts") + 4 + 8
    return data[:place] + struct.pack(">I", 2 * 10**9) + data[place + 4 :]


def fragment(data):
    """Append a fragment that states two thousand million samples."""
    run = struct.pack(">I4sII", 16, b"trun", 0, 2 * 10**9)
    track = struct.pack(">I4s", 8 + len(run), b"traf") + run
    return data + struct.pack(">I4s", 8 + len(track), b"moof") + track


def deep_json(folder):
    write(folder)
    (folder / "meta/info.json").write_text("[" * 10**6)
    return folder


LEROBOT = {
    "rows_of_data": rows_of_data,
    "rows_that_are_declared": rows_that_are_declared,
    "rows_of_episodes": rows_of_episodes,
    "long_lists": long_lists,
    "large_value": large_value,
    "repeated_value": repeated_value,
    "claimed_page": claimed_page,
    "sparse_info": sparse("meta/info.json"),
    "sparse_statistics": sparse("meta/stats.json"),
    "sparse_episodes": sparse("meta/episodes.jsonl", "v2.1"),
    "deep_json": deep_json,
    "png_in_table": lambda folder: with_images(folder, png(20_000, 20_000)),
    "later_png_in_table": lambda folder: with_images(folder, png(64, 64, data=bytes(64 * 193)), png(20_000, 20_000)),
    "jpeg_in_table": lambda folder: with_images(folder, jpeg(), fill_byte_jpeg()),
    "sparse_image": image_files(grow),
    "pipe_as_image": image_files(os.mkfifo),
    "video_of_another_size": film(lambda data: data, 2048),
    "video_samples": film(table_count(b"stsz", 8, 2 * 10**9)),
    "video_times": film(run_length),
    "video_fragment": film(fragment),
    "video_playlist": film(lambda _: b"ffconcat version 1.0\nfile /etc/hostname\n"),
}
"""Makes a data set in a folder, by name."""
