"""Stand-in for the parts of lerobot that robo-rl calls, for tests without it."""
