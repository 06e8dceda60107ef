"""YAML as OmegaConf reads and writes it, faster: on the parser of libyaml, and without a configuration in between."""

import functools
from collections.abc import Mapping
from typing import Any, cast

import omegaconf._utils as omegaconf_utils
import yaml

from .foreign import DEPTH

_own_loader = omegaconf_utils.get_yaml_loader


@functools.cache
def yaml_loader() -> Any:
    """Return a loader for ``yaml.load`` that accepts and builds what OmegaConf's own does.

    Only the parser differs: numbers, duplicate keys, tags and the types of values are those of OmegaConf. It also
    accepts tabs between a key and its value, as YAML does. It refuses texts that nest deeper than :data:`.DEPTH`: the
    parser calls itself for each level, and would end the process.
    """
    own = _own_loader()
    if not yaml.__with_libyaml__:
        return own

    def start(self: Any, stream: Any) -> None:
        yaml.cyaml.CParser.__init__(self, stream)
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)
        self.depth = 0

    def descend(self: Any, parent: Any, index: Any) -> None:
        self.depth += 1
        if self.depth > DEPTH:
            raise yaml.YAMLError(f"nested deeper than {DEPTH} levels")
        yaml.resolver.Resolver.descend_resolver(self, parent, index)

    def ascend(self: Any) -> None:
        self.depth -= 1
        yaml.resolver.Resolver.ascend_resolver(self)

    methods = {"__init__": start, "descend_resolver": descend, "ascend_resolver": ascend}
    return type("FastLoader", (yaml.cyaml.CParser, own), methods)


def use_fast_yaml() -> None:
    """Let OmegaConf, and Hydra with it, read all YAML of this process with :func:`yaml_loader`."""
    cast(Any, omegaconf_utils).get_yaml_loader = yaml_loader


def plain_yaml(values: Mapping[str, Any]) -> str:
    """Return options of plain values as YAML, as ``OmegaConf.to_yaml`` writes them."""
    dumper = omegaconf_utils.get_omega_conf_dumper()
    text: str = yaml.dump(dict(values), default_flow_style=False, allow_unicode=True, sort_keys=False, Dumper=dumper)
    return text
