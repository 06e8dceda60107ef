"""The client layer on rclpy, of a ROS 2 distribution that is sourced. Imported only where rclpy is there."""
