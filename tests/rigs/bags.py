"""A bag as a robot would record it."""

import numpy as np
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore


def write_bag(path, seconds=1.0):
    """Write a bag of a robot: joints at 100 Hz, a camera at 25 Hz, commands at 50 Hz."""
    types = get_typestore(Stores.ROS2_JAZZY)
    stamp = types.types["builtin_interfaces/msg/Time"](sec=0, nanosec=0)
    header = types.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
    vector, empty = types.types["geometry_msgs/msg/Vector3"], np.empty(0)

    def joints(t):
        both = np.array([20 + t, 10 + t])
        return {"name": ["b", "a"], "position": both, "velocity": -both, "effort": empty, "header": header}

    def picture(t):
        data = np.full((4, 6, 3), (round(100 * t), 1, 2), np.uint8)
        size = {"height": 4, "width": 6, "step": 18, "is_bigendian": 0, "encoding": "bgr8"}
        return {**size, "data": data.reshape(-1), "header": header}

    def command(t):
        return {"linear": vector(x=t, y=0.0, z=0.0), "angular": vector(x=0.0, y=0.0, z=-t)}

    plan = {
        "/joint_states": ("sensor_msgs/msg/JointState", 100, joints),
        "/front/image_raw": ("sensor_msgs/msg/Image", 25, picture),
        "/cmd_vel": ("geometry_msgs/msg/Twist", 50, command),
    }
    events = sorted((n / rate, topic) for topic, (_, rate, _) in plan.items() for n in range(round(seconds * rate)))
    with Writer(path, version=8, storage_plugin=StoragePlugin.MCAP) as bag:
        connections = {topic: bag.add_connection(topic, kind, typestore=types) for topic, (kind, _, _) in plan.items()}
        for t, topic in events:
            kind, _, make = plan[topic]
            message = types.types[kind](**make(t))
            bag.write(connections[topic], 10**15 + round(t * 1e9), types.serialize_cdr(message, kind))


TYPES = get_typestore(Stores.ROS2_JAZZY)
START = 10**18


def stamped(t):
    """Return a header of the time ``t`` [s]; without a time if it is None."""
    at = 0 if t is None else START + round(t * 1e9)
    stamp = TYPES.types["builtin_interfaces/msg/Time"](sec=at // 10**9, nanosec=at % 10**9)
    return TYPES.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")


def joint_state(names, position, t=None, velocity=()):
    """Return a JointState."""
    arrays = {"position": np.array(position, float), "velocity": np.array(velocity, float), "effort": np.empty(0)}
    return TYPES.types["sensor_msgs/msg/JointState"](header=stamped(t), name=list(names), **arrays)


def number(value):
    """Return a Float64."""
    return TYPES.types["std_msgs/msg/Float64"](data=float(value))


def image(encoding, height, width, rows):
    """Return an Image of ``rows`` (height, bytes a row)."""
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(height, -1)
    about = {"height": height, "width": width, "step": data.shape[1], "is_bigendian": 0, "encoding": encoding}
    return TYPES.types["sensor_msgs/msg/Image"](header=stamped(None), data=data.reshape(-1), **about)


def record_messages(path, messages, storage="MCAP", start=START, compression=None):
    """Write ``messages`` (topic, time [s], message), in the order in which they are given."""
    writer = Writer(path, version=8, storage_plugin=StoragePlugin[storage])
    if compression:
        writer.set_compression(CompressionMode[compression], CompressionFormat.ZSTD)
    with writer as bag:
        connections = {}
        for topic, t, message in messages:
            kind = message.__msgtype__
            if topic not in connections:
                connections[topic] = bag.add_connection(topic, kind, typestore=TYPES)
            bag.write(connections[topic], start + round(t * 1e9), TYPES.serialize_cdr(message, kind))
    return path
