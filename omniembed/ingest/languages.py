"""Which files are what, and where a grammar for them is."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language

MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
RST = frozenset({".rst", ".rest"})
HTML = frozenset({".html", ".htm", ".xhtml"})
PDF = frozenset({".pdf"})
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
DATA = frozenset({".json", ".yaml", ".yml"})

CODE = {
    ".py": "python",
    ".pyi": "python",
    ".js": "javascript",
    ".mjs": "javascript",
    ".cjs": "javascript",
    ".jsx": "javascript",
    ".ts": "typescript",
    ".mts": "typescript",
    ".cts": "typescript",
    ".tsx": "tsx",
    ".java": "java",
    ".go": "go",
    ".rs": "rust",
    ".c": "c",
    ".h": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".cxx": "cpp",
    ".hpp": "cpp",
    ".hh": "cpp",
    ".hxx": "cpp",
    ".sh": "shell",
    ".bash": "shell",
    ".zsh": "shell",
    ".sql": "sql",
    # Without a grammar: cut by lines.
    ".rb": "ruby",
    ".php": "php",
    ".kt": "kotlin",
    ".kts": "kotlin",
    ".swift": "swift",
    ".scala": "scala",
    ".cs": "csharp",
    ".fs": "fsharp",
    ".vb": "visualbasic",
    ".lua": "lua",
    ".r": "r",
    ".jl": "julia",
    ".pl": "perl",
    ".pm": "perl",
    ".hs": "haskell",
    ".ml": "ocaml",
    ".ex": "elixir",
    ".exs": "elixir",
    ".erl": "erlang",
    ".clj": "clojure",
    ".dart": "dart",
    ".zig": "zig",
    ".nim": "nim",
    ".m": "objectivec",
    ".mm": "objectivec",
    ".f90": "fortran",
    ".f": "fortran",
    ".ps1": "powershell",
    ".bat": "batch",
    ".groovy": "groovy",
    ".gradle": "groovy",
    ".vue": "vue",
    ".svelte": "svelte",
    ".css": "css",
    ".scss": "css",
    ".less": "css",
    ".proto": "protobuf",
    ".graphql": "graphql",
    ".tf": "terraform",
    ".cmake": "cmake",
    ".asm": "assembly",
    ".s": "assembly",
    ".pyx": "cython",
    ".sol": "solidity",
}
_NAMES = {"makefile": "make", "dockerfile": "docker", "cmakelists.txt": "cmake"}
_INTERPRETERS = {
    "python": "python",
    "sh": "shell",
    "bash": "shell",
    "zsh": "shell",
    "dash": "shell",
    "node": "javascript",
    "ruby": "ruby",
    "perl": "perl",
    "lua": "lua",
    "php": "php",
    "rscript": "r",
}


@dataclass(frozen=True, slots=True)
class Grammar:
    """How to read a language's syntax tree.

    Attributes:
        module: package of the grammar.
        definitions: node types that become a piece with a symbol.
        containers: those among them whose members become pieces of their own when it is long.
        wrappers: node types around a definition that belong to it (decorators, exports).
        function: name of the grammar's entry point.
    """

    module: str
    definitions: frozenset[str]
    containers: frozenset[str] = frozenset()
    wrappers: frozenset[str] = field(default_factory=frozenset)
    function: str = "language"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SCRIPT_DEFINITIONS = _words(
    "function_declaration generator_function_declaration class_declaration method_definition "
    "lexical_declaration variable_declaration abstract_class_declaration interface_declaration "
    "enum_declaration type_alias_declaration internal_module module assignment_expression"
)
_SCRIPT_CONTAINERS = _words(
    "class_declaration abstract_class_declaration interface_declaration internal_module module"
)
TRANSPARENT = _words(
    "preproc_if preproc_ifdef preproc_else preproc_elif linkage_specification declaration_list "
    "if_statement else_clause elif_clause try_statement except_clause finally_clause block "
    "with_statement statement_block"
)
"""Nodes between a container and its definitions that name nothing themselves."""

_C_DEFINITIONS = _words("function_definition struct_specifier enum_specifier union_specifier")
_CPP_DEFINITIONS = _C_DEFINITIONS | _words(
    "class_specifier namespace_definition concept_definition"
)

GRAMMARS = {
    "python": Grammar(
        "tree_sitter_python",
        _words("function_definition class_definition"),
        _words("class_definition"),
        _words("decorated_definition"),
    ),
    "javascript": Grammar(
        "tree_sitter_javascript",
        _SCRIPT_DEFINITIONS,
        _SCRIPT_CONTAINERS,
        _words("export_statement expression_statement"),
    ),
    "typescript": Grammar(
        "tree_sitter_typescript",
        _SCRIPT_DEFINITIONS,
        _SCRIPT_CONTAINERS,
        _words("export_statement ambient_declaration expression_statement"),
        "language_typescript",
    ),
    "tsx": Grammar(
        "tree_sitter_typescript",
        _SCRIPT_DEFINITIONS,
        _SCRIPT_CONTAINERS,
        _words("export_statement ambient_declaration expression_statement"),
        "language_tsx",
    ),
    "java": Grammar(
        "tree_sitter_java",
        _words(
            "class_declaration interface_declaration enum_declaration record_declaration "
            "method_declaration constructor_declaration annotation_type_declaration"
        ),
        _words("class_declaration interface_declaration enum_declaration record_declaration"),
    ),
    "go": Grammar(
        "tree_sitter_go", _words("function_declaration method_declaration type_declaration")
    ),
    "rust": Grammar(
        "tree_sitter_rust",
        _words(
            "function_item struct_item enum_item union_item trait_item impl_item mod_item "
            "macro_definition type_item"
        ),
        _words("impl_item trait_item mod_item"),
    ),
    "c": Grammar("tree_sitter_c", _C_DEFINITIONS, wrappers=_words("type_definition")),
    "cpp": Grammar(
        "tree_sitter_cpp",
        _CPP_DEFINITIONS,
        _words("class_specifier struct_specifier namespace_definition"),
        _words("template_declaration type_definition"),
    ),
    "shell": Grammar("tree_sitter_bash", _words("function_definition")),
    "sql": Grammar("tree_sitter_sql", _words("statement")),
}


@cache
def load_language(name: str) -> Language:
    """Load a grammar.

    Args:
        name: a key of :data:`GRAMMARS`.

    Returns:
        The tree-sitter language.
    """
    from tree_sitter import Language

    grammar = GRAMMARS[name]
    entry: Callable[[], object] = getattr(import_module(grammar.module), grammar.function)
    return Language(entry())


_CPP = re.compile(r"^\s*(?:class|namespace|template|using|public:|private:)\b|\w::\w", re.M)


def header_language(text: str) -> str:
    """Tell C++ from C in a ``.h`` file.

    Args:
        text: the file.

    Returns:
        ``"cpp"`` where it uses what only C++ has, else ``"c"``.
    """
    return "cpp" if _CPP.search(text) else "c"


def language_of(path: Path, head: str = "") -> str | None:
    """Name the programming language of a file.

    Args:
        path: the file.
        head: its first line, for scripts without a suffix.

    Returns:
        The language, or ``None`` where the file is no code.
    """
    known = CODE.get(path.suffix.lower()) or _NAMES.get(path.name.lower())
    if known or path.suffix or not head.startswith("#!"):
        return known
    words = head[2:].replace("/", " ").split()
    for word in words:
        name = word.rstrip("0123456789.")
        if name.lower() in _INTERPRETERS:
            return _INTERPRETERS[name.lower()]
    return None
