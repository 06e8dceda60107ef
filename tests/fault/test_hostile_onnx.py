"""ONNX files from others: what they may not contain, claim or name."""

import json
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from robo_rl.core import DataError
from robo_rl.deployment import onnx_policy
from robo_rl.deployment.onnx_policy import OnnxPolicy

from ..rigs.deployed import make_agent, write

REFUSED = "which robo-rl deploy does not write: do not use this file"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    file = tmp_path_factory.mktemp("written") / "policy.onnx"
    write(make_agent("bc"), "bc", file, 1)
    return file.read_bytes()


@pytest.fixture
def model(written):
    return onnx.ModelProto.FromString(written)


def load(model):
    return OnnxPolicy(model.SerializeToString(), "policy.onnx")


def insert(model, operator, output="extra", inputs=("state",), **attributes):
    model.graph.node.insert(0, helper.make_node(operator, list(inputs), [output], **attributes))


def test_the_file_itself_is_accepted(model):
    assert load(model).description.agent == "bc"


@pytest.mark.parametrize("content", [b"", b"not ONNX", b"\xff" * 100, b"\x08\x08" * 1000])
def test_other_files_are_refused(content, tmp_path):
    file = tmp_path / "policy.onnx"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"policy\.onnx"):
        OnnxPolicy.load(file)


def test_every_truncation_is_refused(written):
    for length in np.linspace(1, len(written) - 1, 60).astype(int):
        with pytest.raises(DataError):
            OnnxPolicy(written[:length], "policy.onnx")


def test_random_damage_raises_no_other_error(written):
    rng = np.random.default_rng(0)
    for _ in range(150):
        data = bytearray(written)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(256)
        try:
            policy = OnnxPolicy(bytes(data), "policy.onnx")
            keys = {key: policy.description.spec.observation[key].shape for key in policy.description.observed}
            policy.act({key: np.zeros(shape, np.float32) for key, shape in keys.items()})
        except DataError:
            pass


def test_folders_pipes_missing_and_large_files_are_refused(tmp_path, monkeypatch, written):
    import os

    os.mkfifo(tmp_path / "pipe.onnx")
    for name in ("pipe.onnx", "missing.onnx", "."):
        with pytest.raises(DataError):
            OnnxPolicy.load(tmp_path / name)
    (tmp_path / "policy.onnx").write_bytes(written)
    monkeypatch.setattr(onnx_policy, "MOST_BYTES", len(written) - 1)
    with pytest.raises(DataError, match="expected at most"):
        OnnxPolicy.load(tmp_path / "policy.onnx")


def test_parameters_in_other_files_are_refused(model, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 4096)
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", str(secret)
    with pytest.raises(DataError, match=f"in another file, {REFUSED}"):
        load(model)
    tensor.data_location = TensorProto.DEFAULT  # the entry alone
    with pytest.raises(DataError, match=f"in another file, {REFUSED}"):
        load(model)


def test_custom_operators_functions_and_training_are_refused(model):
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(DataError, match=f"operators of 'com.example', {REFUSED}"):
        load(model)
    del model.opset_import[1:]
    insert(model, "Run", domain="com.example")
    with pytest.raises(DataError, match=r"operators of 'com\.example'"):
        load(model)
    del model.graph.node[0]
    opset = [helper.make_opsetid("", 17)]
    node = helper.make_node("Relu", ["x"], ["y"])
    model.functions.append(helper.make_function("", "Tanh", ["x"], ["y"], [node], opset))
    with pytest.raises(DataError, match=f"functions, training.*{REFUSED}"):
        load(model)


def branch():
    output = helper.make_tensor_value_info("inner", TensorProto.FLOAT, [1])
    node = helper.make_node("Constant", [], ["inner"], value=numpy_helper.from_array(np.zeros(1, np.float32)))
    return helper.make_graph([node], "branch", [], [output])


@pytest.mark.parametrize("operator", ["Loop", "If", "Scan", "ConstantOfShape", "Expand", "Tile", "PyOp"])
def test_operators_that_are_not_written_are_refused(model, operator):
    insert(model, operator)
    with pytest.raises(DataError, match=f"the operator '{operator}', {REFUSED}"):
        load(model)


def test_subgraphs_in_attributes_are_refused(model):
    insert(model, "Relu", then_branch=branch())
    with pytest.raises(DataError, match=f"a tensor or a graph as an attribute, {REFUSED}"):
        load(model)


def test_values_that_grow_are_refused_before_they_are_computed(model):
    """Forty doublings: a terabyte from one kilobyte."""
    previous = "state"
    for step in range(40):
        insert(model, "Concat", f"grown{step}", (previous, previous), axis=0)
        previous = f"grown{step}"
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*reversed(nodes[:40]), *nodes[40:]])
    start = time.monotonic()
    with pytest.raises(DataError, match="values of more than"):
        load(model)
    assert time.monotonic() - start < 60


def zeros(name, *shape):
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Conv", [zeros("signal", 1, 1, 400_000), zeros("kernel", 1, 1, 200_000)], {}),
        ("MatMul", [zeros("left", 4000, 4000), zeros("right", 4000, 4000)], {}),
        ("MaxPool", [zeros("signal", 1, 1, 400_000)], {"kernel_shape": [200_000]}),
    ],
)
def test_decisions_that_take_minutes_are_refused_before_they_are_computed(model, operator, inputs, attributes):
    model.graph.initializer.extend(inputs)
    model.graph.node.append(helper.make_node(operator, [each.name for each in inputs], ["extra"], **attributes))
    with pytest.raises(DataError, match=f"a decision of more than .* multiplications, {REFUSED}"):
        load(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.graph.initializer.extend([zeros("a", 1)] * 20_000), "more than 10,000 parameters"),
        (lambda model: insert(model, "Concat", inputs=["state"] * 50_000), "more than 10,000 inputs of operators"),
        (lambda model: insert(model, "Relu", axes=[1] * 100_000), "more than 10,000 attributes"),
        (lambda model: model.graph.value_info.extend([model.graph.input[0]] * 20_000), "more than 10,000 stated"),
        (lambda model: model.metadata_props.extend([onnx.StringStringEntryProto()] * 20_000), "10,000 texts"),
        (lambda model: setattr(model, "doc_string", "x" * (9 << 20)), "bytes besides its parameters"),
    ],
)
def test_models_of_many_parts_are_refused(model, change, message):
    change(model)
    with pytest.raises(DataError, match=message):
        load(model)


def test_parameters_that_claim_more_than_they_hold_are_refused(model):
    model.graph.initializer[0].dims[0] = 1 << 40
    with pytest.raises(DataError, match="is incomplete"):
        load(model)


def test_shapes_that_are_not_fixed_are_refused(model):
    for each in model.graph.input:
        each.type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(DataError):
        load(model)


def replaced(model, change):
    entry = model.metadata_props[0]
    value = json.loads(entry.value)
    change(value)
    entry.value = json.dumps(value)
    return model


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value.pop("spec"), "is damaged"),
        (lambda value: value.pop("format"), "is damaged"),
        (lambda value: value.update(format=99), "has format 99; this version of robo-rl reads up to format 1"),
        (lambda value: value.update(format=True), "is damaged"),
        (lambda value: value["action"].update(chunk=10**9), "is damaged"),
        (lambda value: value["action"].update(chunk=2), "expected the output 'action' of shape"),
        (lambda value: value["observation"].pop("state"), "input 'state': expected None"),
        (lambda value: value["observation"].update(other={}), "are not in the spec"),
        (lambda value: value["spec"].update(control_rate=-1.0), "control_rate"),
        (lambda value: value["spec"]["observation"]["state"].update(shape=[10**9]), "input 'state': expected"),
        (
            lambda value: value["spec"].update(action_space="joint_delta", extra={"joint_scale": {"a": 1}}),
            "expected a finite number",
        ),
        (
            lambda value: value["spec"]["extra"].update(action_low=["a"] * 2, action_high=[None] * 2),
            "expected a finite number",
        ),
        (lambda value: value["noise"].update(size=5), "input 'noise': expected"),
        (lambda value: value["spec"]["action"].update(shape=[], names=[]), "is damaged"),
    ],
)
def test_descriptions_that_are_wrong_are_refused(model, change, message):
    with pytest.raises(DataError, match=message):
        load(replaced(model, change))


def test_files_without_a_description_are_refused(model):
    text = model.metadata_props[0].value
    del model.metadata_props[:]
    with pytest.raises(DataError, match=r"expected the metadata 'robo_rl.policy'"):
        load(model)
    for value in ("not JSON", "[" * 100_000, text + " " * (1 << 20)):
        del model.metadata_props[:]
        helper.set_model_props(model, {"robo_rl.policy": value})
        with pytest.raises(DataError):
            load(model)


def test_actions_out_of_range_are_refused(model):
    """A model that returns its observation, in place of the last limit."""
    observation = {"state": np.full(6, 3, np.float32), "object": np.zeros(3, np.float32)}
    for node in model.graph.node:
        if node.op_type == "Clip":
            for name in node.input[1:]:
                for tensor in model.graph.initializer:
                    if tensor.name == name:
                        value = numpy_helper.to_array(tensor)
                        tensor.raw_data = (value * 0 + 5 + np.sign(value)).astype(np.float32).tobytes()
    with pytest.raises(DataError, match=r"expected actions in \[-1, 1\], the model returned"):
        load(model).act(observation)
    with pytest.raises(DataError):
        load(onnx.ModelProto.FromString(model.SerializeToString())).act(
            observation | {"state": np.zeros(5, np.float32)}
        )
