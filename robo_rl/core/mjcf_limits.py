"""Limits on models in MJCF, which a few lines can make as large as one likes: checked before MuJoCo compiles them.

Written from https://mujoco.readthedocs.io/en/stable/XMLreference.html.
"""

import math
import os
from pathlib import Path
from typing import Any
from xml.parsers import expat

from .errors import ConfigError, DataError, SpecError
from .foreign import open_regular, read_bytes
from .image_files import MAX_PIXELS, read_image_header

MAX_ELEMENTS = 8000
"""Elements of a model with all that is replicated: robots have hundreds. The time to compile grows by their square."""

_FILE_BYTES = 2**26
_MAX_DEPTH = 200
_MAX_FILES = 200
_HEADER_BYTES = 2**16
_COUNTS = {"replicate": ("count",), "composite": ("count",), "flexcomp": ("count", "cellcount")}
"""Attributes that multiply elements."""
_LARGEST: dict[tuple[str, str], float] = {
    ("hfield", "nrow"): 4096,
    ("hfield", "ncol"): 4096,
    ("texture", "width"): 8192,
    ("texture", "height"): 8192,
    ("mesh", "params"): 500,
    ("numeric", "size"): 1e5,
    ("user", "dim"): 1e4,
    ("global", "offwidth"): 8192,
    ("global", "offheight"): 8192,
    ("quality", "shadowsize"): 16384,
    ("quality", "offsamples"): 64,
    ("quality", "numslices"): 1000,
    ("quality", "numstacks"): 1000,
    ("quality", "numquads"): 1000,
    ("camera", "resolution"): 8192,
    ("general", "nsample"): 1e4,
    ("size", "memory"): 2**30,
    ("size", "njmax"): 1e5,
    ("size", "nconmax"): 1e5,
    ("size", "nstack"): 1e8,
    ("size", "nuserdata"): 1e6,
    ("size", "nkey"): 1e4,
    ("option", "iterations"): 1e4,
    ("option", "ls_iterations"): 1e4,
    ("option", "noslip_iterations"): 1e4,
    ("option", "ccd_iterations"): 1e4,
    ("option", "sdf_iterations"): 1e3,
    ("option", "sdf_initpoints"): 1e4,
}
"""Largest values by element and attribute; of ``nuser_*`` in ``size`` it is ``_MAX_USER``."""
_MAX_USER = 1000
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


def check_mjcf(path: str | Path, option: str) -> None:
    """Check that a model in MJCF or URDF does not ask for more elements and memory than any robot needs.

    Args:
        path: of the file; those that it includes or attaches are checked with it.
        option: that names the file, for messages.

    Raises:
        ConfigError: if it does, or is no XML; the message says where.
    """
    _Model(option, []).check(Path(path))


class _Model:
    """Counts the elements of a file and of those that it includes.

    Args:
        option: for messages.
        files: those that were read so far.
    """

    def __init__(self, option: str, files: list[Path]) -> None:
        self._option, self._files = option, files
        self._factors = [1.0]
        self._attached: dict[str, float] = {}
        self._texture_folder = ""
        self._folders = {""}
        self._assets: list[str] = []
        self.elements = 0.0

    def check(self, path: Path) -> None:
        """Read a file; ``elements`` grows by what it has."""
        self._files.append(path)
        self._path = path
        if len(self._files) > _MAX_FILES:
            raise ConfigError(f"{self._option}: more than {_MAX_FILES} files are included, {path} among them")
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = lambda _: self._factors.pop()
        self._parser = parser
        try:
            parser.Parse(read_bytes(path, _FILE_BYTES), True)
        except (expat.ExpatError, DataError, OSError) as error:
            raise ConfigError(f"{self._option}: {path} is not a valid MJCF file: {error}") from error
        self._check_assets()

    def _check_assets(self) -> None:
        """Refuse pipes and devices among the files that the model names, which MuJoCo would wait for."""
        places = {file.parent / folder for file in self._files for folder in self._folders}
        for name in dict.fromkeys(self._assets):
            for file in {place / each for place in places for each in (name, Path(name).name)}:
                if file.exists() and not file.is_file():
                    raise ConfigError(f"{self._option}: {self._path}: {file} is not a regular file")

    def _refuse_doctype(self, *_: Any) -> None:
        raise ConfigError(f"{self._option}: {self._path} has a document type, which no model needs; remove it")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        factor = self._factors[-1]
        for attribute in _COUNTS.get(name, ()):
            factor *= max(math.prod(self._numbers(attributes.get(attribute, "1"))), 1)
        self._factors.append(factor)
        self.elements += factor
        for attribute, text in attributes.items():
            most = _MAX_USER if name == "size" and attribute.startswith("nuser_") else _LARGEST.get((name, attribute))
            if most is not None and (largest := max(self._numbers(text), default=0)) > most:
                raise self._error(f"{name} has {attribute} {largest:g}; at most {most:g} is taken")
        file = attributes.get("file")
        self._assets += [value for key, value in attributes.items() if key.startswith("file") and value]
        if name == "compiler":
            self._folders |= {attributes[key] for key in attributes if key.endswith("dir")}
            folder = attributes.get("texturedir") or attributes.get("assetdir") or self._texture_folder
            self._texture_folder = folder
        elif name == "include" and file:
            included = _Model(self._option, self._files)
            included._factors, included._attached = [factor], self._attached
            included._folders, included._assets = self._folders, self._assets
            included.check(self._beside(file))
            self.elements += included.elements
        elif name == "model" and file:
            model = _Model(self._option, self._files)
            model.check(self._beside(file))
            self._attached[attributes.get("name", Path(file).stem)] = model.elements
        elif name == "attach":
            self.elements += factor * self._attached.get(attributes.get("model", ""), 1)
        elif name in ("texture", "hfield"):
            for key, value in attributes.items():
                if key.startswith("file"):
                    self._check_image(self._beside(value, self._texture_folder))
        if self.elements > MAX_ELEMENTS or len(self._factors) > _MAX_DEPTH:
            found = f"{self.elements:g} elements with what is replicated, {len(self._factors)} deep"
            raise self._error(f"{found}; at most {MAX_ELEMENTS} and {_MAX_DEPTH} are taken")

    def _beside(self, file: str, folder: str = "") -> Path:
        return self._path.parent / folder / file

    def _check_image(self, path: Path) -> None:
        """Compare the size that an image states; what MuJoCo cannot read it says itself."""
        try:
            with open_regular(path) as file:
                header = read_image_header(os.read(file, _HEADER_BYTES))
        except (DataError, OSError, SpecError):
            return
        if header.height * header.width > MAX_PIXELS:
            raise self._error(f"{path} is {header}, at most {MAX_PIXELS} pixels are read")

    def _numbers(self, text: str) -> list[float]:
        """Return the numbers in an attribute; what is none counts as 0, and MuJoCo says so."""
        numbers = []
        for word in text.split():
            unit = _UNITS.get(word[-1:].upper(), 1)
            try:
                number = float(word[:-1] if unit > 1 else word) * unit
            except ValueError:
                number = 0.0
            numbers.append(number if math.isfinite(number) else math.inf)
        return numbers

    def _error(self, found: str) -> ConfigError:
        place = f"line {self._parser.CurrentLineNumber}"
        return ConfigError(f"{self._option}: {self._path}, {place}: {found}")
