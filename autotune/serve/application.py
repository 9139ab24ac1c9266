"""The service as an ASGI application: routes, documents, errors."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError

from autotune import __version__
from autotune.arguments import dims_of_texts
from autotune.errors import AutotuneError, InputError, one_line
from autotune.serve.documents import (
    BatchAnswer,
    BatchRequest,
    BestSchedule,
    CostDocument,
    FuseAnswer,
    FuseRequest,
    Health,
    PredictRequest,
    Refused,
    TargetDocument,
)
from autotune.serve.gate import DOCS, PLAN, Gate, TooLarge
from autotune.serve.gathering import Gathering
from autotune.serve.interface_page import POLICY, interface_page
from autotune.serve.limits import Rate
from autotune.serve.metrics import Metrics
from autotune.serve.oracle import Oracle, UnknownTarget
from autotune.serve.questions import text_of
from autotune.serve.remembered import LONGEST, Desk, Remembered, Work
from autotune.tuner.options import DEFAULT_TRIALS

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused, "description": text}
    for status, text in (
        (400, "The question has no answer; the error says what is wrong."),
        (401, "The token is missing or wrong."),
        (404, "The service does not answer for this target."),
        (413, "The body is too large."),
        (422, "The document is not of this form."),
        (429, "Too many requests."),
        (503, "No answer in time."),
    )
}
Question = TypeVar("Question", bound=BaseModel)
Ask = Callable[[Question], BaseModel]
PREDICT = "/v1/predict"
REMEMBERED = ("/v1/fuse",)
"""Further paths whose answers nothing changes."""
GATHERED = 256
"""Predictions that are made at once."""


def create_application(oracle: Oracle, token: str | None = None) -> Gate:
    """Return the service; ``token`` None lets everybody ask."""
    app = FastAPI(
        title="autotune",
        version=__version__,
        description="Costs of fused operators, best known schedules, and plans of networks.",
        docs_url=None,  # FastAPI's page loads its scripts from a CDN
        redoc_url=None,
    )
    limits = oracle.limits
    desks: dict[str, Desk] = {}
    metrics = Metrics(frozenset(_add_routes(app, oracle, desks, lambda: metrics)))
    _add_errors(app)
    _add_page(app)
    return Gate(app, limits, Rate(limits.rate), metrics, desks, refusal_of, token)


def _add_routes(
    app: FastAPI,
    oracle: Oracle,
    desks: dict[str, Desk],
    metrics: Callable[[], Metrics],
) -> list[str]:
    """Add all routes, and their desks by path; return the paths."""

    @app.get("/health")
    async def health() -> Health:
        """Say that the service is up."""
        return Health(status="ok", version=__version__)

    @app.get("/metrics", response_class=Response)
    async def metrics_text() -> Response:
        """Return requests and their times in Prometheus's text format."""
        return Response(metrics().text(), media_type="text/plain; version=0.0.4")

    @app.get("/v1/targets")
    async def targets() -> list[TargetDocument]:
        """List the machines that the service answers for."""
        return oracle.targets

    def add(
        path: str, document: type[Question], answer: type[BaseModel], ask: Ask[Question]
    ) -> None:
        desks[path] = Desk(_alone(document, ask), Remembered() if path in REMEMBERED else None)
        _add_route(app, path, document, answer, desks[path])

    one = _together(oracle, Gathering(oracle.predict_alike, GATHERED))
    desks[PREDICT] = Desk(one, Remembered())
    _add_route(app, PREDICT, PredictRequest, CostDocument, desks[PREDICT])
    add("/v1/predict/batch", BatchRequest, BatchAnswer, oracle.predict_batch)
    add("/v1/schedule", PredictRequest, BestSchedule, oracle.best_schedule)
    add("/v1/fuse", FuseRequest, FuseAnswer, oracle.should_fuse)
    _add_plan(app, oracle)
    return [DOCS, *(route.path for route in app.routes if hasattr(route, "path"))]


def _alone(document: type[Question], ask: Ask[Question]) -> Work:
    """Return what answers a request by itself, in a thread."""

    def answer_to(body: bytes) -> bytes:
        return ask(document.model_validate_json(body)).model_dump_json().encode()

    async def work(body: bytes) -> bytes:
        return await run_in_threadpool(answer_to, body)

    work.__doc__ = ask.__doc__
    return work


def _together(oracle: Oracle, gathering: Gathering[PredictRequest, CostDocument | Refused]) -> Work:
    """Return what answers predictions. Schedules of one group that come at the same time are predicted at once.

    Most of the time of one goes into what does not grow with their number.
    """
    alone = _alone(PredictRequest, oracle.predict)

    async def work(body: bytes) -> bytes:
        if len(body) > LONGEST:
            return await alone(body)
        asked = PredictRequest.model_validate_json(body)
        if asked.schedule is None:
            return await alone(body)
        oracle.predictor(asked.target)
        cost = await gathering.ask((asked.target, text_of(asked.layers)), asked)
        if isinstance(cost, Refused):
            raise InputError(cost.error)
        return cost.model_dump_json().encode()

    work.__doc__ = oracle.predict.__doc__
    return work


def _add_route(
    app: FastAPI,
    path: str,
    document: type[BaseModel],
    answer: type[BaseModel],
    desk: Desk,
) -> None:
    """Add a route from one JSON document to another, for bodies in several messages and for OpenAPI."""

    async def endpoint(request: Request) -> Response:
        found = await desk.answer(await request.body())
        return Response(found, media_type="application/json")

    endpoint.__doc__ = desk.work.__doc__
    app.add_api_route(
        path,
        endpoint,
        methods=["POST"],
        response_model=answer,
        responses=REFUSALS,
        openapi_extra={"requestBody": _body("application/json", _schema(path, document))},
        name=path.rpartition("/")[2],
    )


def _schema(path: str, document: type[BaseModel]) -> dict[str, Any]:
    """Return a document's schema, whose parts are found where the service's description has it."""
    place = path.replace("/", "~1")
    at = f"#/paths/{place}/post/requestBody/content/application~1json/schema/$defs/{{model}}"
    return document.model_json_schema(ref_template=at)


def _body(media_type: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"required": True, "content": {media_type: {"schema": schema}}}


def _add_plan(app: FastAPI, oracle: Oracle) -> None:
    """Add the route from an ONNX file to a plan. One plan is made at a time: it takes all cores."""
    busy = asyncio.Lock()

    async def plan(
        request: Request,
        target: Annotated[str, Query(max_length=200)] = "edge",
        trials: Annotated[int, Query(ge=1, le=10_000)] = DEFAULT_TRIALS,
        dim: Annotated[
            list[str] | None, Query(max_length=64, description="NAME=INT of an open dimension")
        ] = None,
    ) -> Response:
        """Return a plan for the ONNX file in the body, by the model alone: nothing is measured."""
        oracle.predictor(target)
        dims = dims_of_texts(dim or (), "dim")
        with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
            file = Path(folder) / "network.onnx"
            with file.open("wb") as stream:
                async for part in request.stream():
                    stream.write(part)
            async with busy:
                text = await run_in_threadpool(oracle.plan, file, target, trials, dims)
        return Response(text, media_type="application/json")

    upload = {"type": "string", "format": "binary"}
    app.add_api_route(
        PLAN,
        plan,
        methods=["POST"],
        responses=REFUSALS,
        openapi_extra={"requestBody": _body("application/octet-stream", upload)},
    )


def _add_page(app: FastAPI) -> None:
    """Add the page that shows all requests and tries them; it loads nothing from elsewhere."""

    @app.get(DOCS, include_in_schema=False)
    async def page() -> Response:
        headers = {"content-security-policy": POLICY}
        return Response(interface_page(app.openapi()), media_type="text/html", headers=headers)


def refusal_of(error: Exception) -> tuple[int, str] | None:
    """Return status and one line for a wrong request; None for any other error, which is a defect."""
    if isinstance(error, AutotuneError):
        return 404 if isinstance(error, UnknownTarget) else 400, one_line(str(error))
    if isinstance(error, (ValidationError, RequestValidationError)):
        first = max(error.errors(), key=lambda one: len(one["loc"]))  # of a union, the form meant
        parts = [str(part) for part in first["loc"]]
        place = ".".join(part for part in parts if "[" not in part) or "the body"
        return 422, one_line(f"{place}: {first['msg']}")
    return None


def _add_errors(app: FastAPI) -> None:
    """Answer wrong requests with one line; anything else is a defect and answers 500."""

    async def refuse(_: Request, error: Exception) -> Response:
        refusal = refusal_of(error)
        assert refusal is not None, error
        return JSONResponse({"error": refusal[1]}, refusal[0])

    async def refuse_size(_: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, 413, {"connection": "close"})

    app.add_exception_handler(AutotuneError, refuse)
    app.add_exception_handler(TooLarge, refuse_size)
    app.add_exception_handler(ValidationError, refuse)
    app.add_exception_handler(RequestValidationError, refuse)
