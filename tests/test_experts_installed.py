"""Experts that stay: copies for later processes, switched-off bundled ones, damage."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_experts import write_pack
from typer.testing import CliRunner

from omniembed.cli import app
from omniembed.errors import PackError, PackWarning, UnknownExpertError
from omniembed.experts import ExpertRegistry, InstalledPacks
from omniembed.experts.installed import home as home_folder
from omniembed.models.model import Model


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIEMBED_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def registry(model: Model, bundled: Path | None = None) -> ExpertRegistry:
    installed = InstalledPacks(model.manifest.fingerprint)
    return ExpertRegistry(model.manifest, bundled, installed=installed, model=model)


def names(found: ExpertRegistry) -> list[str]:
    return [card.name for card in found.list()]


def test_the_home_is_where_the_environment_says(own_home: Path) -> None:
    assert home_folder() == own_home


def test_only_kept_experts_reach_the_next_process(model: Model, tmp_path: Path) -> None:
    first = registry(model)
    first.add(write_pack(tmp_path / "a", "brief"))
    kept = write_pack(tmp_path / "b", "lasting")
    (kept / "notes.txt").write_text("not part of a pack")
    first.add(kept, keep=True)
    shutil.rmtree(kept)
    assert names(registry(model)) == ["lasting"]
    (copy,) = InstalledPacks(model.manifest.fingerprint).folders()
    assert not (copy / "notes.txt").exists()
    assert [path.name for path in copy.parent.iterdir()] == ["lasting"]


def test_removal_is_kept_too(model: Model, tmp_path: Path) -> None:
    first = registry(model)
    first.add(write_pack(tmp_path / "a", "lasting"), keep=True)
    first.remove("lasting")
    assert names(registry(model)) == ["lasting"]
    first = registry(model)
    first.remove("lasting", keep=True)
    assert names(first) == names(registry(model)) == []


def test_a_bundled_expert_can_be_switched_off_and_on(model: Model, tmp_path: Path) -> None:
    bundled = tmp_path / "bundled"
    pack = write_pack(bundled / "shipped", "shipped")
    registry(model, bundled).remove("shipped", keep=True)
    assert names(registry(model, bundled)) == []
    registry(model, bundled).add(pack, keep=True)
    assert names(registry(model, bundled)) == ["shipped"]
    assert InstalledPacks(model.manifest.fingerprint).folders() == []


def test_a_pack_of_ones_own_may_take_the_place_of_a_bundled_one(
    model: Model, tmp_path: Path
) -> None:
    bundled = tmp_path / "bundled"
    write_pack(bundled / "code", "code", seed=1)
    changed = registry(model, bundled)
    changed.remove("code", keep=True)
    own = write_pack(tmp_path / "own", "code", seed=2)
    changed.add(own, keep=True)
    later = registry(model, bundled)
    layer = model.manifest.lora[0].name
    assert names(later) == ["code"]
    assert (later.state.packs["code"].a[layer] == changed.state.packs["code"].a[layer]).all()


@pytest.mark.parametrize("file", ["card.json", "adapter_model.safetensors"])
def test_one_damaged_copy_takes_no_other_expert_away(
    model: Model, tmp_path: Path, file: str
) -> None:
    first = registry(model)
    for name in ("one", "two"):
        first.add(write_pack(tmp_path / name, name), keep=True)
    damaged = InstalledPacks(model.manifest.fingerprint).folders()[0]
    (damaged / file).write_bytes(b"\0")
    with pytest.warns(PackWarning, match="one"):
        assert names(registry(model)) == ["two"]


def test_a_refused_pack_leaves_no_copy(model: Model, tmp_path: Path, own_home: Path) -> None:
    pack = write_pack(tmp_path / "a", "bad")
    (pack / "card.json").write_text("{")
    with pytest.raises(PackError):
        registry(model).add(pack, keep=True)
    assert not list(own_home.rglob("*.safetensors"))


def test_a_home_that_cannot_be_written_changes_nothing(model: Model, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file in the way")
    found = registry(model)
    with pytest.raises(PackError, match="OMNIEMBED_HOME"):
        found.add(write_pack(tmp_path / "a", "lasting"), keep=True)
    assert names(found) == []


def test_unknown_and_taken_names(model: Model, tmp_path: Path) -> None:
    found = registry(model)
    found.add(write_pack(tmp_path / "a", "one"))
    with pytest.raises(UnknownExpertError, match="one"):
        found.remove("two", keep=True)
    with pytest.raises(PackError, match="loaded already"):
        found.train("one", tmp_path / "pairs.jsonl")
    with pytest.raises(PackError, match="lower-case"):
        found.train("No Name", tmp_path / "pairs.jsonl")


def test_another_process_sees_what_the_command_line_kept(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "a", "lasting")
    added = CliRunner().invoke(app, ["experts", "add", str(pack)])
    assert added.exit_code == 0, added.output
    done = subprocess.run(
        [sys.executable, "-m", "omniembed.cli", "experts", "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    cards = [json.loads(line) for line in done.stdout.splitlines()]
    assert "lasting" in [card["name"] for card in cards]
    removed = CliRunner().invoke(app, ["experts", "remove", "lasting"])
    assert removed.exit_code == 0, removed.output
    again = CliRunner().invoke(app, ["experts", "remove", "lasting"])
    assert again.exit_code == 1
    assert "unknown expert" in again.output
