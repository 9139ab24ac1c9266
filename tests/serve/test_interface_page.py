"""The page of requests shows every request, loads nothing, and its examples are answered."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from autotune.serve.interface_page import interface_page, operations
from tests.serve.service import service


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with service(tmp_path) as (client, _):
        yield client


def test_the_page_loads_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(r"https?://|<link|<script[^>]+src|<img|@import|url\(", page.text)


def test_the_page_shows_every_request_and_every_field(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    page = client.get("/docs").text
    assert len(description["paths"]) == 8
    for path, methods in description["paths"].items():
        for method in methods:
            assert f'data-method="{method.upper()}" data-path="{path}"' in page
    for one in ("layers", "schedule", "split", "items", "novelty", "gain_cycles", "trials", "dim"):
        assert f"<code>{one}</code>" in page, one


def test_examples_of_the_page_are_answered(client: TestClient) -> None:
    shown = {one.path: one for one in operations(client.get("/openapi.json").json())}
    examples = {path: one.example for path, one in shown.items() if one.example is not None}
    assert set(examples) == {"/v1/predict", "/v1/predict/batch", "/v1/schedule", "/v1/fuse"}
    page = html.unescape(client.get("/docs").text)
    for path, example in examples.items():
        assert example in page
        answer = client.post(path, content=example)
        assert answer.status_code == 200, answer.text
        assert all("error" not in cost for cost in answer.json().get("costs", ()))


def test_the_page_needs_no_token_and_shows_no_more_than_the_interface(tmp_path: Path) -> None:
    with service(tmp_path, token="secret") as (client, oracle):
        assert client.get("/openapi.json").status_code == 401
        page = client.get("/docs")
        assert page.status_code == 200
        assert "secret" not in page.text and oracle.targets[0].profile_id not in page.text


def test_text_of_a_description_is_escaped() -> None:
    schema: dict[str, Any] = {"type": "string", "description": "<b>&</b>"}
    parameter = {"name": "x", "schema": schema}
    entry = {"description": "<script>", "parameters": [parameter], "responses": {"200": {"description": "ok"}}}  # fmt: skip
    document = {"info": {"title": "t", "version": "1", "description": ""}, "paths": {"/a": {"get": entry}}}  # fmt: skip
    page = interface_page(document)
    assert "<b>" not in page and "&lt;b&gt;" in page and page.count("<script>") == 1


def test_types_are_told_in_words(client: TestClient) -> None:
    shown = {one.path: one for one in operations(client.get("/openapi.json").json())}
    layer = next(d for d in shown["/v1/predict"].documents if d.name == "LayerDocument")
    types = {row.name: row.type for row in layer.fields}
    assert types["operands"].startswith("object of (list of integer or integer) or list of (")
    assert json.loads(shown["/v1/fuse"].example or "")["split"] == 1
    assert shown["/v1/plan"].is_file and not shown["/health"].is_file
