"""Data sets of robo-rl, weights and models that claim or expand to far more than they hold."""

import json
import struct

import numcodecs
import numpy as np

from ..bombs.bags import zeros
from ..bombs.images import png
from ..interchange import record

# --- data sets of robo-rl --------------------------------------------------------------------------------------------


def data_set(change):
    """Return a maker of a data set that ``change`` was applied to."""

    def make(folder):
        store, _ = record(folder)
        store.close()
        change(folder)
        return folder

    return make


def metadata(name, **changes):
    def change(folder):
        path = folder / "arrays.zarr" / name / "zarr.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def zstd_chunk(folder):
    (folder / "arrays.zarr/observation/state/c.0.0").write_bytes(zeros(2 << 30))


def stated_zstd_chunk(folder):
    """A frame that states four gigabytes."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0b11100000]) + struct.pack("<Q", 4 << 30) + b"\x01\x00\x00"
    (folder / "arrays.zarr/observation/state/c.0.0").write_bytes(frame)


def blosc_shard(folder):
    """Chunks of a shard that state two gigabytes each."""
    (path,) = (folder / "arrays.zarr/observation/images/front").glob("c.0*")
    data = bytearray(path.read_bytes())
    for offset, size in np.frombuffer(data[-16 * 20 - 4 : -4], "<u8").reshape(-1, 2).tolist():
        if size < 1 << 60:
            data[offset + 4 : offset + 8] = struct.pack("<I", 2_000_000_000)
    path.write_bytes(data)


def large_chunks(folder):
    path = folder / "arrays.zarr/observation/state/zarr.json"
    facts = json.loads(path.read_text())
    facts["chunk_grid"]["configuration"]["chunk_shape"] = [1 << 30, 3]
    path.write_text(json.dumps(facts))
    chunk = path.with_name("c.0.0")
    chunk.write_bytes(numcodecs.Zstd().encode(np.zeros(30, np.float32)))


def many_steps(folder):
    """An episode of two thousand million steps, of which no file exists."""
    path = folder / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[-1] |= {"steps": 2 * 10**9, "sources": {"human": 2 * 10**9}, "verdicts": {}}
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for array in (folder / "arrays.zarr").rglob("zarr.json"):
        facts = json.loads(array.read_text())
        if facts.get("shape"):
            facts["shape"][0] = 4 * 10**9
            array.write_text(json.dumps(facts))


def packed_twice(folder):
    path = folder / "arrays.zarr/observation/state/zarr.json"
    facts = json.loads(path.read_text())
    facts["codecs"].append(facts["codecs"][-1])
    path.write_text(json.dumps(facts))


DATA_SETS = {
    "zstd_chunk": data_set(zstd_chunk),
    "stated_zstd_chunk": data_set(stated_zstd_chunk),
    "blosc_shard": data_set(blosc_shard),
    "large_chunks": data_set(large_chunks),
    "many_steps": data_set(many_steps),
    "packed_twice": data_set(packed_twice),
}

# --- weights ---------------------------------------------------------------------------------------------------------


def weights(header, length=None):
    """Return a maker of a safetensors file with ``header``, which states ``length``."""

    def make(path):
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text)
        return path

    return make


def tensor(shape, end):
    return {"conv1.weight": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}


WEIGHTS = {
    "header_length": weights({}, 1 << 60),
    "shape": weights(tensor([1 << 40, 4], 1 << 44)),
    "shape_that_overflows": weights(tensor([1 << 32, 1 << 32, 2], 8)),
    "many_names": weights({str(n): {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(50_000)}),
}

# --- models ----------------------------------------------------------------------------------------------------------


def model(body="", asset="", head=""):
    """Return a maker of an MJCF file."""

    def make(path):
        (path.parent / "sky.png").write_bytes(png(20_000, 20_000))
        path.write_text(f"<mujoco>{head}<asset>{asset}</asset><worldbody>{body}</worldbody></mujoco>")
        return path

    return make


NESTED = '<replicate count="200">' * 3 + '<body><geom size="1"/></body>' + "</replicate>" * 3
ENTITIES = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


def entities(path):
    path.write_text(f"{ENTITIES}<mujoco><worldbody>&b;</worldbody></mujoco>")
    return path


MODELS = {
    "replicate": model('<replicate count="3000000"><geom size="1"/></replicate>'),
    "nested_replicate": model(NESTED),
    "composite": model('<composite type="cable" count="1000000 1 1" size="1"><geom size="1"/></composite>'),
    "flexcomp": model('<flexcomp name="f" type="grid" count="1000 1000 1000" spacing="1 1 1" mass="1"/>'),
    "texture": model(asset='<texture name="t" type="2d" builtin="flat" width="60000" height="60000"/>'),
    "texture_file": model(asset='<texture name="t" type="2d" file="sky.png"/>'),
    "hfield": model(asset='<hfield name="h" nrow="60000" ncol="60000" size="1 1 1 1"/>'),
    "cube_texture": model(asset='<texture name="t" type="cube" builtin="flat" width="8192" height="8192"/>'),
    "many_textures": model(
        asset="".join(f'<texture name="{n}" type="2d" builtin="flat" width="8192" height="8192"/>' for n in range(20))
    ),
    "many_hfields": model(
        asset="".join(f'<hfield name="{n}" nrow="4096" ncol="4096" size="1 1 1 1"/>' for n in range(100))
    ),
    "keys": model(head='<size nkey="10000"/>'),
    "memory": model(head='<size memory="200G"/>'),
    "include": model(head='<include file="model.xml"/>'),
    "entities": entities,
}
