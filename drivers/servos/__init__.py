"""Arms of servos on a serial bus, without ROS."""
