"""Shards that we write, as Zarr reads them."""

import numpy as np
import pytest
import zarr

from robo_rl.core import ArraySpec, DataError, EnvSpec
from robo_rl.replay import shards
from robo_rl.replay.layout import create_arrays, open_arrays

NAME = "observation/large"


@pytest.fixture(params=[((20, 20, 3), "uint8"), ((300,), "float32")])
def array(request, tmp_path):
    shape, dtype = request.param
    spec = EnvSpec(
        task="test",
        observation={"large": ArraySpec(shape, dtype)},
        action=ArraySpec((2,), low=-1, high=1),
        action_space="joint_position",
        action_frame="base",
        control_rate=10.0,
        max_episode_steps=10,
        reward_terms=("success",),
    )
    create_arrays(tmp_path / "arrays", spec)
    array = open_arrays(tmp_path / "arrays", spec, writable=True)[NAME]
    array.resize((1000, *shape))
    return tmp_path / "arrays", array


def rows_of(array, count, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (count, *array.shape[1:]))
    return rows.astype(array.dtype)


def test_zarr_reads_what_was_written_in_pieces(array):
    folder, array = array
    writer = shards.ShardWriter(array, folder / NAME)
    truth = np.zeros(array.shape, array.dtype)
    end = 0
    # Of one row, across chunks and shards, to their borders; then over what a discarded episode left.
    for seed, (start, count) in enumerate(
        [(0, 1), (1, 8), (9, 1), (10, 195), (205, 5), (210, 1), (200, 3), (203, 397), (600, 399), (620, 30)]
    ):
        rows = rows_of(array, count, seed)
        writer.write(start, rows if seed % 2 else list(rows))
        end = start + count
        truth[start:end] = rows
        found = zarr.open_array(folder, path=NAME, mode="r")
        np.testing.assert_array_equal(found[:end], truth[:end])
    assert end == 650


def test_zarr_goes_on_with_what_was_written(array):
    folder, array = array
    writer = shards.ShardWriter(array, folder / NAME)
    rows = rows_of(array, 450, 0)
    writer.write(0, rows[:215])
    array[215:418] = rows[215:418]
    writer.write(418, rows[418:])
    np.testing.assert_array_equal(zarr.open_array(folder, path=NAME, mode="r")[:450], rows)


def test_damage_is_never_written_on(array):
    folder, array = array
    writer = shards.ShardWriter(array, folder / NAME)
    rows = rows_of(array, 40, 0)
    writer.write(0, rows)
    (file,) = (file for file in (folder / NAME).iterdir() if file.name != "zarr.json")
    whole = file.read_bytes()
    for damaged in (whole[:-5] + b"\0" + whole[-4:], whole[:50], b"", whole[len(whole) // 2 :]):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"c\.0.*the shard is damaged \(.*restore the data set"):
            writer.write(40, rows[:10])
        assert file.read_bytes() == damaged
    # A chunk that is damaged itself stays so, and whoever reads it is told.
    file.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    writer.write(40, rows[:10])
    np.testing.assert_array_equal(array[10:40], rows[10:])
    with pytest.raises(ValueError, match="checksum"):
        array[:10]
