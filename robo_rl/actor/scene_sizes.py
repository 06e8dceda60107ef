"""Largest sizes of a live scene and its kinds of shapes, for processes without MuJoCo."""

MOST_BODIES = 128
"""Largest number of moving bodies that are shown."""
MOST_GEOMS = 1000
"""Largest number of shapes that are shown."""
MOST_REASONS = 8
"""Largest number of safety filters that a frame names."""
SHAPES = ("plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh")
"""Kinds of shapes, named as the geoms of MuJoCo."""
