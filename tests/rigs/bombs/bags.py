"""Bags of rosbag2 whose files expand to, or compute, far more than they hold."""

import os
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


SEPARATOR = "=" * 80
PROFILE = "- history: 3\n  depth: 0\n"


def defined(text, data=bytes(8), storage="MCAP", kind="ros2msg", count=3):
    """Return a maker of a bag whose topics have messages of a type that ``text`` defines, and no hash of it."""
    digest = f"RIHS01_{'0' * 64}"

    def make(folder):
        writer = Writer(folder, version=8, storage_plugin=StoragePlugin[storage])
        with writer as bag:
            names = ("/state", "/command")
            topics = [bag.add_connection(name, "a/msg/A", msgdef=text, rihs01=digest) for name in names]
            for step in range(count):
                for topic in topics:
                    bag.write(topic, START + step * 10**8, b"\x00\x01\x00\x00" + data)
        about = folder / "metadata.yaml"
        about.write_text(about.read_text().replace(digest, "''"))
        if kind != "ros2msg":
            (path,) = folder.glob("*.mcap")
            path.write_bytes(path.read_bytes().replace(b"ros2msg", kind.encode()))
        return folder

    return make


def nested(count, length):
    """Return the definition of messages in messages, each an array of ``length`` of the next."""
    parts = [f"float64 data\nA0[{length}] v\n"]
    parts += [f"MSG: a/A{n}\nA{n + 1}[{length}] v\n" for n in range(count)]
    return f"{SEPARATOR}\n".join([*parts, f"MSG: a/A{count}\nuint8 v\n"])


def long_metadata(folder):
    """Half a million numbers in a megabyte."""
    path = write(folder) / "metadata.yaml"
    path.write_text(f"{path.read_text()}\nextra: [{'1,' * 500_000}1]\n")
    return folder


def many_values(folder):
    path = write(folder) / "metadata.yaml"
    path.write_text(f"{path.read_text()}\nextra: [{'1,' * 100_000}1]\n")
    return folder


def long_profiles(folder):
    """A hundred topics with profiles of three hundred values each, as texts in the metadata."""
    path = write(folder) / "metadata.yaml"
    about = yaml.safe_load(path.read_text())
    topics = about["rosbag2_bagfile_information"]["topics_with_message_count"]
    topics[0]["topic_metadata"]["offered_qos_profiles"] = PROFILE * 60
    topics += [{**topics[0], "topic_metadata": {**topics[0]["topic_metadata"], "name": f"/t{n}"}} for n in range(100)]
    path.write_text(yaml.safe_dump(about))
    return folder


def record(kind, *texts, numbers=b""):
    content = numbers + b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return struct.pack("<BQ", kind, len(content)) + content


def channels(packed=False):
    """Return a maker of an MCAP file without a summary that tells of ten thousand topics, in a chunk or beside."""

    def make(folder):
        (path,) = write(folder).glob("*.mcap")
        (folder / "metadata.yaml").unlink()
        content = path.read_bytes()
        begin = 8 + 9 + struct.unpack_from("<Q", content, 9)[0]
        parts = []
        for topic in range(10_000):
            about = record(0, b"offered_qos_profiles", PROFILE.encode() * 5)[9:]
            ids = struct.pack("<HH", topic, 0)
            parts.append(record(4, b"/t%d" % topic, b"cdr", about, numbers=ids))
        records = b"".join(parts)
        if packed:
            data = zstd.compress(records)
            head = struct.pack("<QQQII", START, START, len(records), 0, 4) + b"zstd" + struct.pack("<Q", len(data))
            records = struct.pack("<BQ", 6, len(head) + len(data)) + head + data
        footer = struct.pack("<BQQQI", 2, 20, 0, 0, 0) + content[:8]
        path.write_bytes(content[:begin] + records + footer)
        return path

    return make


def under_another_name(folder):
    """A view in a file that its ending makes MCAP."""
    (path,) = BAGS["view"](folder).glob("*.db3")
    path.rename(path.with_suffix(".mcap"))
    about = folder / "metadata.yaml"
    about.write_text(about.read_text().replace(".db3", ".mcap"))
    return folder


def pipe_under_another_name(folder):
    (path,) = write(folder).glob("*.mcap")
    path.unlink()
    os.mkfifo(path.with_suffix(".bin"))
    about = folder / "metadata.yaml"
    about.write_text(about.read_text().replace(".mcap", ".bin"))
    return folder


def packed_file_of_packed_chunk(folder):
    """An MCAP file within a Zstandard file, of which a chunk expands to far more."""
    (path,) = mcap("zstd", lambda: zeros(2 << 30), 1000)(folder).glob("*.mcap")
    path.with_suffix(".mcap.zstd").write_bytes(zstd.compress(path.read_bytes()))
    path.unlink()
    about = folder / "metadata.yaml"
    text = about.read_text().replace(".mcap", ".mcap.zstd")
    text = text.replace("compression_format: ''", "compression_format: zstd")
    about.write_text(text.replace("compression_mode: ''", "compression_mode: FILE"))
    return folder


BAGS = {
    "fixed_texts": defined("float64 data\nstring[20000] a\n"),
    "fixed_texts_of_sqlite": defined("float64 data\nstring[20000] a\n", storage="SQLITE3"),
    "fixed_texts_of_idl": defined(
        "module a { module msg { typedef string t[20000]; struct A { double data; t x; }; }; };", kind="ros2idl"
    ),
    "fixed_messages": defined(f"float64 data\nB[20000] a\n{SEPARATOR}\nMSG: a/B\nfloat64 v\n"),
    "nested_arrays": defined(nested(6, 100)),
    "nested_messages": defined(nested(400, 1)),
    "empty_arrays": defined(
        f"float64 data\nB[] a\n{SEPARATOR}\nMSG: a/B\nC[1000] v\n{SEPARATOR}\nMSG: a/C\nbool[0] v\n"
    ),
    "negative_arrays": defined("float64 data\nfloat64[-1] a\n"),
    "of_itself": defined("float64 data\nA[] a\n"),
    "in_a_circle": defined(f"float64 data\nB a\n{SEPARATOR}\nMSG: a/B\nA[] v\n"),
    "many_fields": defined("float64 data\n" + "".join(f"float64 f{n}\n" for n in range(60_000))),
    "many_text_fields": defined("float64 data\n" + "".join(f"string[] f{n}\n" for n in range(5000))),
    "blank_lines": defined("float64 data\n" + "\n" * 100_000),
    "long_default": defined("float64 data\nuint8[] a [" + "1," * 400_000 + "1]\n"),
    "idl_shift": defined(
        "module a { module msg { const long N = 1 << 99999999999; struct A { double data; }; }; };", kind="ros2idl"
    ),
    "idl_long": defined(
        "module a { module msg { struct A {"
        + '@verbatim (language="comment", text="a" "b")' * 2000
        + " double data; }; }; };",
        kind="ros2idl",
    ),
    "small_elements": defined(
        f"float64 data\nB[] a\n{SEPARATOR}\nMSG: a/B\nuint8 v\n",
        bytes(8) + struct.pack("<I", 50 << 20) + bytes(50 << 20),
        count=1,
    ),
    "chain_of_messages": defined(
        nested(30, 1).replace("A0[1] v", "A0[] v"), bytes(8) + struct.pack("<I", 1000) + bytes(1000)
    ),
    "many_constants": defined("float64 data\n" + "".join(f"bool A{n}=1\n" for n in range(9000))),
    "long_metadata": long_metadata,
    "many_values": many_values,
    "long_profiles": long_profiles,
    "many_channels": channels(),
    "many_channels_packed": channels(packed=True),
    "topics_of_one_number": changed(
        "ALTER TABLE topics RENAME TO others",
        "CREATE TABLE topics AS SELECT others.* FROM others JOIN messages ON true JOIN messages AS more ON true",
    ),
    "under_another_name": under_another_name,
    "pipe_under_another_name": pipe_under_another_name,
    "packed_file_of_packed_chunk": packed_file_of_packed_chunk,
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
