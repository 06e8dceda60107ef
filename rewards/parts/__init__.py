"""Building blocks of reward modules."""
