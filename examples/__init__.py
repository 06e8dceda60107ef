"""Example packages, one folder each, which the guide explains and ``robo-rl new`` copies."""
