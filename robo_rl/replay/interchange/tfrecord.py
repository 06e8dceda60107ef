"""TFRecord files of ``tf.train.Example`` messages, without TensorFlow.

A record is its length (uint64), a checksum of that, the data, and a checksum of the data, all little-endian; a checksum
is a masked CRC-32C. An Example is a map from names to lists of bytes, float32 or int64. Written from
https://www.tensorflow.org/tutorials/load_data/tfrecord and tensorflow/core/example/example.proto.
"""

import struct
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from robo_rl.core import DataError

from .data import library

Values = NDArray[Any] | list[bytes]
"""What an Example holds under a name: float32 or int64 in one row, or byte strings."""

_MASK = 0xA282EAD8
_PACKAGE = "robo_rl.tfrecord"


def append_record(stream: BinaryIO, data: bytes) -> None:
    """Append a record to an open file."""
    length = struct.pack("<Q", len(data))
    stream.write(length + _checksum(length) + data + _checksum(data))


def read_records(path: Path) -> Iterator[bytes]:
    """Return the records of a file, one after another.

    Raises:
        DataError: if it cannot be read, or is damaged.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            while length := stream.read(8):
                if len(length) < 8 or stream.read(4) != _checksum(length):
                    raise DataError(f"{path}: a record's length does not fit its checksum; the file is damaged")
                data = stream.read(min(struct.unpack("<Q", length)[0], size))
                if stream.read(4) != _checksum(data):
                    raise DataError(f"{path}: a record does not fit its checksum; the file is damaged or cut short")
                yield data
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from error


def encode_example(features: Mapping[str, Values]) -> bytes:
    """Return an Example of ``features``: byte strings, or numbers in whatever shape, which is not kept."""
    example = _example_class()()
    for name, values in features.items():
        entry = example.features.feature.add(key=name)
        if isinstance(values, list):
            entry.value.bytes_list.value.extend(values)
        elif np.issubdtype(values.dtype, np.floating):
            entry.value.float_list.value.extend(values.astype(np.float32).ravel().tolist())
        else:
            entry.value.int64_list.value.extend(values.astype(np.int64).ravel().tolist())
    return bytes(example.SerializeToString())


def decode_example(data: bytes, where: Path) -> dict[str, Values]:
    """Inverse of :func:`encode_example`: numbers are (n,).

    Raises:
        DataError: if ``data`` is no Example.
    """
    try:
        example = _example_class().FromString(data)
    except DecodeError as error:
        raise DataError(f"{where}: a record is no tf.train.Example ({error})") from error
    found: dict[str, Values] = {}
    for entry in example.features.feature:
        kind = entry.value.WhichOneof("kind")
        if kind == "bytes_list":
            found[entry.key] = list(entry.value.bytes_list.value)
        elif kind == "float_list":
            found[entry.key] = np.array(entry.value.float_list.value, np.float32)
        else:
            found[entry.key] = np.array(entry.value.int64_list.value, np.int64)
    return found


def _checksum(data: bytes) -> bytes:
    crc: int = library("google_crc32c").value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)


@cache
def _example_class() -> Any:
    """Return the message class. A map is on the wire what repeated entries of key and value are."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(text_format.Parse(_SCHEMA, descriptor_pb2.FileDescriptorProto()))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Example"))


_SCHEMA = f"""
name: "example.proto" package: "{_PACKAGE}" syntax: "proto3"
message_type {{ name: "BytesList" field {{ name: "value" number: 1 label: LABEL_REPEATED type: TYPE_BYTES }} }}
message_type {{ name: "FloatList" field {{ name: "value" number: 1 label: LABEL_REPEATED type: TYPE_FLOAT }} }}
message_type {{ name: "Int64List" field {{ name: "value" number: 1 label: LABEL_REPEATED type: TYPE_INT64 }} }}
message_type {{ name: "Feature" oneof_decl {{ name: "kind" }}
  field {{ name: "bytes_list" number: 1 type: TYPE_MESSAGE type_name: ".{_PACKAGE}.BytesList" oneof_index: 0 }}
  field {{ name: "float_list" number: 2 type: TYPE_MESSAGE type_name: ".{_PACKAGE}.FloatList" oneof_index: 0 }}
  field {{ name: "int64_list" number: 3 type: TYPE_MESSAGE type_name: ".{_PACKAGE}.Int64List" oneof_index: 0 }} }}
message_type {{ name: "Entry" field {{ name: "key" number: 1 type: TYPE_STRING }}
  field {{ name: "value" number: 2 type: TYPE_MESSAGE type_name: ".{_PACKAGE}.Feature" }} }}
message_type {{ name: "Features"
  field {{ name: "feature" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".{_PACKAGE}.Entry" }} }}
message_type {{ name: "Example"
  field {{ name: "features" number: 1 type: TYPE_MESSAGE type_name: ".{_PACKAGE}.Features" }} }}
"""
