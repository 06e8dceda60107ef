"""The entry of summary.json about the run that another run started from."""

from collections.abc import Mapping
from typing import Any

from ..core import whole_number


def check_start(facts: Any) -> None:
    """Check the entry ``started_from`` of summary.json.

    Raises:
        AttributeError, KeyError, TypeError or ValueError: if it is invalid.
    """
    check_run(facts)
    if not isinstance(facts["parts"], list) or not facts["parts"]:
        raise TypeError("parts must be a list of texts")
    if not all(isinstance(text, str) for text in facts["parts"]):
        raise TypeError("started_from must hold texts")
    if facts["replay"] is not None:
        whole_number(facts["replay"]["steps"])
        if not 0 <= facts["replay"]["ratio"] <= 1:
            raise ValueError("ratio must be in [0, 1]")


def check_run(facts: Any) -> None:
    """Check facts about a policy of a run, see :func:`~robo_rl.evaluation.provenance.provenance`.

    Raises:
        AttributeError, KeyError, TypeError or ValueError: if they are invalid.
    """
    whole_number(facts["step"])
    texts = [facts[name] for name in ("run", "task", "agent")]
    if facts["git_commit"] is not None:
        texts.append(facts["git_commit"])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("facts about a run must be texts")


def run_text(facts: Mapping[str, Any]) -> str:
    """Return such facts in words."""
    commit = "" if facts["git_commit"] is None else f", commit {facts['git_commit'][:12]}"
    return f"{facts['run']} (task {facts['task']}, agent {facts['agent']}, step {facts['step']:,}{commit})"


def start_text(facts: Mapping[str, Any]) -> str:
    """Return a description, in one line, of the run that another one started from, and of what it took over."""
    run = run_text(facts)
    *others, last = facts["parts"]
    taken = f"{', '.join(others)} and {last}" if others else last
    replay = facts["replay"]
    if replay is None:
        return f"{run}: {taken}"
    return f"{run}: {taken}; {replay['steps']:,} steps of replay, {100 * replay['ratio']:g} % of each minibatch"
