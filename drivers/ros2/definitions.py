"""Message, service and action definitions, parsed from the text of ``.msg``, ``.srv`` and ``.action`` files."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rosbags.typesys import TypesysError
from rosbags.typesys.base import Message as Parsed
from rosbags.typesys.base import NamedType, make_typesdict
from rosbags.typesys.msg import MSGParser
from rosbags.typesys.store import Typestore

from robo_rl.core import ConfigError

SHIPPED = Path(__file__).parent / "interfaces"
"""Definitions that the type stores lack: for all distributions (``common``), and for a single one."""

Defaults = dict[str, dict[str, Any]]
"""Default values other than zero, by type and field."""

KNOWN_DEFAULTS: Defaults = {"geometry_msgs/msg/Quaternion": {"w": 1.0}}
"""Defaults that the type stores omit for their own types."""

_UUID = "unique_identifier_msgs/msg/UUID goal_id"


def parts(package: str, kind: str, name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield (type name, definition) of each message that one file defines.

    A service consists of a request and a response. The goal, result and feedback of an action are wrapped into two
    services and a message, as rosidl does.

    Raises:
        ConfigError: if the number of parts is wrong.
    """
    full = f"{package}/{kind}/{name}"
    pieces = [piece.strip("\n") for piece in ("\n" + text + "\n").split("\n---")]
    expected = {"msg": 1, "srv": 2, "action": 3}[kind]
    if len(pieces) != expected:
        raise ConfigError(f"{full}: expected {expected - 1} lines of ---, got {len(pieces) - 1}")
    if kind == "msg":
        yield full, pieces[0]
    elif kind == "srv":
        yield f"{full}_Request", pieces[0]
        yield f"{full}_Response", pieces[1]
    else:
        for part, piece in zip(("Goal", "Result", "Feedback"), pieces, strict=True):
            yield f"{full}_{part}", piece
        yield f"{full}_SendGoal_Request", f"{_UUID}\n{full}_Goal goal"
        yield f"{full}_SendGoal_Response", "bool accepted\nbuiltin_interfaces/msg/Time stamp"
        yield f"{full}_GetResult_Request", _UUID
        yield f"{full}_GetResult_Response", f"int8 status\n{full}_Result result"
        yield f"{full}_FeedbackMessage", f"{_UUID}\n{full}_Feedback feedback"


def register(store: Typestore, folders: Iterable[Path]) -> Defaults:
    """Add each ``package/{msg,srv,action}/Name.*`` under ``folders`` to ``store``; return their default values.

    Raises:
        ConfigError: if a folder has no definitions, a file is not a valid definition or contradicts an existing type,
            or the type of a field is unknown.
    """
    messages: list[Parsed] = []
    for folder in folders:
        files = sorted(file for kind in ("msg", "srv", "action") for file in folder.glob(f"*/{kind}/*.{kind}"))
        if not files:
            raise ConfigError(f"{folder} has no definitions: expected files like {folder}/my_package/msg/Name.msg")
        for file in files:
            package, kind = file.parts[-3:-1]
            try:
                messages += [parse(name, text) for name, text in parts(package, kind, file.stem, file.read_text())]
            except (TypesysError, UnicodeDecodeError) as error:
                raise ConfigError(f"{file} is no definition: {' '.join(str(error).split())}") from error
    try:
        store.register(make_typesdict(messages))
    except TypesysError as error:
        raise ConfigError(f"a definition cannot be used: {error}") from error
    for message in messages:
        for field in message.fields:
            if isinstance(field.typ.ref, NamedType) and field.typ.ref.name not in store.fielddefs:
                raise ConfigError(f"{message.name}.{field.name} is of type {field.typ.ref.name}, which is not defined")
    by_type = {m.name: {field.name: field.value for field in m.fields if field.value is not None} for m in messages}
    return {name: defaults for name, defaults in by_type.items() if defaults}


def parse(name: str, text: str) -> Parsed:
    """Return the definition of one message.

    rosbags only accepts names with ``msg``, and resolves unqualified nested types in the same folder, while ROS
    resolves them in the messages of the same package. The definition is therefore parsed as a message and renamed.
    """
    package, _, base_name = name.split("/")
    (message,) = MSGParser(f"MSG: {package}/msg/{base_name}\n{text}").specification()
    return message._replace(name=name)
