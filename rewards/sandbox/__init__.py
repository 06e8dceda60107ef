"""Sandbox for untrusted reward code, which is checked as a syntax tree and run in a separate process with limits."""
