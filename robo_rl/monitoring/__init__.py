"""Views of runs and rewards: curves, tables and comparisons."""
