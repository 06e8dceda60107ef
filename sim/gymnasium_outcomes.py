"""Readers of the result of an environment's ``step``: reward, end of the episode, and success."""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .gymnasium_options import GymnasiumConfig

SUCCESS_KEYS = ("is_success", "success", "succeed")
"""Names under which environments report success: Gymnasium-Robotics and Stable-Baselines3, Meta-World, gym-hil."""
FINAL_OBSERVATIONS = ("final_observation", "final_obs", "terminal_observation")
"""Keys of ``info`` for the true last observation if an environment resets itself and returns the next first one."""
FINAL_INFOS = ("final_info", "terminal_info")
"""The same for ``info`` itself."""

_LARGEST = float(np.finfo(np.float32).max)
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def as_array(value: Any) -> NDArray[Any]:
    """Return ``value`` as an array. Tensors of PyTorch may be on any device, and of a type that NumPy lacks.

    Masked elements become NaN: NumPy would return the values behind the mask.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        return np.where(np.ma.getmaskarray(value), np.nan, np.asarray(value.data, np.float64))
    detach = getattr(value, "detach", None)
    if not callable(detach):
        return np.asarray(value)
    tensor = detach().cpu()
    return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)


def single(value: Any) -> Any:
    """Return the only element of a sequence, array or tensor of size one, and any other value unchanged."""
    if value is None or isinstance(value, str | bytes | Mapping | bool | int | float):
        return value
    array = as_array(value)
    return array.reshape(-1)[0] if array.size == 1 and not array.dtype.names else value


def read_number(name: str, value: Any) -> float:
    """Return ``value``, a number or an array of one number, as a float.

    Raises:
        ValueError: if it is anything else, not finite, or too large for float32, in which it is stored.
    """
    element = single(value)
    if isinstance(element, np.generic):  # ``item`` of NumPy's longest float is no float
        element = float(element) if isinstance(element, np.floating) else element.item()
    if isinstance(element, bool | int | float) and abs(element) <= _LARGEST:
        return float(element)
    raise ValueError(f"{name} is {_represent(value)}, expected one finite number of at most {_LARGEST:.2g}")


def _represent(value: Any) -> str:
    """Return ``value`` for a message. Python does not print integers of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return "an integer of thousands of digits"


def read_flag(name: str, value: Any) -> bool:
    """Return ``value``, a truth value or an array of one, as a bool.

    Raises:
        ValueError: if it is anything else. A text such as "false" does not count as true.
    """
    element = single(value)
    if isinstance(element, bool | int | float | np.number | np.bool_) and element in (0, 1):
        return bool(element)
    raise ValueError(f"{name} is {value!r}, expected a truth value")


class SuccessReader:
    """A reader of success from ``info``.

    Args:
        config: key of success and meaning of its values.

    Attributes:
        keys: keys of success in ``info``; the first one present counts.
    """

    def __init__(self, config: GymnasiumConfig) -> None:
        self.keys = SUCCESS_KEYS if config.success_key is None else (config.success_key,)
        self._low, self._high = config.success_at_least, config.success_at_most
        self._compares = self._low is not None or self._high is not None

    def read(self, info: Any, ends: bool = False) -> bool | None:
        """Return whether the task is solved; None if ``info`` does not report it.

        Args:
            info: ``info`` of a step or reset.
            ends: whether the episode ends; if so, the ``info`` under :data:`FINAL_INFOS`, if present, has precedence.

        Raises:
            ValueError: if ``info`` is no dict, or the value is no truth value and no limit is configured.
        """
        if not isinstance(info, Mapping):
            raise ValueError(f"expected info to be a dict, got {type(info).__name__}")
        for source in [final(info, FINAL_INFOS), info] if ends else [info]:
            for key in self.keys:
                value = _find(source, key)
                if value is not None:
                    return self._solved(key, value)
        return None

    def hint(self, info: Mapping[str, Any]) -> str:
        """Return advice with a key of ``info`` that resembles the missing configured one; empty if there is none."""
        close = difflib.get_close_matches(self.keys[0], map(str, info), n=1, cutoff=0.6)
        return f"info has no {self.keys[0]!r}; did you mean task.success_key={close[0]}?" if close else ""

    def _solved(self, key: str, value: Any) -> bool:
        elements = list(_elements(value))
        if not elements:
            raise ValueError(f"info[{key!r}] is empty, expected a truth value")
        holds = [self._holds(key, element) for element in elements]
        return all(holds)

    def _holds(self, key: str, element: Any) -> bool:
        """Return whether one element means success."""
        if isinstance(element, bytes):
            element = element.decode(errors="replace")
        if isinstance(element, bool | int | float | np.number | np.bool_) and math.isfinite(element):
            if self._compares:
                low = -math.inf if self._low is None else self._low
                high = math.inf if self._high is None else self._high
                return bool(low <= float(element) <= high)
            if element in (0, 1):
                return bool(element)
        if not self._compares and isinstance(element, str) and (word := element.strip().lower()) in _WORDS:
            return _WORDS[word]
        wanted = "a number" if self._compares else "a truth value (true or false, 1 or 0, or these words)"
        advice = (
            "; of numbers say which mean success by task.success_at_least=NUMBER or task.success_at_most=NUMBER, or "
            "name another key by task.success_key=KEY"
        )
        raise ValueError(f"info[{key!r}] is {element!r}, expected {wanted}{'' if self._compares else advice}")


def final(info: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Return the value of the first of ``keys`` that ``info`` has for the episode that ended, or None."""
    value = next((info[key] for key in keys if info.get(key) is not None), None)
    # Vector environments return one element for each environment.
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], Mapping):
        return value[0]
    return single(value) if isinstance(value, np.ndarray) and value.dtype == object else value


def _elements(value: Any) -> Iterator[Any]:
    if isinstance(value, str | bytes):
        yield value
    elif isinstance(value, Mapping):
        for element in value.values():
            yield from _elements(element)
    elif isinstance(value, list | tuple):  # elements may have any shape, so they are read one by one
        for element in value:
            yield from _elements(element)
    else:
        yield from as_array(value).reshape(-1).tolist()


def _find(info: Any, key: str) -> Any:
    """Return the value under ``key``, or at the end of ``key`` as a dotted path; None if there is none."""
    if isinstance(info, Mapping) and key in info:
        return info[key]
    value = info
    for part in key.split("."):
        if isinstance(value, Mapping):  # keys may be numbers
            value = next((value[name] for name in value if str(name) == part), None)
        elif part.isdecimal() and not isinstance(value, str | bytes | None) and int(part) < np.size(as_array(value)):
            value = as_array(value).reshape(-1)[int(part)]
        else:
            return None
    return value
