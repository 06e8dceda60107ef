"""Limits on models in MJCF, which a few lines can make arbitrarily large: checked before MuJoCo compiles them.

Based on https://mujoco.readthedocs.io/en/stable/XMLreference.html.
"""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from .errors import ConfigError, DataError, SpecError
from .foreign import open_regular, read_bytes
from .image_files import MAX_PIXELS, read_image_header

MAX_ELEMENTS = 8000
"""Elements of a model including replicas: robots have hundreds. The compile time grows with the square."""

_FILE_BYTES = 2**26
_ASSET_BYTES = 2**30
"""Total size of the meshes, pictures and other files of a model, each counted as often as it is named."""
_DECODED_BYTES = 2**29
"""Total size of the textures and height fields of a model in memory; compiling needs twice as much."""
_CHANNELS = 3
_CUBE_FACES = 6
_HEIGHT_BYTES = 4
_MAX_FOLDERS = 20
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
    ("size", "nkey"): 500,
    ("option", "iterations"): 1e4,
    ("option", "ls_iterations"): 1e4,
    ("option", "noslip_iterations"): 1e4,
    ("option", "ccd_iterations"): 1e4,
    ("option", "sdf_iterations"): 1e3,
    ("option", "sdf_initpoints"): 1e4,
}
"""Largest values by element and attribute; for ``nuser_*`` in ``size`` the limit is ``_MAX_USER``."""
_MAX_USER = 1000
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


def check_mjcf(path: str | Path, option: str, content: bytes | None = None) -> None:
    """Check that a model in MJCF or URDF does not request more elements and memory than any robot needs.

    The files that it names (meshes, pictures, ...) must be regular files: reading a named pipe would block forever.

    Args:
        path: path of the model; files that it includes or attaches are checked too.
        option: the option that names the file, for messages.
        content: content that is checked instead of the file's own, for example with the full paths of meshes.

    Raises:
        ConfigError: if it exceeds a limit or is not XML; the message gives the place.
    """
    _Model(option, _Totals(), Path(path).parent).check(Path(path), content)


@dataclass
class _Named:
    """The files that a model and its included files name, except other models.

    Attributes:
        files: for each file the start of the error message, the folder of the file that names it, its name, and the
            bytes in memory of each of its pixels; 0 if it is not a picture.
        folders: folders in which ``compiler`` has MuJoCo look for files. They hold for all files, wherever it appears.
    """

    files: list[tuple[str, Path, str, int]] = field(default_factory=list)
    folders: set[str] = field(default_factory=lambda: {""})


@dataclass
class _Totals:
    """Totals of a model with everything that it includes and attaches.

    Attributes:
        models: number of models that have been read.
        stored: size of the other files [bytes].
        decoded: size of textures and height fields in memory [bytes].
    """

    models: int = 0
    stored: int = 0
    decoded: int = 0


class _Model:
    """Counts the elements of a file and of the files that it includes.

    Args:
        option: name of the option, for messages.
        totals: totals so far, which all files share.
        main: folder of the model's main file, where MuJoCo looks for files before the folder of an included one.
        including: files that include this one, outermost first.
    """

    def __init__(self, option: str, totals: _Totals, main: Path, including: tuple[Path, ...] = ()) -> None:
        self._option, self._totals, self._main, self._including = option, totals, main, including
        self._factors = [1.0]
        self._attached: dict[str, float] = {}
        self._named = _Named()
        self.elements = 0.0

    def check(self, path: Path, content: bytes | None = None) -> None:
        """Read a file, or ``content`` in its place, and add its elements to ``elements``."""
        self._read(path, content)
        for where, beside, name, pixel_bytes in self._named.files:
            for file in self._places(beside, name):
                stored, pixels = _checked_size(file, where, pixel_bytes > 0)
                self._totals.stored += stored
                if self._totals.stored > _ASSET_BYTES:
                    raise ConfigError(f"{where}: at most {_ASSET_BYTES:,} bytes of files are read, {file} exceeds them")
                self._claim(pixels * pixel_bytes, where)

    def _read(self, path: Path, content: bytes | None = None) -> None:
        self._totals.models += 1
        self._path = path
        if self._totals.models > _MAX_FILES:
            raise ConfigError(f"{self._option}: more than {_MAX_FILES} files are included, with {path}")
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = lambda _: self._factors.pop()
        self._parser = parser
        try:
            parser.Parse(read_bytes(path, _FILE_BYTES) if content is None else content, True)
        except (expat.ExpatError, DataError, OSError) as error:
            raise ConfigError(f"{self._option}: {path} is not a valid MJCF file: {error}") from error

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
                raise self._error(f"{name} has {attribute} {largest:g}; at most {most:g} is allowed")
        if name == "compiler":
            self._note_folders(attributes)
        elif name == "include" and (file := attributes.get("file")):
            self._include(file, factor)
        elif name == "model" and (file := attributes.get("file")):
            models = [(_Model(self._option, self._totals, path.parent), path) for path in self._found(file)]
            for model, path in models:
                model.check(path)
            self._attached[attributes.get("name", Path(file).stem)] = sum(model.elements for model, _ in models)
        elif name == "attach":
            self.elements += factor * self._attached.get(attributes.get("model", ""), 1)
        else:
            self._claim(self._decoded_size(name, attributes), self._place())
            self._note_files(name, attributes)
        if self.elements > MAX_ELEMENTS or len(self._factors) > _MAX_DEPTH:
            size = f"{self.elements:g} elements including replicas, {len(self._factors)} deep"
            raise self._error(f"{size}; at most {MAX_ELEMENTS} and {_MAX_DEPTH} are allowed")

    def _include(self, file: str, factor: float) -> None:
        """Count the elements of an included file; if two files match its name, count those of both."""
        candidates, including = self._found(file), (*self._including, self._path)
        for path in [each for each in candidates if each not in including] or candidates:
            included = _Model(self._option, self._totals, self._main, including)
            included._factors, included._attached, included._named = [factor], self._attached, self._named
            included._read(path)
            self.elements += included.elements

    def _note_folders(self, attributes: dict[str, str]) -> None:
        self._named.folders |= {value for key, value in attributes.items() if key.endswith("dir")}
        if len(self._named.folders) > _MAX_FOLDERS:
            raise self._error(f"compiler names more than {_MAX_FOLDERS} folders of meshes and textures")

    def _decoded_size(self, name: str, attributes: dict[str, str]) -> int:
        """Return the size in memory of a texture or height field that an element declares, not one from a file."""
        sides = {"texture": ("width", "height"), "hfield": ("nrow", "ncol")}.get(name)
        if sides is None:
            return 0
        first, second = (int(max(self._numbers(attributes.get(side, "0")), default=0)) for side in sides)
        if name == "hfield":
            return first * second * _HEIGHT_BYTES
        is_flat = attributes.get("type") == "2d"
        return (first * second if is_flat else _CUBE_FACES * first**2) * _CHANNELS

    def _claim(self, size: int, where: str) -> None:
        """Add to the size in memory."""
        self._totals.decoded += size
        if self._totals.decoded > _DECODED_BYTES:
            raise ConfigError(
                f"{where}: textures and height fields take {self._totals.decoded:,} bytes of memory or more; at most "
                f"{_DECODED_BYTES:,} are allowed"
            )

    def _note_files(self, element: str, attributes: dict[str, str]) -> None:
        """Record the files that an element names, including the value of a plugin's option."""
        where, beside = self._place(), self._path.parent
        if element == "config" and "file" in attributes.get("key", ""):
            attributes = {"file": attributes.get("value", "")}
        for attribute, value in attributes.items():
            if attribute.startswith("file") and value:  # also fileleft of textures, and filename in URDF
                faces = _CUBE_FACES if attributes.get("type") != "2d" and attribute == "file" else 1
                pixel_bytes = {"texture": _CHANNELS * faces, "hfield": _HEIGHT_BYTES}.get(element, 0)
                self._named.files.append((where, beside, value, pixel_bytes))

    def _found(self, file: str) -> list[Path]:
        """Return the files that an included name may refer to; the path beside this file if none exists."""
        paths = dict.fromkeys((self._main / file, self._path.parent / file))
        return [path for path in paths if os.path.lexists(path)] or [self._path.parent / file]

    def _places(self, beside: Path, file: str) -> set[Path]:
        """Return all paths where MuJoCo may look for a file: its rules are complex and differ by version."""
        names = {file.removeprefix("package://"), Path(file).name}
        return {top / folder / name for top in (self._main, beside) for folder in self._named.folders for name in names}

    def _numbers(self, text: str) -> list[float]:
        """Return the numbers in an attribute; anything else counts as 0, and MuJoCo reports it."""
        numbers = []
        for word in text.split():
            unit = _UNITS.get(word[-1:].upper(), 1)
            try:
                number = float(word[:-1] if unit > 1 else word) * unit
            except ValueError:
                number = 0.0
            numbers.append(number if math.isfinite(number) else math.inf)
        return numbers

    def _place(self) -> str:
        return f"{self._option}: {self._path}, line {self._parser.CurrentLineNumber}"

    def _error(self, found: str) -> ConfigError:
        return ConfigError(f"{self._place()}: {found}")


def _checked_size(path: Path, where: str, pictured: bool) -> tuple[int, int]:
    """Return bytes and pixels of a file; zeros if it is missing or cannot be read, which MuJoCo reports itself.

    Raises:
        ConfigError: if it is not a regular file, or a picture that declares too large a size.
    """
    try:
        with open_regular(path) as file:
            pixels = _checked_pixels(path, os.pread(file, _HEADER_BYTES, 0), where) if pictured else 0
            return os.fstat(file).st_size, pixels
    except DataError as error:
        raise ConfigError(f"{where}: {error}") from error
    except OSError:
        return 0, 0


def _checked_pixels(path: Path, data: bytes, where: str) -> int:
    """Return the pixels that a picture declares; 0 if it cannot be read, which MuJoCo reports itself."""
    try:
        header = read_image_header(data)
    except SpecError:
        return 0
    if header.height * header.width > MAX_PIXELS:
        raise ConfigError(f"{where}: {path} is {header}, at most {MAX_PIXELS} pixels are read")
    return header.height * header.width
