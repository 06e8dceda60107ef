"""Checkpoints that are written atomically, verified by hashes, and free of pickle.

A checkpoint is a folder ``step_<n>`` with safetensors files and a ``manifest.json``. The manifest lists the size and
the SHA-256 of each file, and a SHA-256 of its own content. The folder is written under a temporary name, flushed to
disk and renamed, so that it either exists completely or not at all.
"""

import contextlib
import hashlib
import json
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from robo_rl.core import (
    CheckpointError,
    DataError,
    State,
    memory_bytes,
    parse_json,
    read_bytes,
    sync_folder,
    write_durably,
)

FORMAT = 3
MANIFEST_BYTES = 16 << 20
PART_BYTES = 1 << 38
_WITHOUT_SIZES = 2  # format version in which the manifest lacks the sizes of the files
_WITHOUT_DIGEST = 1  # format version in which the manifest also lacks a hash of itself

_PART = re.compile(r"\w+")
_REPLACED = ".partial_replaced_"
_DROPPED = ".partial_dropped_"
_LEFTOVER = re.compile(r"\.partial_(replaced_|dropped_)?step_\d+")


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint folder.

    Attributes:
        step: number of environment steps when it was written.
        parts: states by name, for example ``agent`` and ``replay``.
        facts: JSON values: counters, versions, the score that ranks checkpoints.
    """

    step: int
    parts: Mapping[str, State]
    facts: Mapping[str, Any]


class CheckpointFolder:
    """Checkpoints of one run, of which the newest ``keep`` and the best one are kept.

    The replay buffer, which is only needed to resume, is kept in the two newest, in case one of them is damaged. If a
    run resumes before its newest checkpoint, because later steps were lost, the later checkpoints belong to an
    abandoned history. Saving the next checkpoint deletes them, even the best one.

    Args:
        path: folder of the checkpoints; it is made when the first one is saved.
        keep: number of newest checkpoints to keep besides the best one.
    """

    def __init__(self, path: Path, keep: int = 2) -> None:
        self.path = path
        self._keep = keep

    def save(self, checkpoint: Checkpoint) -> Path:
        """Write ``checkpoint`` atomically, then delete old checkpoints; return its folder.

        Raises:
            CheckpointError: if it cannot be written; earlier checkpoints are unchanged.
        """
        target = self._folder(checkpoint.step)
        partial = self.path / f".partial_{target.name}"
        try:
            self._write(checkpoint, partial, target)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)  # to free disk space
            self._restore_replaced()
            reason = error.strerror or str(error)
            raise CheckpointError(
                f"{target} cannot be written: {reason}; free space on this disk. Earlier checkpoints are intact"
            ) from error
        self._drop_later(target)
        self._drop_old()
        return target

    def _write(self, checkpoint: Checkpoint, partial: Path, target: Path) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._restore_replaced()
        # Left by a killed process, or because another process held files open when the folder was deleted.
        for folder in self.path.glob(".partial_*"):
            if _LEFTOVER.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)
        partial.mkdir()
        hashes, sizes = {}, {}
        for name, state in checkpoint.parts.items():
            data = save_safetensors({key: np.asarray(value, order="C") for key, value in state.items()})
            hashes[name], sizes[name] = hashlib.sha256(data).hexdigest(), len(data)
            write_durably(partial / f"{name}.safetensors", data)
        content = {"step": checkpoint.step, "sha256": hashes, "bytes": sizes, "facts": dict(checkpoint.facts)}
        _write_manifest(partial, content)
        if target.exists():
            target.rename(self.path / f"{_REPLACED}{target.name}")
        partial.rename(target)
        sync_folder(self.path)
        shutil.rmtree(self.path / f"{_REPLACED}{target.name}", ignore_errors=True)

    def amend(self, step: int, facts: Mapping[str, Any]) -> None:
        """Change some facts of the checkpoint of ``step``; do nothing if it no longer exists.

        Raises:
            CheckpointError: if it is damaged or cannot be written; it is unchanged then.
        """
        folder = self._folder(step)
        if not folder.exists():
            return
        manifest = _read_manifest(folder)
        manifest["facts"] |= facts
        try:
            _write_manifest(folder, manifest)
        except OSError as error:
            reason = error.strerror or str(error)
            raise CheckpointError(f"{folder} cannot be changed: {reason}; free space on this disk") from error

    def load(self, step: int, only: tuple[str, ...] | None = None) -> Checkpoint:
        """Read the checkpoint of ``step``; see :func:`load_checkpoint`."""
        return load_checkpoint(self._folder(step), only)

    def _folder(self, step: int) -> Path:
        return self.path / _folder_name(step)

    def _restore_replaced(self) -> None:
        """Restore a checkpoint that was moved away for a replacement that was never completed."""
        for replaced in self.path.glob(f"{_REPLACED}*"):
            target = self.path / replaced.name.removeprefix(_REPLACED)
            if not target.exists():
                replaced.rename(target)

    def folders(self) -> list[Path]:
        """Return the complete checkpoints, oldest first."""
        self._restore_replaced()
        return sorted(path for path in self.path.glob("step_*") if (path / "manifest.json").exists())

    def best(self) -> Path | None:
        """Return the folder with the highest ``score`` in its facts, the newest one of equal scores.

        Damaged checkpoints count as without a score. If no checkpoint has a score, return the newest folder, or None if
        there are no checkpoints.
        """
        scored, folders = [], self.folders()
        for path in folders:
            with contextlib.suppress(CheckpointError):
                score = read_facts(path).get("score")
                if isinstance(score, int | float) and math.isfinite(score):
                    scored.append((score, path))
        return max(scored)[1] if scored else next(reversed(folders), None)

    def load_newest(self) -> Checkpoint:
        """Return the newest checkpoint that is intact, has all its parts, and whose agent is finite.

        Raises:
            CheckpointError: if no checkpoint is intact; the message lists the fault of each.
        """
        faults = []
        for folder in reversed(self.folders()):
            try:
                checkpoint = load_checkpoint(folder)
            except CheckpointError as error:
                faults.append(str(error))
                continue
            if (name := not_finite(checkpoint.parts.get("agent", {}))) is None:
                return checkpoint
            faults.append(f"{folder}: {name!r} of its agent is not finite")
        detail = "; ".join(faults) or "the folder holds none"
        raise CheckpointError(f"no usable checkpoint in {self.path}: {detail}")

    def _drop_later(self, newest: Path) -> None:
        for folder in self.folders():
            if folder.name > newest.name:
                self._drop(folder)

    def _drop_old(self) -> None:
        best = self.best()
        folders = self.folders()
        for folder in folders[: -self._keep]:
            if folder != best:
                self._drop(folder)
        for folder in folders[:-2]:
            with contextlib.suppress(OSError):
                (folder / "replay.safetensors").unlink()

    def _drop(self, folder: Path) -> None:
        """Delete a checkpoint. Files that another process holds open on a network disk are deleted on the next save."""
        dropped = self.path / f"{_DROPPED}{folder.name}"
        with contextlib.suppress(OSError):
            folder.rename(dropped)  # so that it no longer counts as a checkpoint, even if some of its files remain
            shutil.rmtree(dropped, ignore_errors=True)


def not_finite(state: State) -> str | None:
    """Return the name of the first array with NaN or infinities; None if all are finite."""
    arrays = (name for name, array in state.items() if array.dtype.kind == "f" and not np.isfinite(array).all())
    return next(arrays, None)


def read_facts(folder: Path) -> dict[str, Any]:
    """Return the facts of a checkpoint without its arrays.

    Raises:
        CheckpointError: if the manifest is missing, damaged or of an unknown format.
    """
    facts = _read_manifest(folder)["facts"]
    return dict(facts)


def load_checkpoint(folder: Path, only: tuple[str, ...] | None = None) -> Checkpoint:
    """Read a checkpoint folder and check each file against its hash.

    Args:
        folder: ``checkpoints/step_<n>``.
        only: names of the parts to read; all by default.

    Raises:
        CheckpointError: naming the file that is truncated, altered or missing (heavy parts of old checkpoints are
            deleted).
    """
    manifest = _read_manifest(folder)
    parts = {}
    for name, expected in manifest["sha256"].items():
        file = folder / f"{name}.safetensors"
        if only is not None and name not in only:
            continue
        size = manifest["bytes"].get(name)
        try:
            data = read_bytes(file, min(memory_bytes(), PART_BYTES if size is None else size))
        except (DataError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise CheckpointError(f"{file}: cannot be read ({reason})") from error
        if size not in (None, len(data)):
            raise CheckpointError(f"{file}: expected {size:,} bytes, found {len(data):,}; use another checkpoint")
        if hashlib.sha256(data).hexdigest() != expected:
            raise CheckpointError(f"{file}: its SHA-256 is not the manifest's; it is damaged, use another checkpoint")
        try:
            parts[name] = load_safetensors(data)
        # safetensors raises KeyError and ValueError for types and shapes that NumPy does not support.
        except (SafetensorError, KeyError, ValueError) as error:
            raise CheckpointError(f"{file}: it holds no arrays ({error}); use another checkpoint") from error
    return Checkpoint(step=manifest["step"], parts=parts, facts=manifest["facts"])


def _write_manifest(folder: Path, content: Mapping[str, Any]) -> None:
    manifest = {"format": FORMAT, **content, "digest": _digest(content)}
    write_durably(folder / "manifest.json", json.dumps(manifest, indent=2).encode())


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return ``step``, ``sha256``, ``bytes`` and ``facts``; ``bytes`` is empty for older formats."""
    file = folder / "manifest.json"
    try:
        manifest = parse_json(read_bytes(file, MANIFEST_BYTES), str(file), finite=False)
    except (DataError, OSError, ValueError) as error:
        raise CheckpointError(f"{file}: no readable manifest ({error}); this is not a complete checkpoint") from error
    version = manifest.get("format") if isinstance(manifest, dict) else manifest
    if not isinstance(manifest, dict) or version not in (FORMAT, _WITHOUT_SIZES, _WITHOUT_DIGEST):
        raise CheckpointError(f"{file}: expected checkpoint format {FORMAT}, found {version!r}")
    kinds = {"step": int, "sha256": dict, "facts": dict} | ({"bytes": dict} if version == FORMAT else {})
    content: dict[str, Any] = {name: manifest.get(name) for name in kinds}
    typed = all(isinstance(content[name], kind) for name, kind in kinds.items())
    content = {"bytes": {}, **content}
    if not (typed and all(map(_PART.fullmatch, content["sha256"])) and all(map(_is_size, content["bytes"].values()))):
        raise CheckpointError(
            f"{file}: expected a step, hashes, sizes and facts; it is damaged, use another checkpoint"
        )
    if version != _WITHOUT_DIGEST and manifest.get("digest") != _digest({name: content[name] for name in kinds}):
        raise CheckpointError(f"{file}: its SHA-256 is not that of its content; it is damaged, use another checkpoint")
    if folder.name != _folder_name(content["step"]):
        raise CheckpointError(f"{file}: it is of step {content['step']}, not of {folder.name}; use another checkpoint")
    return content


def _is_size(value: Any) -> bool:
    return type(value) is int and value >= 0


def _digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of JSON values in the form in which they are read back."""
    plain = json.loads(json.dumps(content))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _folder_name(step: int) -> str:
    return f"step_{step:09d}"
