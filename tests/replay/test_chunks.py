"""Files of arrays that we write, as Zarr reads them."""

import numpy as np
import pytest
import zarr

from robo_rl.core import ArraySpec, DataError, EnvSpec
from robo_rl.replay import chunks
from robo_rl.replay.layout import create_arrays, open_arrays

NAME = "observation/rows"


def array_of(folder, shape, dtype):
    """Return an array of 3,000 rows as data sets have it."""
    spec = EnvSpec(
        task="test",
        observation={"rows": ArraySpec(shape, dtype)},
        action=ArraySpec((2,), low=-1, high=1),
        action_space="joint_position",
        action_frame="base",
        control_rate=10.0,
        max_episode_steps=10,
        reward_terms=("success",),
    )
    create_arrays(folder, spec)
    array = open_arrays(folder, spec, writable=True)[NAME]
    array.resize((3000, *shape))
    assert chunks.is_written_so(array)
    return array


@pytest.fixture(params=[((20, 20, 3), "uint8"), ((300,), "float32"), ((5,), "float32"), ((), "int64")])
def array(request, tmp_path):
    return tmp_path, array_of(tmp_path, *request.param)


def rows_of(array, count, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (count, *array.shape[1:]))
    return rows.astype(array.dtype)


def test_zarr_reads_what_was_written_in_pieces(array):
    folder, array = array
    writer = chunks.ChunkWriter(array, folder / NAME)
    truth = np.zeros(array.shape, array.dtype)
    end = 0
    # Of one row, across chunks and shards, to their borders; then over what a discarded episode left.
    for seed, (start, count) in enumerate(
        [
            (0, 1),
            (1, 8),
            (9, 1),
            (10, 195),
            (205, 5),
            (210, 1),
            (200, 3),
            (203, 397),
            (600, 2000),
            (1020, 4),
            (1020, 30),
        ]
    ):
        rows = rows_of(array, count, seed)
        writer.write(start, rows if seed % 2 else list(rows))
        end = start + count
        truth[start:end] = rows
        found = zarr.open_array(folder, path=NAME, mode="r")
        np.testing.assert_array_equal(found[:end], truth[:end])
    assert end == 1050


def test_zarr_goes_on_with_what_was_written(array):
    folder, array = array
    writer = chunks.ChunkWriter(array, folder / NAME)
    rows = rows_of(array, 450, 0)
    writer.write(0, rows[:215])
    array[215:418] = rows[215:418]
    writer.write(418, rows[418:])
    np.testing.assert_array_equal(zarr.open_array(folder, path=NAME, mode="r")[:450], rows)


def test_damage_is_never_written_on(array):
    folder, array = array
    writer = chunks.ChunkWriter(array, folder / NAME)
    rows = rows_of(array, 45, 0)
    writer.write(0, rows)
    (file,) = (file for file in (folder / NAME).iterdir() if file.name != "zarr.json")
    whole = file.read_bytes()
    for damaged in (whole[:-5] + b"\0" + whole[-4:], whole[:50], b"", whole[len(whole) // 2 :]):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"c\.0.* is damaged \(.*restore the data set"):
            writer.write(45, rows[:10])
        assert file.read_bytes() == damaged
    file.unlink()
    with pytest.raises(DataError, match="it is missing"):
        writer.write(45, rows[:10])


def test_a_damaged_chunk_that_is_not_decoded_stays_damaged(tmp_path):
    array = array_of(tmp_path, (20, 20, 3), "uint8")
    writer = chunks.ChunkWriter(array, tmp_path / NAME)
    rows = rows_of(array, 50, 0)
    writer.write(0, rows[:40])
    file = tmp_path / NAME / "c.0.0.0.0"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    writer.write(40, rows[40:])
    np.testing.assert_array_equal(array[10:50], rows[10:])
    with pytest.raises(ValueError, match="checksum"):
        array[:10]
