"""Bundles of the shipped model, and Python processes that have nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from omniembed.sample import sample_directory

IMAGES = sample_directory() / "images"
CAT, HOUSE = IMAGES / "cat.webp", IMAGES / "house.png"
TEXTS = (
    "why are there two high tides a day?",
    "limit the number of requests per second",
    "read a csv file into a list of dictionaries",
    "book a table for two tomorrow evening",
    "a cat looking into the camera",
    "effects of vitamin D on bone density",
    "SELECT name FROM users WHERE id = 'O''Brien' -- comment",
    "Grüße aus Köln, schöne Straße",
    "погода в Москве завтра",
    "如何在 Python 中读取文件",
    "東京駅から成田空港までの行き方",
    "भारत की राजधानी क्या है",
    "서울에서 부산까지 얼마나 걸려요",
    "rare 𠮷 ideographs and 𝒎𝒂𝒕𝒉 letters",
    "é and e\u0301, ﬁne ½ ²",
    "zero\u200bwidth\u00a0blanks \x01 control",
    "[CLS] tokens [MASK] as text [PAD]",
    "🙂🚀👩‍👩‍👧‍👦🇩🇪",
    "?",
    "x" * 120,
    "word " * 400,
)

_BLOCKED = """
import importlib.abc, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        own = {"numpy", "onnxruntime", "tokenizers", "PIL", "omniembed_edge"}
        top = name.partition(".")[0]
        if top not in own and top not in sys.stdlib_module_names and not top.startswith("_"):
            asked = sys._getframe(1)
            while asked and "importlib" in asked.f_code.co_filename:
                asked = asked.f_back
            if asked and "omniembed_edge" in asked.f_code.co_filename:
                raise AssertionError(f"the runtime imports {name}")
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
"""


def run_isolated(bundle: Path, code: str, *arguments: object) -> Any:
    """Run code that sees numpy, onnxruntime, tokenizers, Pillow and the bundle; read its JSON."""
    given = [sys.executable, "-c", _BLOCKED + code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(bundle)}
    done = subprocess.run(given, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
