"""Composed queries: the model, its training, and that the runtime computes the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("timm")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

from omniembed.experts.composed import parse_parts  # noqa: E402
from omniembed.experts.training.vision import composed_data, sets  # noqa: E402
from omniembed.experts.training.vision.combiner import Combiner  # noqa: E402
from omniembed.experts.training.vision.composed import (  # noqa: E402
    ComposedTask,
    ComposedTraining,
    train_composed,
)
from omniembed.experts.training.vision.composed_evaluate import (  # noqa: E402
    composed_recall,
    composed_vectors,
    slerp,
)
from omniembed.experts.training.vision.composed_model import (  # noqa: E402
    ComposedConfig,
    ComposedEncoder,
    PseudoWords,
    Residual,
    Tokens,
)
from omniembed.experts.training.vision.styles import OWN_STYLES, draw_styles  # noqa: E402

FEATURES, DIM = 1744, 384


def unit(values: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(values, dim=-1)


@pytest.fixture
def tower() -> object:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=DIM,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def test_pseudo_words_have_the_shape_of_word_embeddings() -> None:
    words = PseudoWords(ComposedConfig(words=3, hidden=4))
    assert words(torch.randn(5, FEATURES), unit(torch.randn(5, DIM))).shape == (5, 3, DIM)


def test_composed_vectors_depend_on_image_and_text_but_not_on_padding(tower: object) -> None:
    model = ComposedEncoder(tower, ComposedConfig(hidden=4)).eval()
    features, vectors = torch.randn(2, FEATURES), unit(torch.randn(2, DIM))
    tokens = Tokens(
        torch.tensor([[1, 5, 6, 2], [1, 7, 2, 0]]), torch.tensor([[1] * 4, [1, 1, 1, 0]])
    )
    both = model(features, vectors, tokens)
    assert torch.allclose(both.norm(dim=-1), torch.ones(2), atol=1e-5)
    short = Tokens(tokens.ids[1:, :3], tokens.mask[1:, :3])
    assert torch.allclose(model(features[1:], vectors[1:], short), both[1:], atol=1e-5)
    swapped = model(features.flip(0), vectors.flip(0), tokens)
    assert (both - swapped).abs().max() > 1e-3
    assert (both[:1] - model(features[:1], vectors[:1], short)).abs().max() > 1e-3


def test_only_the_upper_layers_and_the_new_parts_are_trained(tower: object) -> None:
    model = ComposedEncoder(tower, ComposedConfig(hidden=4))
    trained = {name for name, item in model.named_parameters() if item.requires_grad}
    assert all("lora_" in name for name in trained if name.startswith("tower."))
    assert {name.split("encoder.layer.")[1][0] for name in trained if "lora_" in name} == set("345")
    assert sum("lora_A" in name for name in trained) == 18


def test_rows_of_a_training_batch_can_go_without_the_residual() -> None:
    residual = Residual(dropout=1.0)
    queries, vectors = unit(torch.randn(4, DIM)), unit(torch.randn(4, DIM))
    assert torch.equal(residual.train()(queries, vectors), torch.zeros(4, DIM))
    assert torch.allclose(residual.eval()(queries, vectors), 0.5 * vectors, atol=1e-6)
    residual.away.fill_(1.6)
    assert torch.allclose(residual(queries, vectors), (0.5 - 0.4) * vectors, atol=1e-6)


def test_the_runtime_computes_what_training_computed(tower: object) -> None:
    torch.manual_seed(5)
    model = ComposedEncoder(tower, ComposedConfig(hidden=8)).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    model.residual.away.fill_(0.7)
    direction = unit(torch.randn(DIM))
    parts = {
        name: value.numpy()
        for name, value in model.state_dict().items()
        if not name.startswith("tower.")
    }
    runtime = parse_parts("test", {**parts, "direction": direction.numpy()}, DIM)
    features, queries = torch.randn(3, FEATURES), unit(torch.randn(3, DIM))
    plain = torch.randn(3, DIM)
    plain = unit(plain - (plain @ direction)[:, None] * direction)
    lifted = unit(plain + 0.5 * direction)
    with torch.no_grad():
        words = model.pseudo_words(features, plain)
        joint = queries + model.correction(queries, plain) + model.residual(queries, plain)
    found = runtime.prefix(features.numpy(), lifted.numpy())
    assert np.allclose(found, words.numpy(), atol=1e-4)
    found = runtime.combine(queries.numpy(), lifted.numpy())
    assert np.allclose(found, unit(joint).numpy(), atol=1e-5)


def test_style_queries_never_ask_for_the_style_of_their_image() -> None:
    labels = {f"{name}/{index}.png": f"thing {index}" for name in OWN_STYLES for index in range(9)}
    batch = draw_styles(labels, 40, np.random.default_rng(0), wrong=2)
    assert len(set(batch.images)) == len(batch.modifications) == 40
    assert len(batch.answers) == 40 * 3
    for image, modification, answer in zip(
        batch.images, batch.modifications, batch.answers, strict=False
    ):
        style = answer.removesuffix(f" of a {labels[image]}")
        assert style in modification
        assert style not in OWN_STYLES[image.split("/")[0]]


def toy_task() -> ComposedTask:
    """Composed queries whose target is the reference turned by the modification."""
    generator = torch.Generator().manual_seed(3)
    vectors = unit(torch.randn(1, 12, DIM, generator=generator))
    paths = [f"emoji/{index}.png" for index in range(12)]
    bank = composed_data.ImageBank(
        {path: index for index, path in enumerate(paths)},
        torch.randn(1, 12, FEATURES, generator=generator).half(),
        vectors,
    )
    triplets = [
        sets.Triplet("emoji", paths[index], "5", (), (paths[index + 6],), "train", "toy")
        for index in range(6)
    ]
    queries = {"emoji": composed_data.ComposedQueries(triplets, paths)}
    labels = {path: "thing" for path in paths}
    direction = unit(torch.randn(DIM, generator=generator))
    return ComposedTask(bank, queries, queries, labels, direction)


class DigitTokenizer:
    """Every text becomes one start, its digits and one end."""

    def __call__(self, texts: list[str], **_: object) -> dict[str, list[list[int]]]:
        rows = [[1, *(3 + int(char) for char in text if char.isdigit()), 2] for text in texts]
        width = max(map(len, rows))
        return {
            "input_ids": [row + [0] * (width - len(row)) for row in rows],
            "attention_mask": [[1] * len(row) + [0] * (width - len(row)) for row in rows],
        }


def test_composed_training_learns_and_keeps_the_tower(tower: object) -> None:
    task = toy_task()
    config = ComposedTraining(
        warmup_steps=4,
        steps=60,
        batch_size=6,
        negatives=4,
        style_negatives=4,
        style_share=0.1,
        learning_rate=2e-3,
        average=0.8,
        evaluate_every=30,
    )
    frozen = {name: item.clone() for name, item in tower.state_dict().items()}
    for model in (Combiner(tower), ComposedEncoder(tower, ComposedConfig(hidden=32))):
        warmup = 4 if isinstance(model, ComposedEncoder) else 0
        train_composed(task, replace(config, warmup_steps=warmup), model, DigitTokenizer())
        queries = task.train["emoji"]
        found = composed_vectors(model, DigitTokenizer(), task.bank, queries.triplets)
        assert composed_recall(found, task.bank, queries)["R@1"] > 0.8
    kept = {name.replace(".base_layer", ""): item for name, item in tower.state_dict().items()}
    assert all(torch.equal(kept[name], item) for name, item in frozen.items())


def test_slerp_meets_both_ends_and_stays_on_the_sphere() -> None:
    first, second = (unit(torch.randn(5, 8)).numpy() for _ in range(2))
    assert np.allclose(slerp(first, second, 0.0), first, atol=1e-5)
    assert np.allclose(slerp(first, second, 1.0), second, atol=1e-5)
    assert np.allclose(np.linalg.norm(slerp(first, second, 0.3), axis=1), 1, atol=1e-5)
    assert np.allclose(slerp(first, first, 0.3), first, atol=1e-3)
