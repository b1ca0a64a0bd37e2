"""The experts that a model serves right now."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import PackError, UnknownExpertError
from ..models.arrays import AdapterBank, Floats
from ..models.manifest import LoraTarget, Manifest
from .card import ExpertCard
from .pack import ExpertPack, load_pack

MAX_EXPERTS = 1000


@dataclass(frozen=True)
class LoadedExperts:
    """One consistent state: readers keep it for the length of a call.

    Attributes:
        packs: by name, in bank order (row 1 is the first).
        bank: their adapters, stacked.
    """

    packs: dict[str, ExpertPack]
    bank: AdapterBank

    def row(self, name: str) -> int:
        """Find an expert's row in the bank.

        Args:
            name: ``"base"`` or an expert.

        Returns:
            The row; 0 is the base.

        Raises:
            UnknownExpertError: naming the known ones.
        """
        try:
            return self.bank.names.index(name)
        except ValueError:
            raise UnknownExpertError(name, self.bank.names) from None

    def strength(self, name: str) -> float:
        """Tell how strongly an expert's adapter is applied.

        Args:
            name: ``"base"`` or an expert.

        Returns:
            The factor of its card; 0 for the base.
        """
        return self.packs[name].card.strength if name in self.packs else 0.0


class ExpertRegistry:
    """Adds and removes experts while queries run.

    Changes build a new state and swap it in, so that a failed change leaves everything as it was
    and a running call never sees half of one.

    Args:
        manifest: of the base.
        bundled: folder of packs that ship with the model; read on first use.
    """

    def __init__(self, manifest: Manifest, bundled: Path | None = None) -> None:
        self._manifest = manifest
        self._bundled = bundled
        self._state: LoadedExperts | None = None
        self._lock = threading.Lock()

    @property
    def state(self) -> LoadedExperts:
        """The experts as they are now."""
        with self._lock:
            return self._loaded()

    def list(self) -> list[ExpertCard]:
        """List the experts.

        Returns:
            Their cards, in the order they were added.
        """
        return [pack.card for pack in self.state.packs.values()]

    def add(self, directory: str | Path) -> ExpertCard:
        """Load a pack. Stored vectors stay as they are: documents never pass through experts.

        Args:
            directory: the pack.

        Returns:
            Its card.

        Raises:
            PackError: when the pack is broken, does not fit, or its name is taken; nothing changes.
        """
        pack = load_pack(directory, self._manifest)
        with self._lock:
            packs = self._loaded().packs
            if pack.card.name in packs:
                raise PackError(
                    f"an expert {pack.card.name!r} is loaded already; remove it first, "
                    "or rename one in its card.json"
                )
            if len(packs) >= MAX_EXPERTS:
                raise PackError(f"{len(packs)} experts are loaded, the most that can be")
            self._state = _stack([*packs.values(), pack], self._manifest.lora)
        return pack.card

    def remove(self, name: str) -> None:
        """Unload an expert. Its files stay where they are.

        Args:
            name: of the expert.

        Raises:
            UnknownExpertError: when there is none of that name.
        """
        with self._lock:
            packs = self._loaded().packs
            if name not in packs:
                raise UnknownExpertError(name, packs)
            kept = [pack for pack in packs.values() if pack.card.name != name]
            self._state = _stack(kept, self._manifest.lora)

    def _loaded(self) -> LoadedExperts:
        if self._state is None:
            folders = sorted(self._bundled.glob("*/card.json")) if self._bundled else []
            packs = [load_pack(card.parent, self._manifest) for card in folders]
            self._state = _stack(packs, self._manifest.lora)
        return self._state


def _stack(packs: Iterable[ExpertPack], targets: Iterable[LoraTarget]) -> LoadedExperts:
    """Lay adapters of any rank and any of the target layers into one bank."""
    named = {pack.card.name: pack for pack in packs}
    if not named:
        return LoadedExperts({}, AdapterBank.base_only(list(targets)))
    rank = max(pack.rank for pack in named.values())
    a: dict[str, Floats] = {}
    b: dict[str, Floats] = {}
    for target in targets:
        a[target.name] = np.zeros((len(named) + 1, rank, target.d_in), np.float32)
        b[target.name] = np.zeros((len(named) + 1, rank, target.d_out), np.float32)
        for row, pack in enumerate(named.values(), 1):
            if target.name in pack.a:
                own = pack.a[target.name].shape[0]
                a[target.name][row, :own] = pack.a[target.name]
                b[target.name][row, :own] = pack.b[target.name]
    return LoadedExperts(named, AdapterBank(("base", *named), a, b))
