"""Edits of data sets: selection, merging, trimming, splitting and relabelling of episodes into a new data set."""

import dataclasses
import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core import (
    ConfigError,
    DataError,
    EnvSpec,
    Options,
    Transition,
    counted,
    draft_of,
    generator,
    option,
    override,
    require,
    sync_folder,
)
from ..replay import EpisodeArrays, EpisodeStore, LabelBook
from ..replay.labels import Labels, stages_of
from .quality import FLAGS, EpisodeQuality, is_picture, measure

_SEGMENT = re.compile(r"(\d{1,9}):(\d{1,9})-(\d{1,9})(?::(success|failure))?", re.ASCII)
_SUCCESS = {None: None, "success": True, "failure": False}


@dataclass(frozen=True)
class EditConfig(Options):
    """Options of configs/data_edit.yaml, which documents them and holds their defaults."""

    path: str
    merge: list[str]
    output: str
    rest: str | None
    keep: list[int] | None
    drop: list[int]
    drop_flagged: list[str]
    mark_success: list[int]
    mark_failure: list[int]
    segments: list[str]
    trim: bool
    share: float = option(above=0, high=1)
    seed: int = option(low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.drop_flagged:
            require(name in FLAGS, "drop_flagged", f"flags of {', '.join(FLAGS)}", name)
        both = sorted(set(self.mark_success) & set(self.mark_failure))
        require(not both, "mark_success", "no episode of mark_failure", both)
        require(
            (self.share < 1) == (self.rest is not None), "rest", "a folder if share is below 1, else null", self.rest
        )
        marked = {*self.mark_success, *self.mark_failure}
        segmented = {segment.number for segment in map(read_segment, self.segments)}
        require(not segmented & {*self.drop}, "segments", "no episode of drop", sorted(segmented & {*self.drop}))
        require(
            not segmented & marked,
            "segments",
            "no episode of mark_success or mark_failure (mark its segments, as 3:0-40:success)",
            sorted(segmented & marked),
        )
        _check_paths(self)


class Segment(NamedTuple):
    """Steps of an episode that become a separate episode.

    Attributes:
        number: number of the episode.
        first: first step.
        stop: step after the last one.
        success: success to store; None leaves it unchanged.
    """

    number: int
    first: int
    stop: int
    success: bool | None


def read_segment(text: str) -> Segment:
    """Return the segment in a text such as ``3:0-40`` or ``3:0-40:success``.

    Raises:
        ConfigError: if it is not a segment of at least one step.
    """
    match = _SEGMENT.fullmatch(text)
    segment = None if match is None else Segment(int(match[1]), int(match[2]), int(match[3]), _SUCCESS[match[4]])
    if segment is None or segment.first >= segment.stop:
        raise ConfigError(
            f"segments: {text!r} is not a segment; expected EPISODE:FIRST-STOP, the first step and the step after "
            "the last one, for example 3:0-40, or 3:0-40:success"
        )
    return segment


@dataclass(frozen=True)
class Piece:
    """Segment of an episode that goes into an edited data set.

    Attributes:
        store: data set with the episode.
        number: number of the episode in its data set.
        first: first step of the segment.
        stop: step after its last one.
        success: success to store; None leaves it unchanged.
    """

    store: EpisodeStore
    number: int
    first: int
    stop: int
    success: bool | None = None

    def transitions(self, spec: EnvSpec) -> list[Transition]:
        """Return the steps, with the observations and reward terms of ``spec``."""
        steps = self.store.arrays(self.number, spec.observation.keys()).transitions()[self.first : self.stop]
        steps = [
            dataclasses.replace(step, rewards={term: step.rewards[term] for term in spec.reward_terms})
            for step in steps
        ]
        if self.success is False:
            steps = [_with_success(step, False) if step.success else step for step in steps]
        last = steps[-1]
        if self.success is not None:
            # A success terminates the episode; any other outcome truncates it.
            last = dataclasses.replace(
                _with_success(last, self.success), terminated=self.success, truncated=not self.success
            )
        elif self.stop < self.store.records[self.number].steps and not last.terminated:
            last = dataclasses.replace(last, truncated=True)
        return [*steps[:-1], last]

    def origin(self) -> dict[str, Any]:
        """Return the place of the segment in the originally recorded data set, even after several edits."""
        own = {
            "data_set": str(self.store.path),
            "episode": self.number,
            "first_step": 0,
            "crc32": self.store.records[self.number].crc32.get("executed_action"),
        }
        if "collected_from" in self.store.metadata:
            own["collected_from"] = self.store.metadata["collected_from"]
        earlier = self.store.metadata.get("origins")
        if isinstance(earlier, list) and self.number < len(earlier) and isinstance(earlier[self.number], dict):
            own |= earlier[self.number]
        start = own["first_step"] if isinstance(own["first_step"], int) else 0
        changes = {"success": self.success} if self.success is not None else {}
        return own | {"first_step": start + self.first, "steps": self.stop - self.first} | changes


def _with_success(step: Transition, success: bool) -> Transition:
    corrected = {"success": float(success)} if "success" in step.rewards else {}
    return dataclasses.replace(step, success=success, rewards={**step.rewards, **corrected})


def edit(settings: EditConfig, progress: Callable[[int, int], None] | None = None) -> list[Path]:
    """Write one or two data sets of selected episodes; return their folders. The sources are not changed.

    Episodes are numbered consecutively: those of ``path`` first, then those of ``merge``. Either everything is written
    or nothing.

    Args:
        settings: selection and changes of episodes, and the folders to write.
        progress: called after each episode with the number of episodes that are written, and of those to write.

    Raises:
        ConfigError: if an episode does not exist, or none is left.
        DataError: if a data set does not match the first one, is damaged, or cannot be written.
    """
    with ExitStack() as stack:
        stores = [stack.enter_context(EpisodeStore.open(Path(path))) for path in (settings.path, *settings.merge)]
        for store in stores[1:]:
            _check_alike(stores[0], store)
        pieces = _select(stores, settings)
        if not pieces:
            raise ConfigError("keep, drop and drop_flagged: no episode is left; choose others")
        outputs = [(Path(settings.output), pieces)]
        if settings.rest is not None:
            chosen = _draw(len(pieces), settings.share, settings.seed)
            outputs = [
                (Path(settings.output), [piece for index, piece in enumerate(pieces) if index in chosen]),
                (Path(settings.rest), [piece for index, piece in enumerate(pieces) if index not in chosen]),
            ]
        try:
            drafts = [stack.enter_context(draft_of(path)) for path, _ in outputs]
            written = 0
            for draft, (_, selected) in zip(drafts, outputs, strict=True):
                for _ in _write(draft, selected, stores, settings):
                    written += 1
                    if progress is not None:
                        progress(written, len(pieces))
            for draft, (path, _) in zip(drafts, outputs, strict=True):
                draft.replace(path)
                sync_folder(path.parent)
        except OSError as error:
            raise DataError(f"{' and '.join(str(path) for path, _ in outputs)} cannot be written ({error})") from error
    return [path for path, _ in outputs]


def _check_paths(settings: EditConfig) -> None:
    """Raise :class:`ConfigError` if a source is given twice, or a new data set would be in a source or in the other."""
    sources = [Path(path).resolve() for path in (settings.path, *settings.merge)]
    if twice := [path for path in settings.merge if sources.count(Path(path).resolve()) > 1]:
        raise ConfigError(f"merge: {twice[0]} is listed twice, so its episodes would be stored twice; list it once")
    news = {"output": settings.output} | ({} if settings.rest is None else {"rest": settings.rest})
    for name, new in news.items():
        taken = sources if name == "output" else [*sources, Path(settings.output).resolve()]
        for folder in taken:
            if folder in (Path(new).resolve(), *Path(new).resolve().parents):
                raise ConfigError(f"{name}: {new} is in the data set {folder}; choose a folder outside it")


def _check_alike(first: EpisodeStore, other: EpisodeStore) -> None:
    """Raise :class:`DataError` unless the episodes of ``other`` can be stored with those of ``first``."""
    other.check_against(first.spec)
    if missing := sorted(set(first.spec.reward_terms) - set(other.spec.reward_terms)):
        raise DataError(
            f"{other.path}: reward terms {missing} of {first.path} were not recorded; merge in the other order"
        )


def _select(stores: Sequence[EpisodeStore], settings: EditConfig) -> list[Piece]:
    places = [(store, number) for store in stores for number in range(len(store))]
    for name in ("keep", "drop", "mark_success", "mark_failure"):
        numbers = getattr(settings, name) or []
        if wrong := sorted(number for number in numbers if not 0 <= number < len(places)):
            raise ConfigError(f"{name}: there is no episode {wrong[0]}; there are {len(places)}, counted from 0")
    pictures = bool(settings.drop_flagged)
    qualities: list[EpisodeQuality] = []
    if settings.drop_flagged or settings.trim:  # measured in each data set separately, as `data describe` does
        qualities = [quality for store in stores for quality in measure(_arrays(store, pictures), store.spec)]
    kept = range(len(places)) if settings.keep is None else sorted(set(settings.keep))
    segments = _segments(places, settings, kept)
    pieces = []
    for index in kept:
        store, number = places[index]
        success = True if index in settings.mark_success else False if index in settings.mark_failure else None
        flags = set(qualities[index].flags) if qualities else set()
        if success is not None:
            flags = flags - {"failure"} if success else flags | {"failure"}
        if index in settings.drop or flags & set(settings.drop_flagged):
            continue
        if index in segments:
            pieces += [Piece(store, number, each.first, each.stop, each.success) for each in segments[index]]
            continue
        steps = store.records[number].steps
        first, stop = _trimmed(places[index], qualities[index], success) if settings.trim else (0, steps)
        pieces.append(Piece(store, number, first, stop, success))
    return pieces


def _segments(
    places: Sequence[tuple[EpisodeStore, int]], settings: EditConfig, kept: Sequence[int]
) -> dict[int, list[Segment]]:
    """Return the segments of episodes by number, in the order of their steps."""
    segments: dict[int, list[Segment]] = {}
    for segment in sorted(map(read_segment, settings.segments), key=lambda each: each[:2]):
        if segment.number not in kept:
            raise ConfigError(
                f"segments: there is no episode {segment.number} among those that are kept; there are {len(places)}, "
                "counted from 0"
            )
        store, number = places[segment.number]
        if segment.stop > (steps := store.records[number].steps):
            raise ConfigError(f"segments: episode {segment.number} has {steps} steps; none can end at {segment.stop}")
        earlier = segments.setdefault(segment.number, [])
        if earlier and segment.first < earlier[-1].stop:
            raise ConfigError(f"segments: two of episode {segment.number} share step {segment.first}; separate them")
        earlier.append(segment)
    return segments


def _arrays(store: EpisodeStore, pictures: bool) -> Iterator[EpisodeArrays]:
    """Read the episodes one at a time; pictures only if flags need them."""
    keys = [key for key, array in store.spec.observation.items() if pictures or not is_picture(array)]
    for number in range(len(store)):
        yield store.arrays(number, keys)


def _trimmed(place: tuple[EpisodeStore, int], quality: EpisodeQuality, success: bool | None) -> tuple[int, int]:
    """Return the range of steps without those at the start and the end in which nothing happens.

    Steps up to the first success stay, because the success is observed in them, unless ``success`` marks it as a
    failure. An episode without any motion stays whole.
    """
    if quality.idle_start >= quality.steps:
        return 0, quality.steps
    stop = quality.steps - quality.idle_end
    successes = np.flatnonzero(place[0].arrays(place[1], ()).success == 1)
    if successes.size and success is not False:
        stop = max(stop, int(successes[0]) + 1)
    return quality.idle_start, stop


def _draw(count: int, share: float, seed: int) -> set[int]:
    """Draw the given share of ``count`` episodes, at least one and not all of them."""
    require(count > 1, "share", "1, as one episode cannot be split", share)
    size = min(max(round(share * count), 1), count - 1)
    return set(generator(seed, "split").permutation(count)[:size].tolist())


def _write(
    path: Path, pieces: Sequence[Piece], stores: Sequence[EpisodeStore], settings: EditConfig
) -> Iterator[Piece]:
    """Write a data set; yield each piece that is written."""
    spec = stores[0].spec
    facts: dict[str, Any] = {
        "edited_from": [str(store.path) for store in stores],
        "origins": [piece.origin() for piece in pieces],
        "edit": {key: value for key, value in vars(settings).items() if key not in ("path", "merge", "output", "rest")},
    }
    if any("instructions" in store.metadata for store in stores):
        facts["instructions"] = [_instruction(piece) for piece in pieces]
    # the origins contain it
    first = {key: value for key, value in stores[0].metadata.items() if key != "collected_from"}
    with EpisodeStore.create(path, spec, json.loads(json.dumps({**first, **facts}))) as made:
        for piece in pieces:
            made.append_episode(piece.transitions(spec))
            yield piece
        _copy_labels(pieces, stores, made)


def _instruction(piece: Piece) -> str:
    listed = piece.store.metadata.get("instructions", [])
    known = isinstance(listed, list) and piece.number < len(listed)
    return str(listed[piece.number]) if known else piece.store.spec.task


def _copy_labels(pieces: Sequence[Piece], stores: Sequence[EpisodeStore], made: EpisodeStore) -> None:
    """Copy the labels of people, cut like the episodes."""
    stages = {str(store.path): count for store in stores if (count := stages_of(store)) is not None}
    if not stages:
        return
    if len(set(stages.values())) > 1:
        counts = ", ".join(f"{path}: {count}" for path, count in stages.items())
        raise DataError(
            f"the data sets are labelled with different numbers of stages ({counts}); label them alike first"
        )
    count = next(iter(stages.values()))
    books = {store.path: LabelBook(store, count) for store in stores if str(store.path) in stages}
    labels: dict[int, Labels] = {}
    for number, piece in enumerate(pieces):
        book = books.get(piece.store.path)
        if book is not None and piece.number in book.numbers:
            labels[number] = book[piece.number][piece.first : piece.stop + 1]
    LabelBook(made, count).update(labels)


def command_of(settings: EditConfig) -> str:
    """Return the command that makes this edit of one data set, with the options that differ from their defaults."""
    lists = {name: getattr(settings, name) for name in ("drop", "mark_success", "mark_failure", "segments")}
    words = [override("path", settings.path), override("output", settings.output)]
    words += [shlex.quote(f"{name}=[{','.join(map(str, values))}]") for name, values in lists.items() if values]
    return " ".join(["robo-rl data edit", *words])


def summary_of(path: Path) -> str:
    """Return a line that names the data set and counts its episodes."""
    with EpisodeStore.open(path) as store:
        counts = store.summary()
    episodes, steps = counted(counts.episodes, "episode"), counted(counts.steps, "step")
    return f"{path} holds {episodes}, {counts.successes} successful: {steps}"
