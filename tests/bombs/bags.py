"""Bags of rosbag2 whose files expand to, or compute, far more than they hold."""

import sqlite3
import struct
from functools import cache
from pathlib import Path

import lz4.frame
import numpy as np
import yaml
from backports import zstd
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer

from ..bags import START, TYPES, number, stamped
from .images import resized_jpeg

STRING = "std_msgs/msg/String"


def write(folder, storage="MCAP", mode=None, images=()):
    """Write a bag of two topics of numbers, and one of images."""
    kinds = {"/state": "std_msgs/msg/Float64", "/command": "std_msgs/msg/Float64"}
    writer = Writer(folder, version=8, storage_plugin=StoragePlugin[storage])
    if mode:
        writer.set_compression(CompressionMode[mode], CompressionFormat.ZSTD)
    with writer as bag:
        topics = {name: bag.add_connection(name, kind, typestore=TYPES) for name, kind in kinds.items()}
        kind = "sensor_msgs/msg/CompressedImage"
        camera = bag.add_connection("/front", kind, typestore=TYPES) if images else None
        for step in range(max(10, len(images))):
            at_ns = START + step * 10**8
            for topic in topics.values():
                bag.write(topic, at_ns, TYPES.serialize_cdr(number(step / 1000), "std_msgs/msg/Float64"))
            if camera is not None:
                data = np.frombuffer(images[step], np.uint8)
                message = TYPES.types[kind](header=stamped(None), format="jpeg", data=data)
                bag.write(camera, at_ns, TYPES.serialize_cdr(message, kind))
    return folder


@cache
def zeros(size, kind="zstd"):
    """Return ``size`` zeros as a Zstandard or LZ4 frame that does not state its size."""
    packer = zstd.ZstdCompressor() if kind == "zstd" else lz4.frame.LZ4FrameCompressor()
    begin = packer.begin() if kind == "lz4" else b""
    parts = [packer.compress(bytes(2**24)) for _ in range(size >> 24)]
    return begin + b"".join(parts) + packer.flush()


def mcap(kind, data, stated):
    """Return a maker of a bag whose first chunk is ``data()``, and states that it holds ``stated`` bytes."""

    def make(folder):
        (path,) = write(folder).glob("*.mcap")
        content = path.read_bytes()
        name, packed = kind.encode(), data()
        head = struct.pack("<QQQII", START, START, stated, 0, len(name)) + name + struct.pack("<Q", len(packed))
        chunk = struct.pack("<BQ", 6, len(head) + len(packed)) + head + packed
        begin = 8 + 9 + struct.unpack_from("<Q", content, 9)[0]
        path.write_bytes(content[:begin] + chunk + content[begin:])
        return folder

    return make


def packed_file(folder):
    (path,) = write(folder).glob("*.mcap")
    path.rename(path.with_suffix(".mcap.zstd"))
    path.with_suffix(".mcap.zstd").write_bytes(zeros(2 << 30))
    about = yaml.safe_load((folder / "metadata.yaml").read_text())
    about["rosbag2_bagfile_information"] |= {
        "compression_format": "zstd",
        "compression_mode": "FILE",
        "relative_file_paths": [f"{path.name}.zstd"],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(about))
    return folder


def packed_message(folder):
    (path,) = write(folder, "SQLITE3", "MESSAGE").glob("*.db3")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE messages SET data = ? WHERE id = 3", (zeros(2 << 30),))
    return folder


def changed(*statements):
    """Return a maker of a SQLite bag that was changed by ``statements``."""

    def make(folder):
        (path,) = write(folder, "SQLITE3").glob("*.db3")
        with sqlite3.connect(path) as database:
            for statement in statements:
                database.execute(statement)
        return folder

    return make


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 1 AS topic_id"


def sparse_metadata(folder):
    with (Path(write(folder)) / "metadata.yaml").open("r+b") as stream:
        stream.truncate(3 * 2**30)
    return folder


BAGS = {
    "zstd_chunk": mcap("zstd", lambda: zeros(2 << 30), 1000),
    "zstd_chunk_of_stated_size": mcap("zstd", lambda: zeros(2 << 30), 2 << 30),
    "lz4_chunk": mcap("lz4", lambda: zeros(1 << 29, "lz4"), 1000),
    "stated_chunk": mcap("", lambda: bytes(1000), 1 << 50),
    "packed_file": packed_file,
    "packed_message": packed_message,
    "view": changed(
        "ALTER TABLE messages RENAME TO others",
        f"CREATE VIEW messages AS {ENDLESS}, i * 100000000 AS timestamp, zeroblob(900000000) AS data FROM n",
    ),
    "computed_column": changed(
        "ALTER TABLE messages DROP COLUMN data",
        "ALTER TABLE messages ADD COLUMN data BLOB AS (zeroblob(900000000))",
    ),
    "trigger": changed("CREATE TRIGGER late AFTER INSERT ON messages BEGIN SELECT zeroblob(900000000); END"),
    "many_headers": lambda folder: write(folder, images=[resized_jpeg(6000, 5000)] * 100),
    "sparse_metadata": sparse_metadata,
}
"""Makes a bag in a folder, by name."""
