"""Code is cut at its definitions, named, located, and never lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniembed.ingest import IngestOptions
from omniembed.ingest.code import cut_code
from omniembed.ingest.languages import GRAMMARS
from omniembed.ingest.readers import read_file

SMALL = IngestOptions(code_characters=60, text_characters=60, overlap_characters=10)

EXAMPLES = {
    "python": (
        "import os\n\n@cache\ndef first(a):\n    return a\n\nclass Box:\n    '''Holds.'''\n"
        "    size = 1\n\n    async def open(self):\n        return self.size + 1000000\n\n"
        "    def close(self):\n        pass\n",
        {"first", "Box", "Box.open", "Box.close"},
    ),
    "javascript": (
        "export const add = (a, b) => a + b;\n\nfunction* walk(t) { yield t; }\n\n"
        "export default class Tree {\n  insert(v) { this.root = v; return this.root; }\n"
        "  remove(v) { delete this.root; return v; }\n}\nvar x = 3;\n",
        {"add", "walk", "Tree", "Tree.insert", "Tree.remove"},
    ),
    "typescript": (
        "export interface Shape {\n  area(): number;\n}\nexport enum Color { Red, Green }\n"
        "export async function load<T>(u: string): Promise<T> { return (await fetch(u)).json(); }\n"
        "namespace Geometry {\n  export function area(r: number) { return r * r * 3.14159; }\n}\n",
        {"Shape", "Color", "load", "Geometry.area"},
    ),
    "tsx": (
        "export function App(): JSX.Element {\n  return <div>hi</div>;\n}\n"
        "const Row = () => <tr />;\n",
        {"App", "Row"},
    ),
    "java": (
        "package a;\npublic class Account {\n  private int balance;\n"
        "  public Account(int b) { balance = b; }\n"
        '  @Override public String toString() { return "" + balance; }\n}\n'
        "interface Named { String name(); }\n",
        {"Account", "Account.Account", "Account.toString", "Named"},
    ),
    "go": (
        "package a\n\ntype Point struct{ X, Y int }\n\n"
        "func (p *Point) Move(d int) { p.X += d }\n\nfunc New() *Point { return &Point{} }\n",
        {"Point", "Point.Move", "New"},
    ),
    "rust": (
        "struct Ring { n: u32 }\n\nimpl Ring {\n"
        "    /// Grow it.\n    fn grow(&mut self) { self.n += 1; }\n"
        "    fn shrink(&mut self) { self.n -= 1; }\n}\n\nfn main() {}\n",
        {"Ring", "Ring.grow", "Ring.shrink", "main"},
    ),
    "c": (
        "struct node { int v; };\n\nstatic int *find(struct node *n, int v) { return &n->v; }\n",
        {"node", "find"},
    ),
    "cpp": (
        "namespace geo {\ntemplate <typename T>\nclass Box {\n public:\n"
        "  T area() const { return w * h; }\n"
        "  T w, h;\n};\nint &pick(int &a) { return a; }\n}\n",
        {"geo.Box", "geo.pick"},
    ),
    "shell": ("#!/bin/sh\nset -e\nbackup() {\n  tar cf a.tar .\n}\nbackup\n", {"backup"}),
    "sql": (
        "CREATE TABLE users (id int, name text);\n\nSELECT * FROM users;\n\n"
        "CREATE VIEW adults AS SELECT * FROM users;\n",
        {"users", "adults"},
    ),
}


def test_every_grammar_has_an_example() -> None:
    assert EXAMPLES.keys() == GRAMMARS.keys()


@pytest.mark.parametrize("language", EXAMPLES)
def test_definitions_are_found_by_name(language: str) -> None:
    source, symbols = EXAMPLES[language]
    found = {piece.symbol for piece in cut_code(source, language, SMALL)}
    assert symbols <= found


@pytest.mark.parametrize("language", [*EXAMPLES, "ruby"])
@pytest.mark.parametrize("limit", [60, 800])
def test_every_line_is_in_a_piece_at_its_place(language: str, limit: int) -> None:
    source = EXAMPLES.get(language, ("def a\n  1\nend\n\nputs a\n", set()))[0]
    check_coverage(source, language, limit)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_broken_code_loses_nothing(language: str, data: st.DataObject) -> None:
    """Cut the example anywhere, put anything in: a syntax error must not lose a line."""
    source = EXAMPLES[language][0]
    at = data.draw(st.integers(0, len(source)))
    junk = data.draw(st.text(st.characters(blacklist_categories=["Cs", "Cc"]), max_size=30))
    check_coverage(source[:at] + junk + "\n" + source[at + 3 :], language, 60)


def check_coverage(source: str, language: str, limit: int) -> None:
    options = IngestOptions(code_characters=limit, text_characters=limit, overlap_characters=10)
    lines = source.split("\n")
    covered: set[int] = set()
    last = 0
    for piece in cut_code(source, language, options):
        assert 1 <= piece.start_line <= piece.end_line <= len(lines)
        assert piece.start_line >= last
        last = piece.start_line
        own = range(piece.start_line, piece.end_line + 1)
        whole = "\n".join(lines[number - 1] for number in own)
        assert piece.text in whole
        assert len(piece.text) <= max(limit, *(len(lines[n - 1]) for n in own))
        covered.update(own)
    assert {n for n, line in enumerate(lines, 1) if line.strip()} <= covered


NESTED = {
    "guarded.hpp": (
        "#ifndef A\n#define A\nnamespace n {\nclass Foo {\n  int a;\n};\n}\n"
        'extern "C" {\nint add(int a) { return a; }\n}\n#endif\n',
        {"n", "add"},
    ),
    "plain.h": ("#ifdef X\nint twice(int a) { return 2 * a; }\n#endif\n", {"twice"}),
    "modern.h": ("namespace n {\nclass Foo {};\n}\n", {"n"}),
    "optional.py": (
        "try:\n    import fast\nexcept ImportError:\n    def fallback():\n        return 1\n"
        "if True:\n    class Inside:\n        pass\nelse:\n    def other():\n        pass\n",
        {"fallback", "Inside", "other"},
    ),
    "exports.js": (
        "module.exports.foo = function (a) { return a; };\nexports.bar = () => 1;\n"
        "Foo.prototype.baz = function () {};\nconst M = React.memo(() => null);\nx = 3;\n",
        {"module.exports.foo", "exports.bar", "Foo.prototype.baz", "M"},
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_definitions_inside_guards_and_branches(name: str, tmp_path: Path) -> None:
    source, symbols = NESTED[name]
    (tmp_path / name).write_text(source)
    documents = read_file(tmp_path / name, SMALL)
    assert symbols <= {document.symbol for document in documents}
    expected = {".hpp": "cpp", ".py": "python", ".js": "javascript", ".h": None}[Path(name).suffix]
    languages = {document.language for document in documents}
    assert languages == {expected or ("cpp" if name == "modern.h" else "c")}


def test_what_lies_between_members_belongs_to_the_class() -> None:
    source = (
        "class Box:\n    def open(self):\n        return self.size + 1000000000\n\n"
        "    attribute = 1\n\n    def close(self):\n        return None\n"
    )
    pieces = cut_code(source, "python", SMALL)
    assert {piece.symbol for piece in pieces} == {"Box", "Box.open", "Box.close"}
    closing = (
        "class A {\n" + "".join(f"  int f{n}() {{ return {n}; }}\n" for n in range(40)) + "}\n"
    )
    pieces = cut_code(closing, "java", IngestOptions())
    assert all(any(letter.isalnum() for letter in piece.text) for piece in pieces)


def test_comments_and_decorators_stay_with_their_function() -> None:
    source = "x = 1\n\n# Doubles.\n# Twice.\n@cache\ndef double(n):\n    return 2 * n\n"
    pieces = cut_code(source, "python", IngestOptions())
    (double,) = [piece for piece in pieces if piece.symbol == "double"]
    assert (double.start_line, double.end_line) == (3, 7)
    assert double.text.startswith("# Doubles.")


def test_a_long_function_keeps_its_symbol() -> None:
    body = "".join(f"    total += value_{n} * {n}\n" for n in range(200))
    pieces = cut_code(f"def long():\n    total = 0\n{body}", "python", IngestOptions())
    assert len(pieces) > 3
    assert {piece.symbol for piece in pieces} == {"long"}


def test_one_endless_line_is_cut() -> None:
    source = "var a=" + "+".join(f"f{n}()" for n in range(5000))
    pieces = cut_code(source, "javascript", IngestOptions())
    assert max(len(piece.text) for piece in pieces) <= 800
    assert {(piece.start_line, piece.end_line) for piece in pieces} == {(1, 1)}


def test_deep_nesting_does_not_overflow() -> None:
    depth = 3000
    source = "".join(f"{' ' * n}class C{n}:\n" for n in range(depth)) + " " * depth + "pass\n"
    assert cut_code(source, "python", IngestOptions())
    assert cut_code("(" * 50_000, "javascript", IngestOptions())
