"""TFRecord files of ``tf.train.Example`` messages, without TensorFlow.

A record consists of its length (uint64), a checksum of the length, the data, and a checksum of the data, all
little-endian. Checksums are masked CRC-32C. An Example maps names to lists of bytes, float32 or int64. Written from
https://www.tensorflow.org/tutorials/load_data/tfrecord and tensorflow/core/example/example.proto.
"""

import struct
from collections.abc import Container, Iterator, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from numpy.typing import NDArray

from robo_rl.core import DataError

from .data import library

Values = NDArray[Any] | list[bytes]
"""Values of an Example under one name: a one-dimensional array of float32 or int64, or a list of byte strings."""

_MASK = 0xA282EAD8
_MAX_ENTRIES = 10_000
_MAX_TEXTS = 10**6
_BLOCK = 2**16
_PACKAGE = "robo_rl.tfrecord"


def append_record(stream: BinaryIO, data: bytes) -> None:
    """Append a record to an open file."""
    length = struct.pack("<Q", len(data))
    stream.write(length + _checksum(length) + data + _checksum(data))


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the records of a file.

    Raises:
        DataError: if it cannot be read, or is damaged.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            while length := stream.read(8):
                if len(length) < 8 or stream.read(4) != _checksum(length):
                    raise DataError(f"{path}: a record's length does not match its checksum; the file is damaged")
                data = stream.read(min(struct.unpack("<Q", length)[0], size))
                if stream.read(4) != _checksum(data):
                    raise DataError(f"{path}: a record does not match its checksum; the file is damaged or cut short")
                yield data
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror})") from error


def encode_example(features: Mapping[str, Values]) -> bytes:
    """Return an Example of ``features``: byte strings, or arrays of numbers, whose shape is not stored."""
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


def decode_example(data: bytes, where: object, names: Container[str] | None = None) -> dict[str, Values]:
    """Inverse of :func:`encode_example`; numbers are (n,).

    The message is not parsed by protobuf, whose objects take a hundred times the bytes of an empty entry.

    Args:
        data: content of a record.
        where: name of the file, for error messages.
        names: features to return; None: all.

    Raises:
        DataError: if ``data`` is not an Example, or has too many entries.
    """
    values: dict[str, Values] = {}
    try:
        entries = 0
        for _, features in _fields(memoryview(data), 1):
            for _, entry in _fields(features, 1):
                entries += 1
                if entries > _MAX_ENTRIES:
                    raise ValueError(f"more than {_MAX_ENTRIES} features")
                parts = dict(_fields(entry, 1, 2))
                name = bytes(parts.get(1, b"")).decode()
                if 2 in parts and (names is None or name in names):
                    values[name] = _values(parts[2])
    except (ValueError, IndexError) as error:
        raise DataError(f"{where}: a record is not a tf.train.Example ({error})") from error
    return values


def _values(feature: memoryview) -> Values:
    """Return the list in a Feature; of several lists the last one counts, as in protobuf."""
    kind, content = 3, memoryview(b"")
    for kind, content in _fields(feature, 1, 2, 3):  # noqa: B007 - the last one is used
        pass
    if kind == 1:
        texts = [bytes(value) for _, value in islice(_fields(content, 1), _MAX_TEXTS + 1)]
        if len(texts) > _MAX_TEXTS:
            raise ValueError(f"more than {_MAX_TEXTS} strings or images in a feature")
        return texts
    runs = [value for _, value in _fields(content, 1)]
    if kind == 2:
        return np.frombuffer(b"".join(runs), "<f4").astype(np.float32)
    return _varints(b"".join(runs))


def _fields(message: memoryview, *wanted: int) -> Iterator[tuple[int, memoryview]]:
    """Yield number and bytes of the ``wanted`` fields of a message; single numbers are in their encoded form."""
    position, end = 0, len(message)
    while position < end:
        tag, position = _varint(message, position)
        number, kind = tag >> 3, tag & 7
        begin = position
        if kind == 2:
            length, begin = _varint(message, position)
            position = begin + length
        elif kind == 0:
            _, position = _varint(message, position)
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of type {kind}")
        if position > end:
            raise ValueError("it ends too early")
        if number in wanted:
            yield number, message[begin:position]


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number of more than ten bytes")


def _varints(data: bytes) -> NDArray[np.int64]:
    """Return the numbers of a packed field, decoded in blocks because decoding takes fifty bytes per byte."""
    octets, begin, blocks = np.frombuffer(data, np.uint8), 0, [np.zeros(0, np.uint64)]
    while begin < len(octets):
        block = octets[begin : begin + _BLOCK]
        ends = np.flatnonzero(block < 128)
        if not len(ends):
            raise ValueError("a number ends too early, or has more than ten bytes")
        begins = np.concatenate([[0], ends[:-1] + 1])
        lengths = ends - begins + 1
        if lengths.max() > 10:
            raise ValueError("a number of more than ten bytes")
        numbers = np.zeros(len(ends), np.uint64)
        for index in range(int(lengths.max())):
            exists = lengths > index
            numbers[exists] |= (block[begins[exists] + index] & np.uint8(127)).astype(np.uint64) << np.uint64(7 * index)
        blocks.append(numbers)
        begin += int(ends[-1]) + 1
    return np.concatenate(blocks).view(np.int64)


def _checksum(data: bytes) -> bytes:
    crc: int = library("google_crc32c").value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)


@cache
def _example_class() -> Any:
    """Return the message class. It has repeated entries of key and value, whose encoding is that of a map."""
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
