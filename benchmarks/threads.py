"""Several single-threaded calls at once, against one call of several threads.

python benchmarks/threads.py --data DATA
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
from data import parser, read_jsonl

from omniembed.models.arrays import AdapterBank, GateArrays
from omniembed.models.batching import batches, pad
from omniembed.models.model import Model
from omniembed.models.session import available_processors


def main() -> None:
    """Print the median time of each way."""
    options = parser(__doc__)
    options.add_argument("--texts", type=int, default=96)
    options.add_argument("--runs", type=int, default=5)
    arguments = options.parse_args()
    model = Model.load("mini")
    path = arguments.data / "text_code_tool" / "scifact" / "corpus.jsonl.gz"
    rows = itertools.islice(read_jsonl(path), arguments.texts)
    tokens = model.text.tokenizer.encode([row["text"] for row in rows])
    grouped = [
        pad([tokens[row].ids for row in batch])
        for batch in batches([len(item.ids) for item in tokens])
    ]
    bank = AdapterBank.base_only(model.manifest.lora).feeds(model.manifest.lora)
    gate = GateArrays.closed(model.manifest.gate_dim).feeds()

    def session(threads: int) -> Callable[[tuple[np.ndarray, np.ndarray]], object]:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.inter_op_num_threads = 1
        settings.enable_cpu_mem_arena = False
        opened = onnxruntime.InferenceSession(str(model.directory / "text.onnx"), settings)

        def run(batch: tuple[np.ndarray, np.ndarray]) -> object:
            ids, mask = batch
            zeros = np.zeros((len(ids), 1))
            feeds = {
                "input_ids": ids,
                "attention_mask": mask,
                "prefix": np.zeros((len(ids), 0, model.manifest.dim), np.float32),
                "expert": zeros.astype(np.int64),
                "weight": zeros.astype(np.float32),
            }
            return opened.run(["vector"], {**feeds, **bank, **gate})

        return run

    workers = available_processors()
    many, one = session(workers), session(1)
    times: dict[str, list[float]] = {"threads inside a call": [], "calls side by side": []}
    with ThreadPoolExecutor(workers) as pool:
        for _ in range(arguments.runs):
            for name, work in (
                ("threads inside a call", lambda: [many(batch) for batch in grouped]),
                ("calls side by side", lambda: list(pool.map(one, grouped))),
            ):
                start = time.perf_counter()
                work()
                times[name].append(time.perf_counter() - start)
    for name, values in times.items():
        print(f"{name}, {workers} threads: {statistics.median(values):.2f} s")


if __name__ == "__main__":
    main()
