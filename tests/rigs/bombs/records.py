"""RLDS data sets and HDF5 files that claim or expand to far more than they declare."""

import json
import os
import struct
from pathlib import Path

import h5py
import numpy as np
from isal import isal_zlib

from robo_rl.replay.interchange.rlds_layout import Feature, features_json
from robo_rl.replay.interchange.tfrecord import _checksum, append_record, encode_example

from .images import png, resized_jpeg

STEPS = 7
FEATURES = {
    "steps/observation/state": Feature("tensor", (3,), "float32"),
    "steps/action": Feature("tensor", (2,), "float32"),
}


def rlds(folder, record=None, **features):
    """Write a data set of one episode; ``features`` are a feature and its values each."""
    folder.mkdir(parents=True)
    named = {f"steps/{name.replace('__', '/')}": feature for name, (feature, _) in features.items()}
    (folder / "features.json").write_text(features_json(FEATURES | named))
    columns = {
        "steps/observation/state": np.zeros((STEPS, 3), np.float32),
        "steps/action": np.zeros((STEPS, 2), np.float32),
        **{f"steps/{name.replace('__', '/')}": values for name, (_, values) in features.items()},
    }
    with (folder / "x-train.tfrecord-00000-of-00001").open("wb") as stream:
        append_record(stream, encode_example(columns) if record is None else record)
    return folder


def long_record(folder):
    length = struct.pack("<Q", 1 << 40)
    (rlds(folder) / "x-train.tfrecord-00000-of-00001").write_bytes(length + _checksum(length) + b"few")
    return folder


def field(number, content):
    size, length = len(content), b""
    while size >= 128:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def empty_entries(folder):
    """Five million entries of a map: 100 bytes each to protobuf, two in the file."""
    return rlds(folder, field(1, b"\x0a\x00" * 5_000_000))


def empty_texts(folder):
    entry = field(1, b"steps/observation/state") + field(2, field(1, b"\x0a\x00" * 5_000_000))
    return rlds(folder, field(1, field(1, entry)))


def many_numbers(folder):
    entry = field(1, b"steps/observation/state") + field(2, field(3, field(1, b"\x01" * 20_000_000)))
    return rlds(folder, field(1, field(1, entry)))


def declared(shape, data=None):
    """Return a maker of a data set with images of a declared shape."""

    def make(folder):
        return rlds(
            folder, observation__front=(Feature("image", shape, "uint8"), [data or png(20_000, 20_000)] * STEPS)
        )

    return make


def many_headers(folder):
    """A thousand images of 90 MB by their headers, in 700 KB."""
    kind = Feature("image", (None, None, 3), "uint8")
    return rlds(folder, observation__front=(kind, [resized_jpeg(6000, 5000)] * 1000))


def large_tensor(folder):
    return rlds(folder, observation__front=(Feature("tensor", (1 << 40, 1 << 40), "float32"), np.zeros(5, np.float32)))


def sparse_features(folder):
    with (rlds(folder) / "features.json").open("wb") as stream:
        stream.truncate(3 * 2**30)
    return folder


def many_shards(folder):
    (rlds(folder) / "dataset_info.json").write_text(
        json.dumps({"splits": [{"name": "train", "shardLengths": [10**18]}]})
    )
    return folder


RLDS = {
    "long_record": long_record,
    "empty_entries": empty_entries,
    "empty_texts": empty_texts,
    "many_numbers": many_numbers,
    "png_size": declared((64, 64, 3)),
    "png_of_undeclared_size": declared((None, None, 3)),
    "jpeg_size": declared((64, 64, 3), resized_jpeg(20_000, 20_000)),
    "many_headers": many_headers,
    "large_tensor": large_tensor,
    "sparse_features": sparse_features,
    "episodes_declared": many_shards,
}

# --- HDF5 ------------------------------------------------------------------------------------------------------------


def hdf5(make_state):
    """Return a maker of a robomimic file whose state ``make_state`` makes in the group that it is given."""

    def make(path):
        with h5py.File(path, "w") as file:
            demo = file.create_group("data/demo_0")
            demo.create_dataset("actions", data=np.zeros((STEPS, 2), np.float32))
            make_state(demo.create_group("obs"))
        return path

    return make


def packed(chunk, times=1, size=1 << 30):
    """Write a chunk that gzip, or gzip of gzip, expands to ``size`` bytes."""

    def make(obs):
        creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        creation.set_chunk(chunk)
        for _ in range(times):
            creation.set_deflate(4)
        space = h5py.h5s.create_simple((STEPS, 3))
        state = h5py.h5d.create(obs.id, b"state", h5py.h5t.IEEE_F32LE, space, creation)
        expander = isal_zlib.compressobj(3)
        data = b"".join(expander.compress(bytes(2**24)) for _ in range(size >> 24)) + expander.flush()
        for _ in range(times - 1):
            data = isal_zlib.compress(data)
        state.write_direct_chunk((0, 0), data)

    return make


def large_chunk(obs):
    """A chunk of three gigabytes that holds a few kilobytes of gzip."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk((1 << 28, 3))
    creation.set_deflate(4)
    space = h5py.h5s.create_simple((STEPS, 3), (h5py.h5s.UNLIMITED, 3))
    state = h5py.h5d.create(obs.id, b"state", h5py.h5t.IEEE_F32LE, space, creation)
    state.write_direct_chunk((0, 0), isal_zlib.compress(bytes(100)))


def virtual(obs):
    layout = h5py.VirtualLayout((STEPS, 1 << 40), "f4")
    layout[:, :3] = h5py.VirtualSource("other.hdf5", "state", shape=(STEPS, 3))
    obs.create_virtual_dataset("state", layout)


def texts(obs):
    """One text of a megabyte, which every element names."""
    state = obs.create_dataset("state", (STEPS, 3), h5py.string_dtype())
    state[...] = "x" * 2**20


def pipe(obs):
    """Return the path of a pipe beside the file, which nobody ever opens to write."""
    path = Path(obs.file.filename).with_suffix(".pipe")
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def external_link(place):
    """Return a maker of a link at ``place`` to an object in a pipe."""

    def make(obs):
        obs["state"] = np.zeros((STEPS, 3))
        obs.file[place] = h5py.ExternalLink(pipe(obs), "/x")

    return make


def soft_link_to_external(obs):
    obs["state"] = h5py.SoftLink("/others/far/state")
    obs.file["others/far"] = h5py.ExternalLink(pipe(obs), "/x")


def virtual_of_pipe(obs):
    """The extent depends on that of the source, which HDF5 opens to tell the shape."""
    layout = h5py.VirtualLayout((STEPS, 3), "f4", maxshape=(None, 3))
    source = h5py.VirtualSource(pipe(obs), "state", (STEPS, 3), maxshape=(None, 3))
    layout[: h5py.h5s.UNLIMITED, :] = source[: h5py.h5s.UNLIMITED, :]
    obs.create_virtual_dataset("state", layout)


def external_pipe(obs):
    obs.create_dataset("state", (STEPS, 3), "f4", external=[(pipe(obs), 0, 1 << 40)])


def groups_in_a_circle(obs):
    """A hundred groups, each of which holds all others."""
    groups = [obs.file.create_group(f"round/{number}") for number in range(100)]
    for group in groups:
        for number, other in enumerate(groups):
            group[f"to_{number}"] = other
    obs["state"] = obs["all"] = obs.file


HDF5 = {
    "external_link": hdf5(external_link("data/demo_0/obs/far")),
    "external_link_of_demo": hdf5(external_link("data/demo_1")),
    "external_link_aside": hdf5(external_link("mask/train")),
    "soft_link_to_external": hdf5(soft_link_to_external),
    "virtual_of_pipe": hdf5(virtual_of_pipe),
    "external_pipe": hdf5(external_pipe),
    "groups_in_a_circle": hdf5(groups_in_a_circle),
    "chunks_that_are_absent": hdf5(lambda obs: obs.create_dataset("state", (STEPS, 1 << 40), "f4", chunks=(1, 1024))),
    "never_written": hdf5(lambda obs: obs.create_dataset("state", (STEPS, 1 << 30), "f4")),
    "filled": hdf5(lambda obs: obs.create_dataset("state", (STEPS, 1 << 30), "f4", fillvalue=1, chunks=(1, 1 << 20))),
    "large_chunk": hdf5(large_chunk),
    "gzip_beyond_its_chunk": hdf5(packed((STEPS, 3))),
    "gzip_of_gzip": hdf5(packed((STEPS, 3), times=2, size=1 << 24)),
    "virtual": hdf5(virtual),
    "external": hdf5(
        lambda obs: obs.create_dataset("state", (STEPS, 1 << 30), "f4", external=[("/dev/zero", 0, 1 << 40)])
    ),
    "texts": hdf5(texts),
    "many_dimensions": hdf5(lambda obs: obs.create_dataset("state", (STEPS, *([1 << 10] * 5)), "u1", chunks=True)),
}
