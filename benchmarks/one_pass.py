"""What routing costs: one pass with bank and gate, against the same int8 graph without either.

python benchmarks/one_pass.py --data DATA [--rounds 40]

Both run the same queries in turn, in the same session; printed is the median of the paired ratios.
The unrouted pass has an adapter bank of rank 0 and a closed gate. Then every expert is forced for
each query alone, and for all of them in one batch that mixes the experts: the vectors must be the
same to the last bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from data import load_retrieval, parser

from omniembed.embedder import Embedder
from omniembed.models.model import Model
from omniembed.models.text import AUTO
from omniembed.models.tokens import Tokens

_SETS = ("scifact", "conala", "metatool", "cosqa")


def seconds(call: Callable[[], object]) -> float:
    """Time one call.

    Args:
        call: what to run.

    Returns:
        Wall-clock seconds.
    """
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def cost(embedder: Embedder, tokens: list[Tokens], batch: int, rounds: int) -> list[float]:
    """Time routed and unrouted passes in turn.

    Args:
        embedder: the model with its experts.
        tokens: the queries.
        batch: queries a pass.
        rounds: pairs of passes.

    Returns:
        Ratio of every pair.
    """
    text, experts = embedder.model.text, embedder.experts.state
    gate = embedder.query_encoder.gate(experts)
    random = np.random.default_rng(0)
    ratios = []
    for number in range(rounds + 3):
        own = [tokens[row] for row in random.integers(len(tokens), size=batch)]
        auto = np.full((batch, 1), AUTO, np.int64)

        def routed(own: list[Tokens] = own, auto: np.typing.NDArray[np.int64] = auto) -> object:
            return text.encode(own, experts=auto, bank=experts.bank, gate=gate)

        def unrouted(own: list[Tokens] = own) -> object:
            return text.encode(own)

        calls = [unrouted, routed] if number % 2 else [routed, unrouted]
        took = {call: seconds(call) for call in calls}
        if number >= 3:  # the first passes open the session and grow its memory
            ratios.append(took[routed] / took[unrouted])
    return ratios


def difference(embedder: Embedder, tokens: list[Tokens]) -> float:
    """Compare queries alone with the same queries in one batch of all experts.

    Args:
        embedder: the model with its experts.
        tokens: the queries.

    Returns:
        Largest difference of any component.
    """
    text, experts = embedder.model.text, embedder.experts.state
    names = [name for name in experts.bank.names if name == "base" or name in experts.packs]
    rows = np.array([[index % len(names)] for index in range(len(tokens))], np.int64)
    weights = np.array([[experts.strength(names[row])] for row in rows[:, 0]], np.float32)
    mixed = text.encode(tokens, experts=rows, weights=weights, bank=experts.bank).vectors
    worst = 0.0
    for at, one in enumerate(tokens):
        alone = text.encode(
            [one], experts=rows[at : at + 1], weights=weights[at : at + 1], bank=experts.bank
        ).vectors
        worst = max(worst, float(np.abs(alone[0] - mixed[at]).max()))
    return worst


def main() -> None:
    """Print the ratios and the difference."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--model", default="mini")
    arguments = options.parse_args()
    embedder = Embedder(Model.load(arguments.model))
    queries: list[str] = []
    for name in _SETS:
        found = load_retrieval(arguments.data / "text_code_tool" / name).queries
        queries += list(found.values())[:100]
    tokens = embedder.model.text.tokenizer.encode(queries)
    for batch in (1, 32):
        ratios = cost(embedder, tokens, batch, arguments.rounds if batch > 1 else 300)
        print(
            f"batch {batch}: routed / unrouted {median(ratios):.3f} "
            f"(quartiles {np.quantile(ratios, 0.25):.3f} to {np.quantile(ratios, 0.75):.3f})"
        )
    print(f"mixed batch against alone: difference {difference(embedder, tokens[:200])}")


if __name__ == "__main__":
    main()
