"""Checks of values in files and messages from untrusted sources, made where they are read."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf

from .errors import DataError, RoboRLError
from .fast_yaml import yaml_loader
from .foreign import ForeignFolder, NoJsonError, check_characters

MOST_COUNT = (1 << 63) - 1
"""Largest count that arrays can hold."""
MOST_SAVED = 1 << 62
"""Largest count in a saved state: no run counts from there to what an array cannot hold."""
_LARGEST = 1e300
"""Sums of larger numbers overflow."""


def load_options(path: Path) -> dict[Any, Any]:
    """Return the options in a YAML file as plain values: dictionaries, lists, texts, numbers, booleans and None.

    Interpolations remain texts.

    Raises:
        DataError: if it is too large or nested too deeply, or does not hold named options.
        OSError: if it cannot be opened or read.
    """
    text = ForeignFolder(path.parent).read_yaml(path.name)
    try:
        values = yaml.load(text, Loader=yaml_loader())
        _check_plain(values)
        check_characters(values)
    except Exception as error:  # the YAML reader passes on whatever the conversion of a value raises
        raise _damaged(path, error) from error
    if values is None or isinstance(values, str):
        return {} if values is None else {values: None}
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a configuration: expected options by name, found {type(values).__name__}")
    return values


def load_config(path: Path) -> DictConfig:
    """Return the options in a YAML file as a configuration, with unresolved interpolations.

    Raises:
        DataError: as :func:`load_options`, and if an interpolation has no valid form.
        OSError: if it cannot be opened or read.
    """
    values = load_options(path)
    try:
        return OmegaConf.create(values)
    except Exception as error:  # OmegaConf raises many types
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    reason = str(error).partition("\n")[0] or type(error).__name__
    return DataError(f"{path} cannot be read ({reason}): it is damaged, restore it from a copy")


def _check_plain(value: Any) -> None:
    """Reject nested values of a type that options cannot have, such as a set or a date.

    Raises:
        ValueError: if there is one.
    """
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str | int | float):
                raise ValueError(f"an option cannot be named by a value of type {type(key).__name__}")
    elif not isinstance(value, list):
        if not isinstance(value, str | int | float | None):
            raise ValueError(f"an option cannot be a value of type {type(value).__name__}")
        return
    for each in value.values() if isinstance(value, dict) else value:
        _check_plain(each)


def whole_number(value: Any, least: int = 0, most: int = MOST_COUNT) -> int:
    """Return a value that must be a whole number from ``least`` to ``most``.

    Raises:
        ValueError: if it is not, also for booleans, which are integers in Python.
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"expected a whole number from {least} to {most}, got {str(value)[:40]!r}")
    return value


def finite_number(value: Any) -> float:
    """Return a value that must be a finite number.

    Raises:
        ValueError: if it is not, also for booleans, which are integers in Python.
    """
    if type(value) not in (int, float) or not abs(value) <= _LARGEST:
        raise ValueError(f"expected a finite number, got {str(value)[:40]!r}")
    return float(value)


def saved_counts(array: NDArray[Any], size: int, least: int = 0) -> list[int]:
    """Return the values of a saved array of ``size`` whole numbers from ``least`` to ``MOST_SAVED``.

    Raises:
        ValueError: if it is another array.
    """
    if array.dtype.kind not in "iu" or array.ndim > 1 or array.size != size:
        raise ValueError(f"expected {size} whole numbers, got {array.dtype} {array.shape}")
    return [whole_number(value, least, MOST_SAVED) for value in array.ravel().tolist()]


def saved_numbers(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the values of a saved array of finite floating-point numbers.

    Raises:
        ValueError: if it has another shape or type, or a number is not finite.
    """
    if array.dtype.kind != "f" or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"expected finite numbers of shape {shape}, got {array.dtype} {array.shape}")
    return array.astype(np.float64)


@contextlib.contextmanager
def reading(what: object, error_class: type[RoboRLError] = DataError, advice: str = "restore it") -> Iterator[None]:
    """Turn errors that values of a wrong type raise within the block into an error of robo-rl.

    Errors of robo-rl and of the operating system pass unchanged, except those about invalid JSON.

    Args:
        what: path of the file, or name of the data.
        error_class: class of the error.
        advice: what the user should do.
    """
    try:
        yield
    except NoJsonError as error:
        raise error_class(f"{what} is damaged ({error}): {advice}") from error
    except RoboRLError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise error_class(f"{what} is damaged ({type(error).__name__}: {reason}): {advice}") from error
