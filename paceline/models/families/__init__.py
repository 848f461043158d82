"""Families of decoders: each file of this folder is one, named as `model_type` names it."""

from __future__ import annotations

import pkgutil

from paceline.models.family import Family
from paceline.registry import Registry

families: Registry[Family] = Registry(
    "model family",
    {module.name: f"{__name__}.{module.name}:FAMILY" for module in pkgutil.iter_modules(__path__)},
)
