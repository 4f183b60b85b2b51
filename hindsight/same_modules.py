"""Lets modules be found by a second name, as the same modules: classes and errors of both names are one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType


class _SameModules(MetaPathFinder, Loader):
    def __init__(self, package: str) -> None:
        self._below = f"{package}."

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name.startswith(self._below) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"hindsight.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran under its own name, which it keeps."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state


def found_as(package: str) -> None:
    """Let ``package.x`` be ``hindsight.package.x`` from now on."""
    sys.meta_path.insert(0, _SameModules(package))
