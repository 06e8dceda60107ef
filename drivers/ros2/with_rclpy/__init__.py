"""Client layer on rclpy of a sourced ROS 2 distribution. It is imported only if rclpy is available."""
