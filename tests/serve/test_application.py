"""The service answers what the library answers, and refuses in one line what is wrong or too much."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from starlette.testclient import TestClient

from autotune.cost_model.predictor import Predictor
from autotune.serve.limits import Limits, Rate
from autotune.serve.oracle import Oracle
from autotune.store.records import Outcome, Record
from autotune.tuner.plan import Plan
from tests.serve.service import CONV, PAIR, RELU, pair, service

Opened = tuple[TestClient, Oracle]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with service(tmp_path) as both:
        yield both


def test_a_prediction_is_that_of_the_library(opened: Opened) -> None:
    client, oracle = opened
    cost = oracle.predictors["edge"].predict(pair())
    for _ in range(2):  # worked out, then remembered
        answer = client.post("/v1/predict", json=PAIR)
        assert answer.status_code == 200
        told = answer.json()
        assert told["cycles"] == cost.cycles and told["schedule"] == cost.schedule.to_json()
        assert (told["low_cycles"], told["high_cycles"]) == (cost.low_cycles, cost.high_cycles)
        assert told["seconds"] == cost.cycles / oracle.predictors["edge"].spec.clock_hz


def test_a_schedule_can_be_given(opened: Opened) -> None:
    client, oracle = opened
    predictor = oracle.predictors["edge"]
    prepared = predictor.prepare(pair())
    schedule = predictor.best_schedule(pair())
    told = client.post("/v1/predict", json=PAIR | {"schedule": schedule.to_json()}).json()
    assert told["cycles"] == prepared.predict(schedule).cycles


def test_a_question_in_pieces_is_answered_as_one_in_one_piece(opened: Opened) -> None:
    """Bodies of several messages take the way through the application."""
    client, _ = opened
    text = json.dumps(PAIR).encode()
    wrong = text.replace(b'"edge"', b'"mine"')
    for path, body in (("/v1/predict", text), ("/v1/schedule", text), ("/v1/predict", wrong), ("/v1/predict", text[:-1])):  # fmt: skip
        pieces = client.post(path, content=iter([body[:40], body[40:]]))
        whole = client.post(path, content=body)
        assert pieces.status_code == whole.status_code
        assert pieces.json() == whole.json()
        assert pieces.headers["content-type"] == whole.headers["content-type"]


def test_a_number_beyond_all_integers_is_refused(opened: Opened) -> None:
    client, oracle = opened
    good = oracle.predictors["edge"].best_schedule(pair())
    texts = [good.to_json(), good.to_json().replace("[[[1,", f"[[[{1 << 80},", 1)]
    assert texts[0] != texts[1]
    answers = [client.post("/v1/predict", json=PAIR | {"schedule": one}) for one in texts]
    assert [one.status_code for one in answers] == [200, 400]
    items = [{"layers": PAIR["layers"], "schedule": one} for one in texts]
    costs = client.post("/v1/predict/batch", json={"target": "edge", "items": items}).json()[
        "costs"
    ]
    assert costs[0]["cycles"] == answers[0].json()["cycles"]
    assert costs[1] == answers[1].json()


def test_a_batch_answers_each_question_or_says_why_not(opened: Opened) -> None:
    client, _ = opened
    single = client.post("/v1/predict", json=PAIR).json()
    wrong = {"layers": [{"kind": "conv", "operands": {"x": [1, 16, 14, 14]}}]}
    items = [{"layers": PAIR["layers"]}, wrong, {"layers": [CONV]}]
    costs = client.post("/v1/predict/batch", json={"target": "edge", "items": items}).json()[
        "costs"
    ]
    assert costs[0] == single
    assert "operand w is missing" in costs[1]["error"]
    assert costs[2]["cycles"] > 0


def test_a_batch_of_schedules_of_one_group_answers_as_one_by_one(opened: Opened) -> None:
    client, oracle = opened
    conv, relu = pair()
    prepared = oracle.predictors["edge"].prepare(conv.fuse(relu))
    texts = [prepared.schedule(row).to_json() for row in prepared.schedules(12)]
    items = [{"layers": PAIR["layers"], "schedule": text} for text in texts]
    items.insert(5, {"layers": [CONV]})
    told = client.post("/v1/predict/batch", json={"target": "edge", "items": items}).json()["costs"]
    alone = [client.post("/v1/predict", json={"target": "edge"} | item).json() for item in items]
    for one, other in zip(told, alone, strict=True):
        assert one["schedule"] == other["schedule"]
        assert math.isclose(one["cycles"], other["cycles"], rel_tol=1e-9)
    items[3]["schedule"] = "[]"  # one that is wrong spoils no other
    told = client.post("/v1/predict/batch", json={"target": "edge", "items": items}).json()["costs"]
    assert ["error" in cost for cost in told] == [at == 3 for at in range(len(items))]


def test_the_best_measured_schedule_comes_before_the_predicted_one(opened: Opened) -> None:
    client, oracle = opened
    predictor = oracle.predictors["edge"]
    conv, relu = pair()
    group = conv.fuse(relu)
    first = client.post("/v1/schedule", json=PAIR).json()
    assert first["source"] == "predicted"
    rows = predictor.schedules(group, 4)
    schedule = predictor.prepare(group).schedule(rows[-1])
    assert schedule.to_json() != first["schedule"]
    oracle.store.add([
        Record(
            profile_id=predictor.spec.profile_id,
            target="edge",
            network="net",
            source="search",
            reason="",
            group_key=group.key,
            group_json=group.to_json(),
            schedule_json=schedule.to_json(),
            outcome=Outcome.OK,
            cycles=1,
            energy_fj=1,
            dram_bytes=1,
        )
    ])  # fmt: skip
    told = client.post("/v1/schedule", json=PAIR).json()
    assert (told["source"], told["schedule"]) == ("measured", schedule.to_json())
    assert told["predicted"]["cycles"] == predictor.predict(group, schedule).cycles


def test_fusing_is_advised_as_by_the_library(opened: Opened) -> None:
    client, oracle = opened
    gain = oracle.predictors["edge"].should_fuse(*pair())
    told = client.post("/v1/fuse", json=PAIR | {"split": 1}).json()
    assert told["fuse"] == bool(gain) and told["reason"] == gain.reason
    assert math.isclose(told["gain_cycles"], gain.gain_cycles)


@pytest.mark.parametrize(
    ("path", "document", "status", "message"),
    [
        ("/v1/predict", PAIR | {"target": "../../secret.toml"}, 404, "answers for edge, not for"),
        ("/v1/predict", PAIR | {"layers": []}, 422, "layers: "),
        ("/v1/predict", PAIR | {"colour": 1}, 422, "colour: "),
        ("/v1/predict", PAIR | {"layers": [RELU]}, 400, "layer 0: it reads layer 0; there are 0"),
        ("/v1/predict", PAIR | {"layers": [{"kind": "rellu", "operands": [[3]]}]}, 400, "rellu"),
        (
            "/v1/predict",
            PAIR | {"layers": [{"kind": "relu", "operands": [[0]]}]},
            422,
            "greater than",
        ),
        ("/v1/predict", PAIR | {"layers": [CONV, CONV]}, 400, "have no tensor in common"),
        ("/v1/predict", PAIR | {"layers": [CONV] * 33}, 400, "33 layers; a group has at most 32"),
        ("/v1/predict", PAIR | {"schedule": "[[1]]"}, 400, "not a schedule"),
        ("/v1/predict", PAIR | {"schedule": "[]"}, 400, ""),
        (
            "/v1/predict",
            PAIR | {"layers": [CONV | {"attributes": {"name": "x"}}]},
            400,
            "no attribute",
        ),
        ("/v1/fuse", PAIR | {"split": 2}, 400, "split is 2"),
        ("/v1/predict/batch", {"items": [{"layers": [CONV]}] * 5000}, 400, "at most 4096"),
    ],
)
def test_wrong_questions_cost_one_line(
    opened: Opened, path: str, document: Any, status: int, message: str
) -> None:
    answer = opened[0].post(path, json=document)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert message in error and "\n" not in error


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[]", b"\xff\xfe", b'{"layers": NaN}', b"[" * 100_000]
)
def test_what_is_no_document_is_refused(opened: Opened, body: bytes) -> None:
    answer = opened[0].post("/v1/predict", content=body)
    assert answer.status_code == 422 and answer.json()["error"]


def network(file: Path) -> bytes:
    weight = numpy_helper.from_array(np.ones((32, 32), np.float32), "w")
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, [8, 32]) for e in ("x", "y")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, file)
    return file.read_bytes()


@pytest.mark.slow
def test_a_network_gets_a_plan(opened: Opened, tmp_path: Path) -> None:
    data = network(tmp_path / "net.onnx")
    answer = opened[0].post("/v1/plan?target=edge&trials=4", content=data)
    assert answer.status_code == 200, answer.text
    (tmp_path / "net.plan").write_text(answer.text)
    plan = Plan.load(tmp_path / "net.plan")
    assert plan.target == "edge" and sum(len(g.groups) for g in plan.graphs) >= 1
    wrong = opened[0].post("/v1/plan", content=b"no network")
    assert wrong.status_code == 400
    assert wrong.json()["error"].startswith("the network: ")


@pytest.mark.slow
def test_a_network_with_an_open_dimension_gets_a_plan(opened: Opened, tmp_path: Path) -> None:
    model = onnx.load_model_from_string(network(tmp_path / "net.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "rows"
    data = model.SerializeToString()
    bound = opened[0].post("/v1/plan?target=edge&trials=4&dim=rows=8", content=data)
    assert bound.status_code == 200, bound.text
    left_open = opened[0].post("/v1/plan", content=data)
    assert left_open.status_code == 400
    assert "the network: input 'x' has the dynamic dimension" in left_open.json()["error"]
    assert left_open.json()["error"].endswith("bind it with dim=rows=1")
    refused = opened[0].post("/v1/plan?dim=rows", content=data)
    assert (refused.status_code, "NAME=INT" in refused.json()["error"]) == (400, True)


def test_others_need_the_token(tmp_path: Path) -> None:
    with service(tmp_path, token="secret") as (client, _):
        assert client.get("/health").status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
            answer = client.post("/v1/predict", json=PAIR, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        right = {"Authorization": "Bearer secret"}
        assert client.post("/v1/predict", json=PAIR, headers=right).status_code == 200


def test_a_large_body_is_not_read(tmp_path: Path) -> None:
    with service(tmp_path, Limits(body_bytes=1000)) as (client, _):
        assert client.post("/v1/predict", content=b" " * 1001).status_code == 413
        parts: list[int] = []

        def stream() -> Iterator[bytes]:  # no length is told before
            for number in range(10):
                parts.append(number)
                yield b" " * 400

        assert client.post("/v1/predict", content=stream()).status_code == 413
        assert client.post("/v1/predict", json=PAIR).status_code == 200, "the service goes on"


def test_a_late_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(Predictor, "predict", lambda *_: go_on.wait(60))
    with service(tmp_path, Limits(seconds=0.05)) as (client, _):
        answer = client.post("/v1/predict", json=PAIR)
        go_on.set()
    assert answer.status_code == 503 and "no answer within 0.05 s" in answer.json()["error"]


def test_a_client_above_its_rate_is_refused_and_others_are_not() -> None:
    now = 0.0
    rate = Rate(2.0, clock=lambda: now)
    assert [rate.admits("a") for _ in range(3)] == [True, True, False]
    assert rate.admits("b")
    now = 0.5
    assert [rate.admits("a") for _ in range(2)] == [True, False]
    now = 100.0
    assert [rate.admits("a") for _ in range(3)] == [True, True, False]


def test_a_refused_rate_is_told(tmp_path: Path) -> None:
    with service(tmp_path, Limits(rate=1.0)) as (client, _):
        assert client.get("/v1/targets").status_code == 200
        answer = client.get("/v1/targets")
        assert answer.status_code == 429 and "requests per second" in answer.json()["error"]


def test_metrics_have_no_labels_of_clients(opened: Opened) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    client, _ = opened
    client.post("/v1/predict", json=PAIR)
    client.get("/no/such/place")
    families = text_string_to_metric_families(client.get("/metrics").text)
    samples = {tuple(sorted(s.labels.items())): s.value for f in families for s in f.samples if s.name == "autotune_http_requests_total"}  # fmt: skip
    assert samples[("path", "/v1/predict"), ("status", "200")] == 1
    assert samples[("path", "other"), ("status", "404")] == 1


def test_the_description_lists_every_route(opened: Opened) -> None:
    document = opened[0].get("/openapi.json").json()
    assert set(document["paths"]) == {
        "/health", "/metrics", "/v1/targets", "/v1/predict", "/v1/predict/batch", "/v1/schedule", "/v1/fuse", "/v1/plan",
    }  # fmt: skip
    assert json.dumps(document).count("#/$defs") == 0
