"""Names and classes of packages that are imported with their first use."""

import ast
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


class ClassTable(Mapping[str, type]):
    """Classes by name. The module of a class is imported when the class is looked up.

    Args:
        package: name of the package that contains the modules.
        classes: the module in the package and the name of the class, as ``module.Class``, by name in the table.
    """

    def __init__(self, package: str, **classes: str) -> None:
        self._package = package
        self._classes = classes

    def __getitem__(self, name: str) -> type:
        module, _, class_name = self._classes[name].rpartition(".")
        found: type = getattr(importlib.import_module(f"{self._package}.{module}"), class_name)
        return found

    def path(self, name: str) -> str:
        """Return the full name of a class, without importing it."""
        return f"{self._package}.{self._classes[name]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


def imported_on_use(package: str, file: str) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a package whose imports stand under ``if TYPE_CHECKING:``.

    Type checkers read these imports; at run time each happens when one of its names is used for the first time. ``dir``
    lists the names before that.

    Args:
        package: name of the package.
        file: its ``__init__.py``.
    """

    @functools.cache
    def modules() -> dict[str, str]:
        """Return the module of each name."""
        guarded = (node for node in ast.parse(Path(file).read_text()).body if isinstance(node, ast.If))
        imports = (node for block in guarded for node in block.body if isinstance(node, ast.ImportFrom))
        return {alias.name: f"{'.' * node.level}{node.module}" for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name.startswith("__") or name not in modules():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules()[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    package_names = vars(sys.modules[package])
    package_names["__dir__"] = lambda: sorted({*package_names, *modules()})
    return get
