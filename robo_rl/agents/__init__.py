"""Agents, one folder per algorithm."""
