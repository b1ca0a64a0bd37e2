"""Experts: LoRA adapters for the query side, as folders that can be added and removed."""

from __future__ import annotations

from .card import ExpertCard
from .installed import InstalledPacks
from .pack import ExpertPack, load_pack
from .registry import ExpertRegistry

__all__ = ["ExpertCard", "ExpertPack", "ExpertRegistry", "InstalledPacks", "load_pack"]
