"""The origin of a policy: the run, task, agent, step and commit that produced it, as JSON values."""

import contextlib
from pathlib import Path
from typing import Any

from ..core import DataError, ForeignFolder
from .run_files import read_summary


def provenance(run: Path, task: str, agent: str | None, step: int) -> dict[str, Any]:
    """Return facts about a policy of a run; :func:`~robo_rl.evaluation.run_start.run_text` puts them in words.

    Args:
        run: folder of the run.
        task: name of its task.
        agent: name of its agent.
        step: environment steps after which the policy was saved.

    Returns:
        ``run``, the name of the folder; ``task``, ``agent`` and ``step``; ``git_commit``, None if it is unknown.
    """
    commit = None
    with contextlib.suppress(OSError, DataError, AttributeError, LookupError, TypeError, ValueError):
        commit = read_summary(ForeignFolder(run)).get("git_commit")
    commit = commit if isinstance(commit, str) else None
    return {"run": run.resolve().name, "task": task, "agent": agent, "step": step, "git_commit": commit}
