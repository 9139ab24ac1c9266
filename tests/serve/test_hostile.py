"""Schemathesis searches the service for answers that its description does not allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from autotune.serve.application import create_application
from autotune.serve.limits import Limits
from autotune.serve.oracle import Oracle
from autotune.store.store import Store

PATHS = ("/health", "/v1/targets", "/v1/predict", "/v1/predict/batch", "/v1/schedule", "/v1/fuse", "/v1/plan")  # fmt: skip


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    with Store.open(Path(tmp_path_factory.mktemp("serve")) / "store.db") as store:
        oracle = Oracle.open(["edge"], store, Limits())
        yield schemathesis.openapi.from_asgi("/openapi.json", create_application(oracle))


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_no_request_makes_a_server_error(schema: object, path: str) -> None:
    operation = schema[path]["GET" if path in ("/health", "/v1/targets") else "POST"]

    @settings(
        max_examples=25, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    def search(case) -> None:
        # a group of the right form may be no group: 400 with the reason is the right answer
        case.call_and_validate(excluded_checks=[positive_data_acceptance])

    given(case=operation.as_strategy())(search)()
