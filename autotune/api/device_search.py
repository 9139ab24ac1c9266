"""A search for several devices: their plans, and where each group runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autotune.api.open_store import opened
from autotune.api.search_arguments import search_options, writable_plan_file
from autotune.arguments import dims_of
from autotune.errors import InputError
from autotune.frontend.importing import has_control_flow
from autotune.graph.accuracy import Accuracy
from autotune.graph.ranges import Ranges
from autotune.runtime.device_search import DeviceRequest, DeviceSearch, search_on_devices
from autotune.runtime.devices.hand_over import known_link
from autotune.runtime.in_place.budget import Limits
from autotune.runtime.session.defaults import choose_target, ranges_of, resolve_model
from autotune.store.store import Store
from autotune.targets.device_name import device_names, machine_of
from autotune.targets.device_set import DeviceSet
from autotune.targets.link_memory import MEASURED, with_measured
from autotune.targets.link_spec import Links, read_links
from autotune.targets.opening import HOST, load_spec
from autotune.targets.protocol import Target
from autotune.tuner.objective import Objective
from autotune.tuner.placement.objective import Serving
from autotune.tuner.progress import Progress, silent


def search_devices(
    model: Path | str,
    devices: Iterable[Target | Path | str] | str,
    links: Links | Path | str | None = None,
    serving: Serving | str = Serving.LATENCY,
    trials: int | None = None,
    measure: int | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    out: Path | str | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    time_limit_seconds: float | None = None,
) -> DeviceSearch:
    """Find fusion groups and schedules for several devices and place the groups on them; write the plan.

    ``devices`` are names, spec files or open targets, or one text with commas; ``links`` a TOML file or open links
    between them (None: the shipped ones), or ``measured``: what this machine takes to hand a tensor between this CPU and
    another device, measured once and kept. ``serving`` is ``latency``, one request at a time, or ``throughput``, a
    stream. Each device is searched as ``search`` does it, with ``trials`` and ``measure`` (0: not at all, groups and
    schedules are heuristic). Then every group is measured on every device. ``accuracy`` None is ``exact``, as all
    devices run the same algorithms. Raises ``AutotuneError`` as ``search`` does, for this CPU twice, for a missing
    link, and for a network with control flow.
    """
    plan_file, extents, limits = writable_plan_file(out), dims_of(dims), ranges_of(ranges)
    options = search_options(trials, measure, Objective.LATENCY, seed, time_limit_seconds)
    machines = _machines(devices)
    spec = _links(links, machines)
    path = resolve_model(model)
    if has_control_flow(path):
        raise InputError(f"{path}: has control flow; several devices take straight networks")
    request = DeviceRequest(
        path,
        DeviceSet.of(machines, spec),
        Serving.parse(serving),
        options,
        extents,
        Accuracy.EXACT if accuracy is None else Accuracy.parse(accuracy),
        limits,
        Limits.of(trials, measure),
    )
    with opened(store) as records:
        result = search_on_devices(request, records, progress or silent)
    if plan_file is not None:
        result.plan.save(plan_file)
    return result


def _links(links: Links | Path | str | None, machines: Sequence[Target]) -> Links:
    """Return the links of a search. Raises ``SpecError`` for a bad file, ``StoreError`` for bad remembered links."""
    if isinstance(links, Links):
        return links
    if links is None or str(links) != MEASURED or Path(links).exists():
        return read_links(None if links is None else Path(links))
    names = device_names([machine.name for machine in machines])
    return with_measured(read_links(), known_link(load_spec(HOST).profile_id), names)


def _machines(devices: Iterable[Target | Path | str] | str) -> list[Target]:
    """Open devices. Raises ``InputError`` for a wrong type and this CPU twice, ``SpecError`` for an unknown machine."""
    given = devices.split(",") if isinstance(devices, str) else list(devices)
    names = [str(one).strip() for one in given if isinstance(one, (str, Path))]
    device_names(names or ["open"])
    return [
        choose_target(machine_of(one.strip()) if isinstance(one, str) else one) for one in given
    ]
