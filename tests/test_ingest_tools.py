"""Tool descriptions are recognised by content and rendered with their parameters."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from omniembed.errors import IngestError
from omniembed.ingest import IngestOptions, Source, scan
from omniembed.ingest.readers import read_file
from omniembed.ingest.records import as_record
from omniembed.ingest.tools import readable, tools_in
from omniembed.types import Kind

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Name of the city."},
        "units": {"type": "string", "enum": ["metric", "imperial"]},
    },
    "required": ["city"],
}
NAME, DESCRIPTION = "getWeather", "Current weather."

FORMS = {
    "mcp": {"tools": [{"name": NAME, "description": DESCRIPTION, "inputSchema": SCHEMA}]},
    "mcp in json-rpc": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"tools": [{"name": NAME, "description": DESCRIPTION, "inputSchema": SCHEMA}]},
    },
    "openai": [
        {
            "type": "function",
            "function": {"name": NAME, "description": DESCRIPTION, "parameters": SCHEMA},
        }
    ],
    "openai flat": [
        {"type": "function", "name": NAME, "description": DESCRIPTION, "parameters": SCHEMA}
    ],
    "bare": [{"name": NAME, "description": DESCRIPTION, "parameters": SCHEMA}],
    "anthropic": [{"name": NAME, "description": DESCRIPTION, "input_schema": SCHEMA}],
    "single": {"name": NAME, "description": DESCRIPTION, "parameters": SCHEMA},
    "openapi": {
        "openapi": "3.1.0",
        "paths": {
            "/weather": {
                "get": {
                    "operationId": NAME,
                    "summary": DESCRIPTION,
                    "parameters": [
                        {
                            "name": "city",
                            "in": "query",
                            "required": True,
                            "description": "Name of the city.",
                            "schema": {"type": "string"},
                        },
                        {"$ref": "#/components/parameters/units"},
                    ],
                }
            }
        },
        "components": {
            "parameters": {
                "units": {
                    "name": "units",
                    "in": "query",
                    "schema": {"$ref": "#/components/schemas/Units"},
                }
            },
            "schemas": {"Units": {"type": "string", "enum": ["metric", "imperial"]}},
        },
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_renders_alike(form: str, tmp_path: Path) -> None:
    path = tmp_path / "anything.json"
    path.write_text(json.dumps(FORMS[form]))
    (document,) = read_file(path, IngestOptions())
    assert document.kind is Kind.TOOL
    assert document.title == document.symbol == NAME
    assert "get weather: Current weather." in document.text
    assert "- city (string, required): Name of the city." in document.text
    assert "- units (string) One of: metric, imperial." in document.text
    assert document.metadata["schema"]["name"] == NAME


def test_openapi_in_yaml_with_a_body(tmp_path: Path) -> None:
    path = tmp_path / "api.yaml"
    path.write_text(
        "openapi: 3.0.3\npaths:\n  /pets:\n    post:\n      summary: Add a pet\n"
        "      requestBody:\n        content:\n          application/json:\n"
        "            schema: {$ref: '#/components/schemas/Pet'}\n"
        "components:\n  schemas:\n    Pet:\n      type: object\n      required: [name]\n"
        "      properties:\n        name: {type: string}\n"
        "        mother: {$ref: '#/components/schemas/Pet'}\n"
    )
    (document,) = read_file(path, IngestOptions())
    assert document.title == "POST /pets"
    assert "- name (string, required)" in document.text
    assert "- mother (object)" in document.text


@pytest.mark.parametrize(
    "data",
    [
        {},
        [],
        "text",
        3,
        None,
        [1, 2],
        {"name": "a person", "age": 3},
        [{"name": "Ada", "description": "a mathematician"}],
        {"openapi": "3.0.0"},
        {"tools": "hammer"},
        {"openapi": "3.0.0", "paths": {"/x": None, "/y": {"get": 3}}},
    ],
)
def test_other_data_are_no_tools(data: object) -> None:
    assert not tools_in(data)


def test_data_that_describe_no_tool_are_text(tmp_path: Path) -> None:
    path = tmp_path / "people.json"
    path.write_text('[{"name": "Ada", "description": "a mathematician"}]')
    (document,) = read_file(path, IngestOptions())
    assert document.kind is Kind.TEXT


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "\t- bad\n yaml: ["])
def test_broken_data_are_text(content: str, tmp_path: Path) -> None:
    for name in ("a.json", "a.yaml"):
        path = tmp_path / name
        path.write_text(content)
        assert {document.kind for document in read_file(path, IngestOptions())} == {Kind.TEXT}


@pytest.mark.parametrize("levels", [0, 12])
def test_multiplying_aliases_are_refused(levels: int, tmp_path: Path) -> None:
    path = tmp_path / "bomb.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"] if levels else ["a0: &a0 [*a0]"]
    for n in range(1, levels):
        lines.append(f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]")
    path.write_text("\n".join(lines))
    with pytest.raises(IngestError, match="aliases"):
        read_file(path, IngestOptions())


def test_yaml_dates_and_words_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "api.yaml"
    path.write_text(
        "openapi: 3.0.0\npaths:\n  /x:\n    get:\n      operationId: x\n      parameters:\n"
        "      - {name: day, in: query, schema: {type: string, default: 2020-01-01}}\n"
        "      - {name: free, in: query, required: true, schema: true}\n"
        "      - {name: odd, in: query, schema: null}\n"
        "      - {name: flag, in: query, schema: {properties: {on: {type: boolean}}}}\n"
        "    put: {operationId: y}\n"
    )
    first, second = read_file(path, IngestOptions())
    assert (first.title, second.title) == ("x", "y")
    assert "- free (required)" in first.text
    assert "- flag.on (boolean)" in first.text
    json.dumps(first.metadata, allow_nan=False)


def test_an_odd_entry_does_not_spoil_a_tool_list() -> None:
    good = {"name": NAME, "description": DESCRIPTION, "input_schema": SCHEMA}
    server_side = {"type": "web_search_20250305", "name": "web_search"}
    bare = {"type": "function", "function": {"name": "ping"}}
    for data in ({"tools": [good, server_side]}, [good, bare]):
        assert next(iter(tools_in(data) or ())).title == NAME
        assert len(tools_in(data) or ()) == 2


@pytest.mark.parametrize("form", FORMS)
def test_tool_descriptions_are_records_too(form: str) -> None:
    data = FORMS[form]
    records = data if isinstance(data, list) else [data]
    (source,) = scan(records).sources
    assert isinstance(source, Source)
    (document,) = source.read()
    assert (document.kind, document.title) == (Kind.TOOL, NAME)


def test_a_record_of_kind_tool_needs_no_schema() -> None:
    document = as_record({"kind": "tool", "name": "ping", "description": "Is it up?", "id": "p"})
    assert (document.id, document.title, document.kind) == ("p", "ping", Kind.TOOL)
    assert "Is it up?" in document.text


def test_combined_schemas() -> None:
    one = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    two = {"properties": {"b": {"type": "integer"}}, "required": ["b"]}
    for body, lines in (
        ({"allOf": [one, two]}, ["- a (string, required)", "- b (integer, required)"]),
        ({"oneOf": [one, two]}, ["- a (string)", "- b (integer)"]),
        ({"type": "array", "items": one}, ["- a (string, required)"]),
    ):
        media = {"content": {"application/json": {"schema": body}}}
        api = {"openapi": "3.1.0", "paths": {"/x": {"post": {"requestBody": media}}}}
        (document,) = tools_in(api) or ()
        assert [line for line in document.text.split("\n") if line.startswith("-")] == lines


def test_callables() -> None:
    def send_mail(to: str, subject: str = "", *, urgent: bool = False) -> None:
        """Send a message."""

    document = as_record(send_mail)
    assert document.kind is Kind.TOOL
    assert document.title == "send_mail"
    assert "send mail: Send a message." in document.text
    assert "- to (str, required)" in document.text
    assert "- urgent (bool)" in document.text

    def loose(*args: int, first: int | None = None, **options: list[int]) -> None:
        """Do it."""

    assert "- first (int | None)" in as_record(loose).text
    assert "args" not in as_record(loose).text
    document = as_record(partial(loose, first=3))
    assert (document.title, "Do it." in document.text) == ("loose", True)
    for other in (len, print, str.upper, partial(send_mail, "x"), lambda x: x):
        assert as_record(other).kind is Kind.TOOL


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getWeatherByCity", "get weather by city"),
        ("HTTPServer", "http server"),
        ("send_mail-now", "send mail now"),
        ("plain", "plain"),
    ],
)
def test_names_in_words(name: str, words: str) -> None:
    assert readable(name) == words
