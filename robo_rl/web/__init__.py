"""Pages in a browser: a small server of fixed files and authenticated websockets; ``static/`` contains the pages.

``server`` needs the package ``websockets`` (``robo-rl[web]``) and is imported only where it is used.
"""

from .config import WebConfig

__all__ = ["WebConfig"]
