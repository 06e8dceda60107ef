"""Files of runs, policies and robots that claim or expand to far more than they hold."""

import hashlib
import json
import struct

import onnx
from onnx import TensorProto, helper

from robo_rl.learner.checkpoint import FORMAT, _digest

from ..deployed import make_agent, write
from .others import tensor

# --- configurations --------------------------------------------------------------------------------------------------


def text(content):
    """Return a maker of a file with this text."""

    def make(path):
        path.write_text(content)
        return path

    return make


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
CONFIGS = {
    "aliases": text(LAUGHS),
    "merges": text("a: &a {x: 1}\n" + "".join(f"b{n}: {{<<: [{', '.join(['*a'] * 1000)}]}}\n" for n in range(300))),
    "nested": text("a: " + "[" * 200_000 + "]" * 200_000),
    "many_values": text("a: [" + "1, " * 3_000_000 + "1]"),
    "digits": text("a: " + "9" * 5_000_000),
    "sexagesimal": text("a: 1" + ":59" * 200_000),
}

# --- checkpoints -----------------------------------------------------------------------------------------------------


def checkpoint(header, length=None, stated=None):
    """Return a maker of a checkpoint whose hashes are right, with a part of this header."""

    def make(folder):
        folder = folder / "step_000000005"
        folder.mkdir(parents=True)
        head = json.dumps(header).encode()
        data = struct.pack("<Q", len(head) if length is None else length) + head
        (folder / "agent.safetensors").write_bytes(data)
        size = len(data) if stated is None else stated
        content = {
            "step": 5,
            "sha256": {"agent": hashlib.sha256(data).hexdigest()},
            "bytes": {"agent": size},
            "facts": {},
        }
        (folder / "manifest.json").write_text(json.dumps({"format": FORMAT, **content, "digest": _digest(content)}))
        return folder

    return make


def sparse_checkpoint(folder):
    """A part of a terabyte of zeros that takes no place on the disk, of the stated size."""
    folder = checkpoint({}, stated=1 << 40)(folder)
    with (folder / "agent.safetensors").open("r+b") as stream:
        stream.truncate(1 << 40)
    return folder


CHECKPOINTS = {
    "header_length": checkpoint({}, 1 << 60),
    "shape": checkpoint(tensor([1 << 40, 4], 1 << 44)),
    "shape_of_nothing": checkpoint(tensor([0, 1 << 62], 0)),
    "stated_size": checkpoint({}, stated=1 << 37),
    "sparse": sparse_checkpoint,
}

# --- policies --------------------------------------------------------------------------------------------------------


def policy(change):
    """Return a maker of a policy in ONNX that ``change`` was applied to."""

    def make(path):
        path = path.with_suffix(".onnx")
        write(make_agent("bc"), "bc", path, 1)
        model = onnx.load_model(str(path))
        change(model.graph)
        path.write_bytes(model.SerializeToString())
        return path

    return make


def computed(operator, shape, **attributes):
    """Return a change that adds a node which computes a value of this ``shape``."""

    def change(graph):
        graph.initializer.append(helper.make_tensor("huge", TensorProto.INT64, [len(shape)], shape))
        inputs = ["huge"] if operator == "ConstantOfShape" else ["state", "huge"]
        graph.node.insert(0, helper.make_node(operator, inputs, ["extra"], **attributes))

    return change


def claimed(graph):
    tensor_ = helper.make_tensor("huge", TensorProto.FLOAT, [1], [0.0])
    tensor_.dims[:] = [1 << 40]
    graph.initializer.append(tensor_)


def outside(graph):
    tensor_ = helper.make_tensor("huge", TensorProto.FLOAT, [1], [0.0])
    tensor_.ClearField("float_data")
    tensor_.dims[:], tensor_.data_location = [1 << 30], TensorProto.EXTERNAL
    entry = tensor_.external_data.add()
    entry.key, entry.value = "location", "/dev/zero"
    graph.initializer.append(tensor_)


def doubling(graph):
    """Twice as many values after each of forty nodes."""
    name = "state"
    for number in range(40):
        graph.node.insert(number, helper.make_node("Concat", [name, name], [f"extra{number}"], axis=-1))
        name = f"extra{number}"


POLICIES = {
    "constant": policy(computed("ConstantOfShape", [1 << 20, 1 << 20])),
    "expand": policy(computed("Expand", [1 << 40, 6])),
    "tile": policy(computed("Tile", [1 << 40])),
    "claimed": policy(claimed),
    "outside": policy(outside),
    "doubling": policy(doubling),
}

# --- robots in URDF --------------------------------------------------------------------------------------------------

LINK = '<link name="l{0}"/><joint name="j{0}" type="fixed"><parent link="base"/><child link="l{0}"/></joint>'


def urdf(content, head=""):
    return text(f'{head}<robot name="arm"><link name="base"/>{content}</robot>')


ENTITIES = "<!DOCTYPE a [<!ENTITY a0 'aaaaaaaaaa'>" + "".join(
    f"<!ENTITY a{n + 1} '{f'&a{n};' * 10}'>" for n in range(9)
)
URDFS = {
    "many_links": urdf("".join(LINK.format(number) for number in range(100_000))),
    "entities": urdf("&a9;", ENTITIES + "]>"),
    "nested": urdf("<a>" * 200_000 + "</a>" * 200_000),
    "replicate": urdf('<mujoco><replicate count="3000000"><geom size="1"/></replicate></mujoco>'),
}
