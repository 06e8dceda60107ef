"""Reward modules, one file for each kind; docs/reference/rewards.md describes them."""
