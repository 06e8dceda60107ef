"""Videos of a run: the policy before the first step and at the end, and its failures."""

from contextlib import suppress
from pathlib import Path

from ..app import has_robot
from ..core import DataError, RenderingError, SafetyStop, derive_seed
from ..evaluation import EvaluationResult, evaluate
from ..evaluation.run_videos import FAILURE
from ..evaluation.runs import POSTER
from .run import Run

FIRST = "start.mp4"
"""Video of the policy before the first step."""


def film_first_policy(run: Run) -> None:
    """Film the policy before the first step, in the episodes that the video of the final evaluation also shows."""
    _film(run, run.video.with_name(FIRST), final_seed(run), run.settings.video_episodes)


def film_failures(run: Run, result: EvaluationResult) -> None:
    """Film the first ``run.video_episodes`` failures of the final evaluation, each in a separate video.

    Each of these episodes is repeated from its start state. A policy that samples may succeed this time; such a video
    is removed.
    """
    for old in run.video.parent.glob(f"{FAILURE}*"):
        old.unlink()
    failures = [episode.index for episode in result.episodes if episode.success is False]
    for index in failures[: run.settings.video_episodes]:
        repeated = _film(run, run.video.with_name(f"{FAILURE}{index + 1:03}.mp4"), result.seed, 1, index)
        if repeated is not None and repeated.video is not None and repeated.episodes[0].success:
            for file in (repeated.video, repeated.video.with_suffix(POSTER)):
                file.unlink(missing_ok=True)


def final_seed(run: Run) -> int:
    """Return the seed of the final evaluation.

    Its start states differ from those of the other evaluations, because these may have decided when to stop.
    """
    return derive_seed(run.config.seed, "final")


def add_poster(video: Path) -> None:
    """Write the picture that pages display until a video plays. Without a picture they load the video itself."""
    from ..evaluation.video import write_poster  # loads codecs, which is slow

    with suppress(DataError):
        write_poster(video)


def _film(run: Run, video: Path, seed: int, episodes: int, first: int = 0) -> EvaluationResult | None:
    """Film episodes of the current policy without recording their results; return the results, or None without a video.

    A run that cannot make videos has already reported why.
    """
    if not run.settings.video_episodes or has_robot(run.config):  # a robot moves only for results
        return None
    backend = run.components.evaluation_backend()
    state = run.agent.state()
    try:
        result = evaluate(backend, run.agent, episodes, seed, first=first, video=video, video_episodes=episodes)
        if result.video is not None:
            add_poster(result.video)
        return result
    except (RenderingError, SafetyStop):
        return None
    finally:
        run.agent.load(state)  # so that later evaluations of a policy that samples do not depend on videos
