"""Files of a few kilobytes that promise or expand to gigabytes: no reader takes memory or time for them.

All are read by one process, which forks for each of them; see :mod:`tests.rigs.bombs.reading`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ..rigs.bombs.bags import BAGS
from ..rigs.bombs.images import HARMLESS_WHEN_REDUCED, IMAGES
from ..rigs.bombs.lerobot import LEROBOT
from ..rigs.bombs.others import DATA_SETS, MODELS, WEIGHTS
from ..rigs.bombs.records import HDF5, RLDS
from ..rigs.bombs.runs import CHECKPOINTS, CONFIGS, POLICIES, URDFS

PROCESSOR_SECONDS = 5
NAMES = {
    "image": IMAGES,
    "message": [name for name in IMAGES if name.startswith("jpeg")],
    "lerobot": LEROBOT,
    "rlds": RLDS,
    "hdf5": HDF5,
    "bag": BAGS,
    "data_set": DATA_SETS,
    "weights": WEIGHTS,
    "model": MODELS,
    "urdf": URDFS,
    "config": CONFIGS,
    "checkpoint": CHECKPOINTS,
    "policy": POLICIES,
}
SAID = {
    "image/jpeg_fill_byte": "found a JPEG of 20000 x 20000",
    "image/jpeg_many_scans": "20009 scans",
    "lerobot/rows_of_data": "has 4000000 rows, expected at most 21",
    "lerobot/rows_of_episodes": "has 4000000 rows, expected at most 2",
    "lerobot/rows_that_are_declared": "stored bytes claim to expand to",
    "lerobot/long_lists": "'action.list.element' has 10000020 values",
    "lerobot/large_value": "'observation.images.front.bytes' has a dictionary of 100",
    "lerobot/repeated_value": "of frame 0 is a PNG of 64 x 64 pixels, 3 channels, uint8: 20000177 bytes",
    "lerobot/claimed_page": "2147483647 bytes",
    "lerobot/later_png_in_table": "episode 0: 'observation.images.front' of frame 1",
    "lerobot/video_of_another_size": "stored as uint8 (2048, 2048, 3); declared as (64, 64, 3)",
    "lerobot/video_playlist": "is not an MP4 file",
    "rlds/many_headers": "691000 stored bytes claim to expand to 90000000000",
    "rlds/episodes_declared": "expected 1000000000000000000 episodes",
    "hdf5/external_link": "/data/demo_0/obs/far is stored in another file",
    "hdf5/external_link_of_demo": "/data/demo_1 is stored in another file",
    "hdf5/external_link_aside": "/mask/train is stored in another file",
    "hdf5/soft_link_to_external": "/others/far is stored in another file",
    "hdf5/virtual_of_pipe": "state is stored in another file",
    "hdf5/external_pipe": "state is stored in another file",
    "hdf5/groups_in_a_circle": "has no supported observation",
    "hdf5/large_chunk": "chunks of 3221225472 bytes",
    "hdf5/gzip_beyond_its_chunk": "a chunk expands to more than its 84 bytes",
    "hdf5/gzip_of_gzip": "the HDF5 filters [1, 1]",
    "bag/fixed_texts": "20001 members",
    "bag/fixed_texts_of_sqlite": "20001 members",
    "bag/fixed_texts_of_idl": "20001 members",
    "bag/fixed_messages": "20002 members",
    "bag/empty_arrays": "an array of 0 elements",
    "bag/negative_arrays": "an array of -1 elements",
    "bag/of_itself": "the definition of",
    "bag/in_a_circle": "the definition of",
    "bag/many_fields": "a message definition has 888903 characters",
    "bag/many_text_fields": "5001 members",
    "bag/blank_lines": "100001 lines",
    "bag/long_default": "a message definition has 800027 characters",
    "bag/idl_shift": "computes constants with << or *",
    "bag/idl_long": "of IDL count several times",
    "bag/small_elements": "strings and messages, 1 per byte; at most 2000000",
    "bag/chain_of_messages": "31 per byte; at most",
    "bag/many_constants": "3001 members",
    "bag/many_values": "more than 20,000 values",
    "bag/long_profiles": "offered_qos_profiles: more than 20000 values",
    "bag/many_channels": "offered_qos_profiles: more than 20000 values",
    "bag/many_channels_packed": "offered_qos_profiles: more than 20000 values",
    "bag/topics_of_one_number": "800 topics but only 2 different",
    "bag/under_another_name": "expected names that end in .db3",
    "bag/pipe_under_another_name": "expected names that end in .mcap",
    "bag/packed_file_of_packed_chunk": "a chunk declares 1000 bytes",
    "bag/zstd_chunk": "a chunk declares 1000 bytes",
    "bag/zstd_chunk_of_stated_size": "compressed bytes expand to more than",
    "bag/lz4_chunk": "a chunk declares 1000 bytes",
    "bag/packed_file": "compressed bytes expand to more than",
    "bag/packed_message": "compressed bytes expand to more than",
    "bag/many_headers": "stored bytes claim to expand to",
    "bag/view": "'messages' is a view",
    "bag/computed_column": "column 'data' of 'messages' is generated",
    "data_set/zstd_chunk": "a chunk declares a size of",
    "data_set/blosc_shard": "a chunk declares a size of 2000000000 bytes",
    "data_set/many_steps": "is missing or cut short",
    "urdf/many_links": "8001 elements",
    "urdf/entities": "has a document type",
    "urdf/replicate": "elements including replicas",
    "config/aliases": "more than 20,000 values",
    "config/many_values": "expected at most 262,144 bytes",
    "checkpoint/sparse": "bytes, found more",
    "checkpoint/stated_size": "expected 137,438,953,472 bytes, found 10",
    "policy/outside": "in another file",
    "policy/doubling": "values of more than 67,108,864 elements",
    "model/nested_replicate": "elements",
    "model/many_textures": "textures and height fields take",
    "model/many_hfields": "textures and height fields take",
    "model/texture_file": "sky.png is a PNG of 20000 x 20000",
}
"""What some errors say: that it is the size for which the file is refused, and nothing before it."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bombs")
    command = [sys.executable, "-m", "tests.rigs.bombs.reading", str(folder)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_there_are_files_of_all_formats(outcomes):
    assert set(outcomes) == {f"{kind}/{name}" for kind, names in NAMES.items() for name in names}
    assert len(outcomes) > 60


@pytest.mark.parametrize("kind", NAMES)
def test_no_reader_takes_more_than_is_declared(outcomes, kind):
    """Beyond a gigabyte of memory or ten processor seconds a reader is ended; half of that is too long."""
    for name in NAMES[kind]:
        outcome, seconds, _ = outcomes[f"{kind}/{name}"]
        expected = "read" if name in HARMLESS_WHEN_REDUCED else "refused: "
        assert outcome.startswith(expected), f"{kind}/{name}: {outcome}"
        assert SAID.get(f"{kind}/{name}", "") in outcome, f"{kind}/{name}: {outcome}"
        assert seconds < PROCESSOR_SECONDS, f"{kind}/{name} took {seconds} s"
