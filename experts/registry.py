"""The experts that a model serves right now."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import PackError, PackWarning, UnknownExpertError
from ..models.arrays import AdapterBank, Floats
from ..models.manifest import LoraTarget, Manifest
from ..models.model import Model
from .card import ExpertCard, check_name
from .installed import InstalledPacks
from .pack import CARD, ExpertPack, load_pack

if TYPE_CHECKING:
    from .training.user import TrainReport, UserConfig

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
        installed: packs that the user keeps; none when omitted.
        model: the base itself, for :meth:`train`.
    """

    def __init__(
        self,
        manifest: Manifest,
        bundled: Path | None = None,
        *,
        installed: InstalledPacks | None = None,
        model: Model | None = None,
    ) -> None:
        self._manifest = manifest
        self._bundled = bundled
        self._installed = installed
        self._model = model
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

    def add(self, directory: str | Path, *, keep: bool = False) -> ExpertCard:
        """Load a pack. Stored vectors stay as they are: documents never pass through experts.

        Args:
            directory: the pack.
            keep: also copy it to the user's packs, so that later processes load it.

        Returns:
            Its card.

        Raises:
            PackError: when the pack is broken, does not fit, its name is taken, or the copy cannot
                be written; nothing changes.
        """
        pack = load_pack(directory, self._manifest)
        name = pack.card.name
        with self._lock:
            packs = self._loaded().packs
            if name in packs:
                raise PackError(
                    f"an expert {name!r} is loaded already; remove it first, "
                    "or rename one in its card.json"
                )
            if len(packs) >= MAX_EXPERTS:
                raise PackError(f"{len(packs)} experts are loaded, the most that can be")
            stacked = stack([*packs.values(), pack], self._manifest.adaptable)
            if keep:
                self._keep(Path(directory), name)
            self._state = stacked
        return pack.card

    def remove(self, name: str, *, keep: bool = False) -> None:
        """Unload an expert.

        Args:
            name: of the expert.
            keep: also leave it out of later processes: the user's copy is deleted, and an expert
                that ships with the model is no longer loaded until it is added again.

        Raises:
            UnknownExpertError: when there is none of that name.
            PackError: when the change cannot be kept; nothing changes.
        """
        with self._lock:
            packs = self._loaded().packs
            if name not in packs:
                raise UnknownExpertError(name, packs)
            kept = [pack for pack in packs.values() if pack.card.name != name]
            stacked = stack(kept, self._manifest.adaptable)
            if keep:
                self._require_installed().forget(name, bundled=self._ships(name))
            self._state = stacked

    def train(
        self,
        name: str,
        pairs: str | Path,
        *,
        out: str | Path | None = None,
        purpose: str = "",
        keep: bool = False,
        keep_anyway: bool = False,
        config: UserConfig | None = None,
    ) -> TrainReport:
        """Train an expert on a user's pairs and load it. Needs the ``train`` extra.

        Args:
            name: of the new expert.
            pairs: a jsonl file: ``query``, ``positive`` (a text or several), and optionally
                ``negatives``, ``image`` and ``scores`` a line.
            out: folder for the pack and the run; ``./runs/NAME`` when omitted. A run that was
                interrupted resumes there.
            purpose: one sentence for the card.
            keep: also load it in later processes.
            keep_anyway: load it even when it is no better than the base.
            config: settings of the run.

        Returns:
            The expert beside the base, on documents that neither training nor any choice saw.

        Raises:
            MissingExtraError: when torch or peft is not installed.
            InputError: when the pairs are malformed or too few.
            PackError: when the name is taken or cannot be used.
            NotBetterError: when the expert does not beat the base; nothing was added.
        """
        from .train import train_pack

        check_name(name)
        if name in self.state.packs:
            raise PackError(f"an expert {name!r} is loaded already; remove it, or choose a name")
        if self._model is None:
            raise PackError("this registry belongs to no model; train through omni.experts")
        folder = Path(out) if out is not None else Path("runs") / name
        report = train_pack(
            self._model,
            name,
            Path(pairs),
            folder,
            purpose=purpose,
            keep_anyway=keep_anyway,
            config=config,
        )
        self.add(folder, keep=keep)
        return report

    def _keep(self, directory: Path, name: str) -> None:
        installed = self._require_installed()
        if self._ships(name) and directory.resolve() == (self._bundled_folder() / name).resolve():
            installed.restore(name)
        else:
            installed.install(directory, name)

    def _ships(self, name: str) -> bool:
        return (self._bundled_folder() / name / CARD).is_file() if self._bundled else False

    def _bundled_folder(self) -> Path:
        return self._bundled or Path()

    def _require_installed(self) -> InstalledPacks:
        if self._installed is None:
            raise PackError("this registry keeps nothing between processes; use keep=False")
        return self._installed

    def _loaded(self) -> LoadedExperts:
        if self._state is None:
            folders = sorted(self._bundled.glob(f"*/{CARD}")) if self._bundled else []
            removed = self._installed.removed() if self._installed else set()
            own = self._installed.folders() if self._installed else []
            replaced = removed | {folder.name for folder in own}
            bundled = [card.parent for card in folders if card.parent.name not in replaced]
            packs = [load_pack(folder, self._manifest) for folder in bundled]
            self._state = stack([*packs, *self._readable(own)], self._manifest.adaptable)
        return self._state

    def _readable(self, folders: Iterable[Path]) -> Iterator[ExpertPack]:
        """Load what can be loaded: one bad pack must not take search away."""
        for folder in folders:
            try:
                yield load_pack(folder, self._manifest)
            except PackError as error:
                warnings.warn(
                    f"skipped the installed expert in {folder}: {error}. Delete that folder, or "
                    "add the pack again.",
                    PackWarning,
                    stacklevel=2,
                )


def stack(packs: Iterable[ExpertPack], targets: Iterable[LoraTarget]) -> LoadedExperts:
    """Lay adapters of any rank and any of the target layers into one bank.

    Args:
        packs: the experts, in the order of the bank.
        targets: the layers that could carry adapters.

    Returns:
        The state that serves them.
    """
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
