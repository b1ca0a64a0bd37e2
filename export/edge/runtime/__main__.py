"""``python -m omniembed_edge``: search or route from the command line."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from .engine import QueryInput, load
from .routes import EdgeError


def main() -> int:
    """Run the command line.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(prog="omniembed_edge", description=__doc__)
    parser.add_argument("action", choices=["search", "route"])
    parser.add_argument("text", nargs="?", help="the query")
    parser.add_argument("--image", type=Path, help="a picture; with TEXT, the change wanted in it")
    parser.add_argument("--expert", default="auto", help="auto, base or a name")
    parser.add_argument("--top-k", type=int, default=5)
    options = parser.parse_args()
    if options.text is None and options.image is None:
        parser.error("give a text, an image or both")
    query: QueryInput = options.text if options.image is None else options.image
    if options.image is not None and options.text is not None:
        query = (options.image, options.text)
    edge = load()
    try:
        if options.action == "route":
            print(json.dumps(asdict(edge.route(query)), indent=1))  # noqa: T201
            return 0
        for hit in edge.search(query, top_k=options.top_k, expert=options.expert):
            text = " ".join(str(hit.document["title"] or hit.document["text"]).split())
            place = hit.document["uri"] or hit.document["id"]
            print(f"{hit.score:.3f}  {hit.document['kind']:5}  {place}  {text[:70]}")  # noqa: T201
    except EdgeError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
