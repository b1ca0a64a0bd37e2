from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("peft")
pytest.importorskip("transformers")

from omniembed.experts.training.vision import batches, composed_data, sets, views  # noqa: E402
from omniembed.experts.training.vision.classes import ClassAnchor, imagenet_names  # noqa: E402
from omniembed.experts.training.vision.evaluate import (  # noqa: E402
    caption_queries,
    caption_recall,
    first_hits,
    recall_at,
)
from omniembed.experts.training.vision.head import HeadConfig, ImageHead, load_head  # noqa: E402
from omniembed.experts.training.vision.losses import contrastive, same_caption  # noqa: E402
from omniembed.experts.training.vision.projection import (  # noqa: E402
    MemberConfig,
    ProjectionConfig,
    ProjectionTask,
    train_projection,
    train_teacher,
)

FEATURES, CLASSES, DIM = 1744, 1000, 384


def unit(values: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(values, dim=-1)


def row(image: str, *captions: str, split: str = "train") -> sets.ImageRow:
    return sets.ImageRow("emoji", image, captions, "concept", split)


def write_records(path: Path, records: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


# --- data ---------------------------------------------------------------------------------


def test_rows_keep_order_and_drop_repeated_or_blank_captions(tmp_path: Path) -> None:
    record = {"image": "a.png", "caption": "x", "concept": "c", "split": "val"}
    write_records(
        tmp_path / "icons" / "pairs.jsonl.gz",
        [{**record, "captions": ["x", "ü", "x", " "]}, {**record, "image": "b.png"}],
    )
    first, second = sets.load_rows(tmp_path, ["icons"])
    assert first.image == "icons/a.png"
    assert first.captions == ("x", "ü")
    assert second.captions == ("x",)
    assert not first.photo


def test_training_triplets_use_no_image_that_may_not_be_trained_on(tmp_path: Path) -> None:
    names = ["emoji/a.png", "icons/b.png", "tuxpaint_stamps/c.png", "caltech101/d.png"]
    triplets = [
        {
            "reference": reference,
            "modification": "m",
            "target": targets[0],
            "targets": targets,
            "split": split,
            "type": "t",
        }
        for split in ("train", "test")
        for reference, targets in [
            ("emoji/a.png", ["tuxpaint_stamps/c.png", "icons/b.png"]),
            ("caltech101/d.png", ["icons/b.png"]),
            ("tuxpaint_stamps/c.png", ["icons/b.png"]),
            ("emoji/a.png", ["tuxpaint_stamps/c.png"]),
        ]
    ]
    folder = tmp_path / "domain_conversion"
    write_records(folder / "triplets.jsonl.gz", triplets)
    write_records(
        folder / "gallery.jsonl.gz",
        [{"image": name, "split": split} for name in names for split in ("train", "test")],
    )
    train = composed_data.composed_queries(tmp_path, "domain_conversion", "train")
    assert train.gallery == names[:2]
    assert [(item.reference, item.targets) for item in train.triplets] == [
        ("emoji/a.png", ("icons/b.png",))
    ]
    test = composed_data.composed_queries(tmp_path, "domain_conversion", "test")
    assert "tuxpaint_stamps/c.png" not in test.gallery
    assert len(test.triplets) == 2
    targets, references = composed_data.query_positions(test)
    assert [test.gallery[found[0]] for found in targets] == ["icons/b.png"] * 2
    assert [test.gallery[place] for place in references] == ["emoji/a.png", "caltech101/d.png"]


@pytest.mark.parametrize("size", [(224, 224), (1, 1), (300, 20), (17, 400)])
@pytest.mark.parametrize("view", ["center", "flip", "whole", "crop0", "crop7"])
def test_every_view_of_every_shape_fills_the_square(
    tmp_path: Path, size: tuple[int, int], view: str
) -> None:
    path = tmp_path / "image.png"
    pixels = np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    found = views.load_view(path, view)
    assert found.shape == (224, 224, 3)
    assert found.dtype == np.uint8
    assert np.array_equal(found, views.load_view(path, view))


def test_unknown_view_is_named(tmp_path: Path) -> None:
    path = tmp_path / "image.png"
    Image.new("RGB", (4, 4)).save(path)
    with pytest.raises(ValueError, match="'zoom'"):
        views.load_view(path, "zoom")


# --- figures ------------------------------------------------------------------------------


def test_a_caption_of_several_images_is_one_query() -> None:
    queries = caption_queries([row("a", "x", "y"), row("b", "x")])
    assert queries.captions == ("x", "y")
    assert queries.relevant == ((0, 1), (0,))


def test_ranks_count_ties_against_the_query_and_leave_the_reference_out() -> None:
    scores = np.array([[0.9, 0.5, 0.5, 0.1]], np.float32)
    assert first_hits(scores, [[1]]).tolist() == [2]
    assert first_hits(scores, [[1]], [0]).tolist() == [1]
    assert first_hits(scores, [[1, 2]], [0]).tolist() == [0]
    assert first_hits(scores, [[1]], [-1]).tolist() == [2]
    assert recall_at(np.array([0, 4, 5, 20])) == {"R@1": 0.25, "R@5": 0.5, "R@10": 0.75}


def test_perfect_vectors_have_perfect_recall() -> None:
    vectors = np.eye(3, dtype=np.float32)
    rows = [row("a", "x"), row("b", "y"), row("c", "z")]
    texts = dict(zip("xyz", vectors, strict=True))
    assert caption_recall(rows, vectors, texts)["R@1"] == 1.0


# --- head ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return unit(torch.randn(CLASSES, DIM, generator=generator) + 0.5)


def test_class_names_are_a_thousand_distinct_lines() -> None:
    found = imagenet_names()
    assert len(found) == CLASSES
    assert found[0].lemmas[0] == "tench"
    assert len({name.gloss for name in found}) == CLASSES
    assert "a photo of a tench" in found[0].phrases()


def test_an_untrained_head_is_the_training_free_projection(names: torch.Tensor) -> None:
    head = ImageHead(HeadConfig(hidden=8, members=2), names).eval()
    features, logits = torch.randn(5, FEATURES), 5 * torch.randn(5, CLASSES)
    vectors = head(features, logits)
    assert torch.allclose(vectors, head.anchor(logits), atol=1e-6)
    assert torch.allclose(vectors.norm(dim=-1), torch.ones(5), atol=1e-6)
    assert (vectors @ head.anchor.direction).abs().max() < 1e-6


def test_the_lift_changes_no_ranking_among_images(names: torch.Tensor) -> None:
    head = ImageHead(HeadConfig(hidden=8), names).eval()
    vectors = head(torch.randn(50, FEATURES), 5 * torch.randn(50, CLASSES))
    queries = unit(torch.randn(20, DIM) + head.anchor.direction)
    before, after = queries @ vectors.T, queries @ head.lifted(vectors).T
    assert torch.equal(before.argsort(dim=1), after.argsort(dim=1))
    captions = head.anchor.direction.expand(1, -1)
    assert (captions @ head.lifted(vectors).T > captions @ vectors.T).all()


def test_a_confident_class_gives_its_own_name(names: torch.Tensor) -> None:
    anchor = ClassAnchor(names)
    logits = torch.zeros(1, CLASSES)
    logits[0, 7] = 100.0
    assert (anchor(logits) @ unit(anchor.centred).T).argmax() == 7


def test_the_head_exports_to_onnx(tmp_path: Path, names: torch.Tensor) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    head = ImageHead(HeadConfig(hidden=8), names).eval()
    torch.nn.init.normal_(head.members[0].outer.weight)
    path = tmp_path / "head.onnx"
    torch.onnx.export(
        head,
        (torch.randn(2, FEATURES), torch.randn(2, CLASSES)),
        path,
        input_names=["features", "logits"],
        dynamic_shapes=({0: torch.export.Dim("n")}, {0: torch.export.Dim("n")}),
        dynamo=True,
        external_data=False,
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    features, logits = torch.randn(5, FEATURES), torch.randn(5, CLASSES)
    (found,) = session.run(None, {"features": features.numpy(), "logits": logits.numpy()})
    assert np.allclose(found, head(features, logits).detach().numpy(), atol=1e-5)


# --- losses and batches -------------------------------------------------------------------


def test_a_head_reads_back_from_the_model_it_was_exported_to(
    tmp_path: Path, names: torch.Tensor
) -> None:
    pytest.importorskip("onnxscript")
    from omniembed.export.image import LiftedHead, export_head

    head = ImageHead(HeadConfig(hidden=32, members=2), names).eval()
    # Weights that are alike are stored once: a trained head has none.
    for weight in head.members.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    path = tmp_path / "image_head.onnx"
    export_head(LiftedHead(head).eval(), path, features=FEATURES, classes=CLASSES)
    features, logits = torch.randn(3, FEATURES), torch.randn(3, CLASSES)
    with torch.inference_mode():
        wanted, found = head(features, logits), load_head(path)(features, logits)
    assert (wanted * found).sum(1).min() > 0.9999


def test_same_caption_marks_every_carried_caption() -> None:
    carried = [frozenset({1, 2}), frozenset({2}), frozenset({3})]
    same = same_caption(carried, [1, 2, 2])
    assert same.tolist() == [[True, True, True], [False, True, True], [False, False, False]]


def test_contrastive_with_single_answers_is_cross_entropy() -> None:
    images, texts = unit(torch.randn(6, 8)), unit(torch.randn(6, 8))
    scores = images @ texts.T / 0.1
    labels = torch.arange(6)
    expected = (
        torch.nn.functional.cross_entropy(scores, labels)
        + torch.nn.functional.cross_entropy(scores.T, labels)
    ) / 2
    found = contrastive(images, texts, torch.eye(6, dtype=torch.bool), 0.1)
    assert torch.allclose(found, expected, atol=1e-5)


def synthetic_task(names: torch.Tensor) -> ProjectionTask:
    """Two small sets whose captions are a linear function of the features."""
    generator = torch.Generator().manual_seed(1)
    tables = {}
    targets = []
    mapping = torch.randn(FEATURES, DIM, generator=generator)
    for index, count in enumerate((24, 12)):
        features = torch.randn(count, FEATURES, generator=generator)
        targets.append(unit(features @ mapping))
        first = 24 * index
        tables[f"set{index}"] = batches.ImageTable(
            features=torch.stack([features, features]).half(),
            logits=torch.zeros(2, count, CLASSES).half(),
            captions=[(first + item,) for item in range(count)],
            photos=tuple(range(4)) if index else (),
        )
    return ProjectionTask(names, tables, torch.cat(targets))


def test_batches_follow_the_shares_and_pair_images_with_their_captions(
    names: torch.Tensor,
) -> None:
    tables = synthetic_task(names).tables
    assert batches.set_shares(tables, 0.0) == {"set0": 0.5, "set1": 0.5}
    shares = batches.set_shares(tables, 1.0)
    assert shares["set0"] == pytest.approx(2 / 3)
    batch = batches.draw_batch(tables, shares, 12, np.random.default_rng(0))
    assert len(batch.features) == len(batch.logits) == len(batch.drawn) == 12
    for features, caption, carried in zip(batch.features, batch.drawn, batch.carried, strict=True):
        table = tables["set0" if caption < 24 else "set1"]
        assert torch.equal(table.features[0, caption % 24].float(), features)
        assert carried == {caption}
    photos, _ = batches.draw_photos(tables, 6, np.random.default_rng(0))
    assert len(photos) == 6


def test_training_learns_repeats_exactly_and_teaches_a_student(names: torch.Tensor) -> None:
    task = synthetic_task(names)
    shape = HeadConfig(hidden=64, dropout=0.0, input_dropout=0.0)
    member = MemberConfig(head=shape, steps=40, batch_size=24, learning_rate=3e-3)
    config = ProjectionConfig(
        teachers=2, teacher=member, student=MemberConfig(**{**vars(member), "teacher_weight": 5.0})
    )
    teacher = train_teacher(task, config)
    student = train_projection(task, config, teacher)
    again = train_projection(task, config, teacher)
    assert len(teacher.members) == 2
    assert len(student.members) == 2
    features = task.tables["set0"].features[0].float()
    logits = task.tables["set0"].logits[0].float()
    for head in (student, teacher):
        best = (head(features, logits) @ task.texts[:24].T).argmax(1)
        assert (best == torch.arange(24)).float().mean() > 0.9
    assert all(
        torch.equal(one, other)
        for one, other in zip(student.parameters(), again.parameters(), strict=True)
    )
