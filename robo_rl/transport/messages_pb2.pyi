from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ImageCoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RAW: _ClassVar[ImageCoding]
    ZSTD: _ClassVar[ImageCoding]
    JPEG: _ClassVar[ImageCoding]
RAW: ImageCoding
ZSTD: ImageCoding
JPEG: ImageCoding

class Record(_message.Message):
    __slots__ = ("sequence", "episode", "observation", "step", "refusal", "verdict", "images", "first_images", "image_coding")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    FIRST_IMAGES_FIELD_NUMBER: _ClassVar[int]
    IMAGE_CODING_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    episode: int
    observation: bytes
    step: bytes
    refusal: str
    verdict: SafetyVerdict
    images: _containers.RepeatedScalarFieldContainer[bytes]
    first_images: _containers.RepeatedScalarFieldContainer[bytes]
    image_coding: ImageCoding
    def __init__(self, sequence: _Optional[int] = ..., episode: _Optional[int] = ..., observation: _Optional[bytes] = ..., step: _Optional[bytes] = ..., refusal: _Optional[str] = ..., verdict: _Optional[_Union[SafetyVerdict, _Mapping]] = ..., images: _Optional[_Iterable[bytes]] = ..., first_images: _Optional[_Iterable[bytes]] = ..., image_coding: _Optional[_Union[ImageCoding, str]] = ...) -> None: ...

class SafetyVerdict(_message.Message):
    __slots__ = ("changed", "stop", "reasons", "message")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    stop: bool
    reasons: _containers.RepeatedScalarFieldContainer[str]
    message: str
    def __init__(self, changed: _Optional[bool] = ..., stop: _Optional[bool] = ..., reasons: _Optional[_Iterable[str]] = ..., message: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("protocol", "actor", "run", "session", "newest_session", "held_sessions", "facts")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_SESSION_FIELD_NUMBER: _ClassVar[int]
    HELD_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    actor: str
    run: str
    session: int
    newest_session: int
    held_sessions: _containers.RepeatedScalarFieldContainer[int]
    facts: str
    def __init__(self, protocol: _Optional[int] = ..., actor: _Optional[str] = ..., run: _Optional[str] = ..., session: _Optional[int] = ..., newest_session: _Optional[int] = ..., held_sessions: _Optional[_Iterable[int]] = ..., facts: _Optional[str] = ...) -> None: ...

class JoinReply(_message.Message):
    __slots__ = ("run", "incarnation", "session", "message_bytes")
    RUN_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    run: str
    incarnation: str
    session: int
    message_bytes: int
    def __init__(self, run: _Optional[str] = ..., incarnation: _Optional[str] = ..., session: _Optional[int] = ..., message_bytes: _Optional[int] = ...) -> None: ...

class ActorStatistics(_message.Message):
    __slots__ = ("produced", "spooled", "policy_version", "refused_policies", "held_seconds", "pictures", "picture_problem", "practice_state", "practice", "words", "words_said", "scene_geometry", "scene_frame")
    class PicturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class PracticeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    PRODUCED_FIELD_NUMBER: _ClassVar[int]
    SPOOLED_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    REFUSED_POLICIES_FIELD_NUMBER: _ClassVar[int]
    HELD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PICTURES_FIELD_NUMBER: _ClassVar[int]
    PICTURE_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    PRACTICE_STATE_FIELD_NUMBER: _ClassVar[int]
    PRACTICE_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    WORDS_SAID_FIELD_NUMBER: _ClassVar[int]
    SCENE_GEOMETRY_FIELD_NUMBER: _ClassVar[int]
    SCENE_FRAME_FIELD_NUMBER: _ClassVar[int]
    produced: int
    spooled: int
    policy_version: int
    refused_policies: int
    held_seconds: float
    pictures: _containers.ScalarMap[str, bytes]
    picture_problem: str
    practice_state: str
    practice: _containers.ScalarMap[str, float]
    words: _containers.RepeatedScalarFieldContainer[str]
    words_said: int
    scene_geometry: bytes
    scene_frame: bytes
    def __init__(self, produced: _Optional[int] = ..., spooled: _Optional[int] = ..., policy_version: _Optional[int] = ..., refused_policies: _Optional[int] = ..., held_seconds: _Optional[float] = ..., pictures: _Optional[_Mapping[str, bytes]] = ..., picture_problem: _Optional[str] = ..., practice_state: _Optional[str] = ..., practice: _Optional[_Mapping[str, float]] = ..., words: _Optional[_Iterable[str]] = ..., words_said: _Optional[int] = ..., scene_geometry: _Optional[bytes] = ..., scene_frame: _Optional[bytes] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("run", "incarnation", "actor", "session", "record_session", "first_available", "records", "session_ended", "statistics", "end_run")
    RUN_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RECORD_SESSION_FIELD_NUMBER: _ClassVar[int]
    FIRST_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ENDED_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    END_RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    incarnation: str
    actor: str
    session: int
    record_session: int
    first_available: int
    records: _containers.RepeatedScalarFieldContainer[bytes]
    session_ended: bool
    statistics: ActorStatistics
    end_run: bool
    def __init__(self, run: _Optional[str] = ..., incarnation: _Optional[str] = ..., actor: _Optional[str] = ..., session: _Optional[int] = ..., record_session: _Optional[int] = ..., first_available: _Optional[int] = ..., records: _Optional[_Iterable[bytes]] = ..., session_ended: _Optional[bool] = ..., statistics: _Optional[_Union[ActorStatistics, _Mapping]] = ..., end_run: _Optional[bool] = ...) -> None: ...

class ExchangeReply(_message.Message):
    __slots__ = ("wanted", "settled", "stored", "refused", "blocked")
    WANTED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    wanted: int
    settled: int
    stored: int
    refused: int
    blocked: str
    def __init__(self, wanted: _Optional[int] = ..., settled: _Optional[int] = ..., stored: _Optional[int] = ..., refused: _Optional[int] = ..., blocked: _Optional[str] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("run", "incarnation", "actor", "session", "policy_version", "policy_sha256")
    RUN_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_SHA256_FIELD_NUMBER: _ClassVar[int]
    run: str
    incarnation: str
    actor: str
    session: int
    policy_version: int
    policy_sha256: bytes
    def __init__(self, run: _Optional[str] = ..., incarnation: _Optional[str] = ..., actor: _Optional[str] = ..., session: _Optional[int] = ..., policy_version: _Optional[int] = ..., policy_sha256: _Optional[bytes] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("guidance", "policy")
    GUIDANCE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    guidance: Guidance
    policy: PolicyChunk
    def __init__(self, guidance: _Optional[_Union[Guidance, _Mapping]] = ..., policy: _Optional[_Union[PolicyChunk, _Mapping]] = ...) -> None: ...

class Guidance(_message.Message):
    __slots__ = ("hold", "stop", "env_steps", "watched", "orders", "until")
    HOLD_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    ENV_STEPS_FIELD_NUMBER: _ClassVar[int]
    WATCHED_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    hold: bool
    stop: bool
    env_steps: int
    watched: bool
    orders: _containers.RepeatedScalarFieldContainer[str]
    until: int
    def __init__(self, hold: _Optional[bool] = ..., stop: _Optional[bool] = ..., env_steps: _Optional[int] = ..., watched: _Optional[bool] = ..., orders: _Optional[_Iterable[str]] = ..., until: _Optional[int] = ...) -> None: ...

class PolicyChunk(_message.Message):
    __slots__ = ("version", "sha256", "total_bytes", "offset", "data")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    version: int
    sha256: bytes
    total_bytes: int
    offset: int
    data: bytes
    def __init__(self, version: _Optional[int] = ..., sha256: _Optional[bytes] = ..., total_bytes: _Optional[int] = ..., offset: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class ControlRequest(_message.Message):
    __slots__ = ("command", "run")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    command: str
    run: str
    def __init__(self, command: _Optional[str] = ..., run: _Optional[str] = ...) -> None: ...

class ControlReply(_message.Message):
    __slots__ = ("run", "message")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    run: str
    message: str
    def __init__(self, run: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
