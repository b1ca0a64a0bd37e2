"""Train the image projection: ``python -m omniembed.experts.training.vision.train``."""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from .corpus import load_corpus, training_tables
from .head import load_head
from .projection import (
    STUDENT,
    MemberConfig,
    ProjectionConfig,
    ProjectionTask,
    train_projection,
    train_teacher,
)
from .report import caption_figures, image_vectors, markdown

logger = logging.getLogger(__name__)

VIEWS = ("whole", "crop1", "flip")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the image projection.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--out", type=Path, required=True, help="run folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="cache folder (default: OUT/cache)")
    parser.add_argument("--steps", type=int, default=MemberConfig.steps)
    parser.add_argument("--teachers", type=int, default=ProjectionConfig.teachers)
    parser.add_argument("--students", type=int, default=ProjectionConfig.students)
    parser.add_argument("--teacher", type=Path, help="teacher.safetensors of an earlier run")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Cache trunk outputs, train, save the weights and the figures."""
    arguments = _arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.set_num_threads(arguments.threads)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    config = ProjectionConfig(
        teachers=arguments.teachers,
        teacher=MemberConfig(steps=arguments.steps),
        student=replace(STUDENT, steps=arguments.steps),
        students=arguments.students,
        seed=arguments.seed,
    )
    (out / "config.json").write_text(json.dumps({"views": VIEWS, **asdict(config)}, indent=2))
    corpus = load_corpus(arguments.data / "image", arguments.cache or out / "cache", VIEWS)
    tables, texts = training_tables(corpus)
    task = ProjectionTask(torch.from_numpy(corpus.names), tables, texts)
    teacher = load_head(arguments.teacher) if arguments.teacher else None
    if teacher is None and config.teachers:
        teacher = train_teacher(task, config)
        save_file(teacher.state_dict(), out / "teacher.safetensors")
    head = train_projection(task, config, teacher)
    save_file(head.state_dict(), out / "image_head.safetensors")
    columns = {"training-free": image_vectors(head, corpus, trained=False)}
    if teacher is not None:
        columns["teachers together"] = image_vectors(teacher, corpus)
    columns["trained"] = image_vectors(head, corpus)
    for split in ("val", "test"):
        figures = {name: caption_figures(corpus, found, split) for name, found in columns.items()}
        (out / f"{split}.json").write_text(json.dumps(figures, indent=2))
        (out / f"{split}.md").write_text(markdown(figures) + "\n")
        logger.info("%s\n%s", split, markdown(figures))


if __name__ == "__main__":
    main()
