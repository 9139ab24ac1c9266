"""Specs as plain data come back equal in every number, or are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from autotune.errors import SpecError
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.physical import PhysicalSpec
from autotune.targets.spec import HardwareSpec, Memory
from autotune.targets.spec_document import read_document, spec_document


def again(spec: HardwareSpec) -> HardwareSpec:
    return read_document(json.loads(json.dumps(spec_document(spec))))


@pytest.mark.parametrize("name", spec_names())
def test_a_shipped_spec_comes_back(name: str) -> None:
    spec = load_spec(name)
    assert again(spec) == spec
    assert again(spec).profile_id == spec.profile_id


def test_what_toml_files_do_not_say_comes_back() -> None:
    spec = replace(
        load_spec("edge"),
        clock_hz=1e9 / 3,
        identity="a real machine",
        memory=Memory.CACHED,
        tile_multiple=8,
        layout="channels_last",
        physical=PhysicalSpec(noise=0.01, noise_seed=7),
    )
    assert again(spec) == spec and again(spec).profile_id == spec.profile_id


def test_a_document_without_a_machine_is_refused() -> None:
    document = spec_document(load_spec("edge"))
    for name in document:
        with pytest.raises(SpecError):
            read_document({key: value for key, value in document.items() if key != name})
    with pytest.raises(SpecError, match="cores: missing"):
        machine = {k: v for k, v in document["machine"].items() if k != "cores"}
        read_document({**document, "machine": machine})
