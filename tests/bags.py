"""A bag as a robot would record it."""

import numpy as np
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore


def write_bag(path, seconds=1.0, gap=(9, 9)):
    """Write a bag of a robot: joints at 100 Hz, a camera at 25 Hz, commands at 50 Hz, nothing from a gap's joints."""
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
            if topic == "/joint_states" and gap[0] <= t < gap[1]:
                continue
            kind, _, make = plan[topic]
            message = types.types[kind](**make(t))
            bag.write(connections[topic], 10**15 + round(t * 1e9), types.serialize_cdr(message, kind))
