"""Reward code that nobody trusts: checked as a syntax tree, run in a process of its own within limits."""
