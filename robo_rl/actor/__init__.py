"""The actor: takes steps on a backend and turns them into transitions."""

from .actor import ActionChoice, Actor

__all__ = ["ActionChoice", "Actor"]
