"""Messages taken apart by hand are what protobuf reads; what is no message is refused."""

import contextlib

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from robo_rl.transport.framing import join_fields, split_fields
from robo_rl.transport.messages_pb2 import ActorStatistics, ExchangeRequest, Record
from robo_rl.transport.received import read_exchange, read_record

NUMBERS = st.integers(0, 2**64 - 1)
RECORDS = st.builds(
    Record,
    sequence=NUMBERS,
    episode=NUMBERS,
    observation=st.binary(max_size=300),
    step=st.binary(max_size=300),
    refusal=st.text(max_size=5),
    images=st.lists(st.binary(max_size=300), max_size=3),
    first_images=st.lists(st.binary(max_size=300), max_size=3),
    image_coding=st.integers(0, 2),
)


@settings(max_examples=200)
@given(RECORDS)
def test_a_record_and_its_images(record: Record) -> None:
    received = read_record(record.SerializeToString(), has_images=True)
    assert received.images == list(record.images)
    assert received.first_images == list(record.first_images)
    del record.images[:], record.first_images[:]
    assert received.message == record


@settings(max_examples=50)
@given(st.lists(RECORDS, max_size=3), NUMBERS, st.floats(allow_nan=False))
def test_a_request_and_its_records(records: list[Record], session: int, held: float) -> None:
    request = ExchangeRequest(
        actor="robot",
        session=session,
        records=[record.SerializeToString() for record in records],
        session_ended=True,
        statistics=ActorStatistics(policy_version=-1, held_seconds=held, pictures={"front": b"jpeg"}),
    )
    received = read_exchange(request.SerializeToString())
    assert received.actor == "robot"
    assert received.records == list(request.records)
    del request.records[:]
    assert received.message == request


def test_images_are_views_of_what_arrived() -> None:
    record = Record(sequence=1, images=[b"left", b"right"]).SerializeToString()
    data = join_fields(b"", [(ExchangeRequest.RECORDS_FIELD_NUMBER, record)])
    (received,) = read_exchange(data).records
    for image in read_record(received, has_images=True).images:
        assert np.shares_memory(np.frombuffer(image, np.uint8), np.frombuffer(data, np.uint8))


def test_what_is_no_message_is_refused() -> None:
    whole = Record(sequence=300, step=b"a" * 200, images=[b"b" * 200]).SerializeToString()
    cuts = []
    for size in range(len(whole)):
        # Between two fields a message may end.
        with contextlib.suppress(DecodeError):
            split_fields(whole[:size], Record.IMAGES_FIELD_NUMBER)
            cuts.append(size)
    assert cuts == [0, 3, 3 + 203]
    for damaged in (b"\x0b", b"\x08" + b"\xff" * 11, b"\xff" * 20, b"\x3a\x05abc"):
        with pytest.raises(DecodeError):
            split_fields(damaged, Record.IMAGES_FIELD_NUMBER)


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_protobuf_reads_them_or_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        received = read_record(data, has_images=True)
        record = Record.FromString(data)
        assert received.images == list(record.images)
        assert received.message.sequence == record.sequence
