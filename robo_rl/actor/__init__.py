"""Actor that steps a backend and returns transitions, and spool that keeps them until the learner has stored them."""

from typing import TYPE_CHECKING

from robo_rl.core.lazy import imported_on_use

if TYPE_CHECKING:
    from .actor import ActionChoice, Actor, EpisodeRefusedError
    from .human_like import HumanLikeChooser
    from .intervention import InterventionConfig, Interventions, SimulatedIntervention
    from .marking import marked
    from .recorded_poses import EpisodePoses, RecordedPoses, RecordedScene
    from .scene import SceneNews, SceneView
    from .scene_geometry import SceneLimits
    from .simulated_operator import SimulatedOperator
    from .spool import Spool, SpoolFullError
    from .view import View, jpeg
else:
    __getattr__ = imported_on_use(__name__, __file__)

__all__ = [
    "ActionChoice",
    "Actor",
    "EpisodePoses",
    "EpisodeRefusedError",
    "HumanLikeChooser",
    "InterventionConfig",
    "Interventions",
    "RecordedPoses",
    "RecordedScene",
    "SceneLimits",
    "SceneNews",
    "SceneView",
    "SimulatedIntervention",
    "SimulatedOperator",
    "Spool",
    "SpoolFullError",
    "View",
    "jpeg",
    "marked",
]
