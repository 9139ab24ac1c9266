"""Page of the service's requests, made of its OpenAPI document: self-contained, so that it works without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jinja2

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)
"""Content security policy of the page: a browser loads nothing for it, and it asks this service alone."""
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of a document or one parameter of a query; ``default`` is empty where it is required."""

    name: str
    type: str
    default: str
    description: str


@dataclass(frozen=True, slots=True)
class Model:
    """A document by its name, with its fields."""

    name: str
    description: str
    fields: tuple[FieldRow, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One request; ``example`` is a body that the service answers, None for a file or no body."""

    method: str
    path: str
    description: str
    parameters: tuple[FieldRow, ...]
    example: str | None
    is_file: bool
    documents: tuple[Model, ...]
    answers: tuple[tuple[str, str], ...]


def interface_page(description: Mapping[str, Any]) -> str:
    """Return the HTML page of an OpenAPI document."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("autotune.serve"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("interface.html").render(
        info=description["info"], operations=operations(description)
    )


def operations(description: Mapping[str, Any]) -> list[Operation]:
    """Return all requests of an OpenAPI document in its order."""
    return [
        _operation(_Schemas(description), method, path, entry)
        for path, methods in description["paths"].items()
        for method, entry in methods.items()
    ]


def _operation(schemas: _Schemas, method: str, path: str, entry: Schema) -> Operation:
    content = entry.get("requestBody", {}).get("content", {})
    body = content.get("application/json", {}).get("schema")
    answer = entry["responses"]["200"].get("content", {}).get("application/json", {})
    answered = answer.get("schema") or {}
    documents = [*schemas.models(body or {}), *schemas.models(answered)]
    return Operation(
        method.upper(),
        path,
        entry.get("description", ""),
        tuple(
            schemas.row(one["name"], one["schema"] | _told(one), one.get("required", False))
            for one in entry.get("parameters", ())
        ),
        None if body is None else json.dumps(schemas.example(body), indent=2),
        bool(content) and body is None,
        tuple({model.name: model for model in documents}.values()),
        tuple(
            (status, schemas.type_text(answered) if status == "200" and answered else one["description"])
            for status, one in entry["responses"].items()
        ),
    )  # fmt: skip


def _told(parameter: Schema) -> dict[str, str]:
    return {"description": parameter["description"]} if "description" in parameter else {}


class _Schemas:
    """The schemas of an OpenAPI document, whose references it follows."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._description = description

    def resolve(self, schema: Schema) -> Schema:
        """Return the schema that a reference leads to, else the schema itself."""
        if "$ref" not in schema:
            return schema
        found: Any = self._description
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
        return self.resolve(found)

    def models(self, schema: Schema) -> Iterator[Model]:
        """Yield the documents that a schema consists of, the outer ones first."""
        whole = self.resolve(schema)
        if "properties" in whole:
            required = whole.get("required", ())
            rows = [self.row(n, one, n in required) for n, one in whole["properties"].items()]
            yield Model(whole.get("title", ""), whole.get("description", ""), tuple(rows))
        for part in _parts(whole):
            yield from self.models(part)

    def row(self, name: str, schema: Schema, is_required: bool) -> FieldRow:
        """Return the row of a field."""
        default = json.dumps(schema["default"]) if "default" in schema else "left out"
        whole = self.resolve(schema)
        told = schema.get("description") or (
            "" if "properties" in whole else whole.get("description", "")
        )
        return FieldRow(name, self.type_text(schema), "" if is_required else default, told)  # fmt: skip

    def type_text(self, schema: Schema) -> str:
        """Return the type of a schema in words."""
        whole = self.resolve(schema)
        if "anyOf" in whole:
            return " or ".join(dict.fromkeys(map(self.type_text, whole["anyOf"])))
        if "enum" in whole:
            return " or ".join(map(json.dumps, whole["enum"]))
        if "const" in whole:
            return json.dumps(whole["const"])
        match whole.get("type"):
            case "array":
                return f"list of {self._part_text(whole['items'])}"
            case "object" if "properties" not in whole:
                return f"object of {self._part_text(whole.get('additionalProperties', {}))}"
            case "object":
                return str(whole.get("title", "object"))
            case kind:
                return str(kind or "value")

    def _part_text(self, schema: Schema) -> str:
        text = self.type_text(schema)
        return f"({text})" if "anyOf" in self.resolve(schema) else text

    def example(self, schema: Schema) -> Any:
        """Return a document of a schema: its example, its default, or the least that it allows.

        Fields that may be left out and have neither are left out.
        """
        whole = self.resolve(schema)
        for key in ("default", "const"):
            if key in whole:
                return whole[key]
        if "examples" in whole:
            return whole["examples"][0]
        if "anyOf" in whole:
            return self.example(whole["anyOf"][0])
        match whole.get("type"):
            case "array":
                return [self.example(whole["items"])]
            case "object":
                fields, required = whole.get("properties", {}), whole.get("required", ())
                kept = {
                    n: f
                    for n, f in fields.items()
                    if n in required or {"default", "examples"} & f.keys()
                }
                return {name: self.example(one) for name, one in kept.items()}
            case "integer" | "number":
                return whole.get("minimum", 0)
            case _:
                return ""


def _parts(schema: Schema) -> Iterator[Schema]:
    """Yield the schemas directly below one."""
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield schema[key]
