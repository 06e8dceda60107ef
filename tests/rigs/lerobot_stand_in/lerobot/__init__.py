"""Stand-in for the parts of lerobot that robo-rl calls, for tests without it."""

import os

__version__ = os.environ["STAND_IN_VERSION"]
