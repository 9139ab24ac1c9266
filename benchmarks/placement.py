"""``make bench-placement``: placements of networks on several devices beside single devices, rules and lower bounds."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autotune.graph.accuracy import Accuracy
from autotune.operators.tensor import Array
from autotune.runtime.device_search import DeviceRequest, DeviceSearch, search_on_devices
from autotune.runtime.session.defaults import open_devices, resolve_model
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.link_spec import Links, LinkSpec, SharedMemory, read_links
from autotune.tuner.options import SearchOptions
from autotune.tuner.placement.bounds import bounds
from autotune.tuner.placement.costed_graph import CostedGraph, Placement, joined
from autotune.tuner.placement.heft import heft, upward_ranks
from autotune.tuner.placement.objective import Serving
from autotune.tuner.placement.placing import STREAM, busiest_seconds, period_seconds, place
from autotune.tuner.placement.simulation import Simulation
from benchmarks.machine import busy
from benchmarks.placement_links import link_table, measured_links
from benchmarks.table import Table

NETWORKS = ("light_resnet50", "bert_layer", "unet")
SETS: Mapping[str, tuple[str, ...]] = {
    "edge, mobile, this CPU": ("edge", "mobile", "cpu"),
    "mobile, gemmini-like, tpuv1-like": ("mobile", "gemmini-like", "tpuv1-like"),
}
ON_CHIP = Links("one chip: 25.6 GB/s, 0.1 µs", LinkSpec(25.6e9, 1e-7), {})
"""Devices on one chip: each way has the bandwidth of the DRAM of `mobile`, which both sides pass through."""
SHARED = replace(
    ON_CHIP,
    description="one chip: 25.6 GB/s, 0.1 µs, one DRAM channel of 25.6 GB/s for all",
    memories=(SharedMemory(SETS["mobile, gemmini-like, tpuv1-like"], 25.6e9),),
)
"""The same chip with one DRAM channel: memory-bound groups that run at the same time slow each other."""
COPIES = 2
"""Requests of each network in the mixed work."""
EVALUATIONS = 4_000
"""Placements that the search of a row looks at."""
REQUESTS, THREADS, ROUNDS = 12, (1, 2, 4), 3
"""Requests that a session answers, threads that ask, and rounds of each number."""
RANDOM = 20
"""Random placements, of which mean and worst are told."""

HEAD = """# Figures of placement

Written by `make bench-placement`. Networks: light_resnet50 (ResNet-50), bert_layer (a layer of BERT) and unet (U-Net), one request each, and
{copies} of each at once. Groups and schedules are heuristic. Costs of groups are measured, each alone: exact cycles on emulated
devices, seconds on this CPU. Times are those of the timeline (list scheduling over measured costs and modelled links), so they are emulated
time except for groups on this CPU. Inputs and outputs lie in this machine's memory; single devices pay for both ways, too.

*Free bound*: the longest path, each group on its fastest device with free transfers, or all work shared out over the devices in any
fractions, whichever is larger. *Bound*: the longest path with transfers that no placement avoids, or the shared work. Nothing undercuts
either for these groups. *Best single* is the best device with the best of all partitions; *whole requests* gives each request to one device,
the longest first. *Round robin* and *random* ({random}
draws: mean, worst) and *HEFT* place the same groups as *search*, which begins with HEFT and every single device. *Gained* is the part of
the way from the best single device to the bound: (single − search) / (single − bound); it is empty where a single device is within 1 %.
*Measured* links are the median of 61 hand-overs of each size by threads of a session, a copy into the device's memory included; devices are
emulated, so they stand in for an accelerator that shares this memory. Streams have {stream} requests, and filling and draining counts; *endless* is the time between requests of a stream without end.
In the table of shared DRAM: *no sharing* is the time if they did not, *placed blindly* that placement with sharing.
The bound of a stream comes from an integer programme with transfers.
*Outputs* are held against the numpy reference as `autotune run --check` does: each number within 1e-3 of itself plus 1e-5 of
its output's range.

{busy}

"""
COLUMNS = (
    "work",
    "free bound",
    "bound",
    "best single",
    "whole requests",
    "round robin",
    "random, mean",
    "random, worst",
    "HEFT",
    "search",
    "search / single",
    "search / bound",
    "gained",
)
STREAM_COLUMNS = (*COLUMNS, "endless / bound")


@dataclass(frozen=True)
class Row:
    """Seconds of one work on one set of devices; for a stream, seconds between requests."""

    work: str
    free_bound: float
    bound: float
    single: float
    whole: float
    round_robin: float
    random: tuple[float, ...]
    heft: float
    search: float
    endless: float | None = None
    """Seconds between requests of the found placement in a stream without end: its busiest device or link."""

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table, times in milliseconds."""
        random = sum(self.random) / len(self.random)
        times = (
            self.free_bound, self.bound, self.single, self.whole, self.round_robin, random, max(self.random),
            self.heft, self.search,
        )  # fmt: skip
        gap = self.single - self.bound
        gained = "" if gap < 0.01 * self.single else f"{(self.single - self.search) / gap:.0%}"
        return (
            self.work,
            *(f"{1e3 * seconds:.3f}" for seconds in times),
            f"{self.search / self.single:.3f}",
            f"{self.search / self.bound:.3f}",
            gained,
            *(() if self.endless is None else (f"{self.endless / self.bound:.3f}",)),
        )


def baselines(
    graph: CostedGraph, cost: Callable[[Placement], float], rng: np.random.Generator
) -> tuple[float, tuple[float, ...], float]:
    """Return the seconds of round robin, of random placements and of HEFT."""
    robin = tuple(task.places[number % len(task.places)] for number, task in enumerate(graph.tasks))
    drawn = tuple(
        cost(tuple(int(rng.choice(task.places)) for task in graph.tasks)) for _ in range(RANDOM)
    )
    return cost(robin), drawn, cost(heft(graph, upward_ranks(graph)))


def latency_row(work: str, graph: CostedGraph, single: float) -> Row:
    """Place a graph for its makespan; ``single`` is that of the best single device."""
    wholes = whole_requests(graph)
    graph = graph.as_one_request()
    run = Simulation(graph, upward_ranks(graph))
    found = place(graph, evaluations=EVALUATIONS)
    robin, drawn, by_heft = baselines(graph, run.seconds, np.random.default_rng(0))
    least = bounds(graph)
    whole = run.seconds(wholes)
    return Row(
        work,
        least.free_seconds,
        least.seconds,
        single,
        whole,
        robin,
        drawn,
        by_heft,
        found.makespan_seconds,
    )


def stream_row(work: str, graph: CostedGraph, single: float) -> Row:
    """Place a graph for a stream; figures are seconds between requests, of ``STREAM`` that arrive together."""
    found = place(graph, Serving.THROUGHPUT, evaluations=EVALUATIONS)

    def cost(placement: Placement) -> float:
        return period_seconds(graph, placement)

    robin, drawn, by_heft = baselines(graph, cost, np.random.default_rng(0))
    least = found.bounds.load_seconds
    best = found.stream_bound_seconds
    whole = cost(whole_requests(graph))
    endless = busiest_seconds(graph, found.placement)
    return Row(
        work, least, best, single, whole, robin, drawn, by_heft, found.period_seconds, endless
    )


def whole_requests(graph: CostedGraph) -> Placement:
    """Return the placement of every request on one device: the longest first, each where it ends first by its work."""
    requests: dict[int, list[int]] = {}
    for number, task in enumerate(graph.tasks):
        requests.setdefault(task.request, []).append(number)
    able = {
        request: {
            d: sum(graph.tasks[n].cost(d) for n in numbers if len(graph.tasks[n].places) > 1)
            for d in range(len(graph.devices))
            if all(d in graph.tasks[n].places for n in numbers if n in set(graph.free_tasks))
        }
        for request, numbers in requests.items()
    }
    busy = [0.0] * len(graph.devices)
    place = [task.places[0] for task in graph.tasks]
    for request in sorted(requests, key=lambda r: -min(able[r].values(), default=0.0)):
        device = min(able[request], key=lambda d: busy[d] + able[request][d])
        busy[device] += able[request][device]
        for number in requests[request]:
            if device in graph.tasks[number].places:
                place[number] = device
    return tuple(place)


def shared_table(networks: Sequence[str]) -> Table:
    """Return what it brings to know that devices share memory: mixed work placed without and with that knowledge."""
    title, devices = "mobile, gemmini-like, tpuv1-like", SETS["mobile, gemmini-like, tpuv1-like"]
    found = [searched(name, devices, SHARED).best.costed for name in networks]
    rows = []
    for copies in (1, COPIES):
        work = joined([one for one in found for _ in range(copies)])
        together = work.as_one_request()
        run = Simulation(together, upward_ranks(together))
        alone = [p for d in range(len(work.devices)) if (p := work.on_device(d)) is not None]
        blind = place(replace(work, memories=()), evaluations=EVALUATIONS)
        aware = place(work, evaluations=EVALUATIONS)
        times = (
            bounds(work).seconds,
            min(map(run.seconds, alone)),
            blind.makespan_seconds,
            run.seconds(blind.placement),
            aware.makespan_seconds,
        )
        share = aware.makespan_seconds / run.seconds(blind.placement)
        rows.append(
            (f"{copies} of each at once", *(f"{1e3 * t:.3f}" for t in times), f"{share:.3f}")
        )
    columns = (
        "work",
        "bound",
        "best single",
        "no sharing",
        "placed blindly",
        "placed knowing",
        "ratio",
    )
    said = f"{title}; links: {SHARED.description}. Mixed work, milliseconds to the end."
    return Table(said, columns, tuple(rows))


def searched(
    network: str, devices: Sequence[str], links: Links, serving: Serving = Serving.LATENCY
) -> DeviceSearch:
    """Cost a network on devices and place it."""
    request = DeviceRequest(
        resolve_model(network),
        open_devices(devices, links),
        serving,
        SearchOptions(measure=0),
        {},
        Accuracy.EXACT,
        {},
    )
    with Store.open(None) as store:
        return search_on_devices(request, store)


def checked_run(found: DeviceSearch) -> tuple[float, bool]:
    """Run the plan once; return the makespan of its timeline, and whether its outputs are the reference's."""
    from autotune.cli.run_check import check_outputs, random_inputs

    with Session(found.plan, found.devices) as session:
        inputs = random_inputs(session, 0)
        outputs = session.run(inputs)
        timeline = session.last_run.timeline
        assert timeline is not None, "several devices have a timeline"
        differences = check_outputs(session, inputs, outputs)
    return timeline.makespan_seconds, all(one.is_tolerable for one in differences.values())


def tables(
    title: str, devices: Sequence[str], links: Links, networks: Sequence[str]
) -> list[Table]:
    """Return the tables of one set of devices."""
    found = {name: searched(name, devices, links) for name in networks}
    rows, streams, runs = [], [], []
    for name, one in found.items():
        planned = one.plan.devices
        assert planned is not None, "it is a plan for several devices"
        rows.append(latency_row(name, one.best.costed, min(planned.single_seconds.values())))
        least = min(planned.single_period_seconds.values())
        streams.append(stream_row(name, one.best.costed, least))
        seconds, is_right = checked_run(one)
        share = f"{seconds / planned.makespan_seconds:.3f}"
        runs.append((name, f"{1e3 * seconds:.3f}", share, "within" if is_right else "beyond"))
        print(title, name, rows[-1].cells(), streams[-1].cells(), runs[-1], file=sys.stderr)
    mixed = [one.best.costed for one in found.values() for _ in range(COPIES)]
    work = joined(mixed)
    together = work.as_one_request()
    alone = [together.on_device(device) for device in range(len(work.devices))]
    run = Simulation(together, upward_ranks(together))
    single = min(run.seconds(placement) for placement in alone if placement is not None)
    name = f"{COPIES} of each at once"
    rows.append(latency_row(name, work, single))
    each = joined([one.best.costed for one in found.values()])
    periods = [
        period_seconds(each, p) for d in range(len(work.devices)) if (p := each.on_device(d))
    ]
    streams.append(stream_row("one of each, again and again", each, min(periods)))
    print(title, rows[-1].cells(), streams[-1].cells(), file=sys.stderr)
    said = f"{title}; links: {links.description}"
    return [
        Table(
            f"{said}. One request, and mixed work: milliseconds to the end.", COLUMNS, _cells(rows)
        ),
        Table(
            f"{said}. A stream of {STREAM}: milliseconds between requests.",
            STREAM_COLUMNS,
            _cells(streams),
        ),
        Table(
            f"{said}. The plan for one request as a session ran it.",
            ("network", "ms on the timeline", "of the predicted", "outputs"),
            tuple(runs),
        ),
    ]


def pipeline_table(networks: Sequence[str]) -> Table:
    """Return how many requests a session answers in a second, with as many under way as there are threads."""
    title, devices = "mobile, gemmini-like, tpuv1-like", SETS["mobile, gemmini-like, tpuv1-like"]
    rows = []
    for name in networks:
        found = searched(name, devices, ON_CHIP, Serving.THROUGHPUT)
        with Session(found.plan, found.devices) as session:
            requests = [session.draw_inputs(np.random.default_rng(n)) for n in range(REQUESTS)]
            rates = [[answered(session, requests, n) for n in THREADS] for _ in range(ROUNDS)]
        best = [max(column) for column in zip(*rates, strict=True)]
        rows.append((name, *(f"{rate:.2f}" for rate in best), f"{max(best) / best[0]:.2f}"))
        print(rows[-1], file=sys.stderr)
    said = f"{title}; the plan for a stream. Requests that this machine's emulators answer in a second, by threads that ask."
    columns = ("network", *(str(count) for count in THREADS), "most / one")
    return Table(f"{said} The best of {ROUNDS} rounds in turns.", columns, tuple(rows))


def answered(session: Session, requests: Sequence[Mapping[str, Array]], threads: int) -> float:
    """Return the requests a second that a session answers to so many threads."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(session.run, requests):
            pass
    return len(requests) / (time.perf_counter() - begin)


def _cells(rows: Sequence[Row]) -> tuple[tuple[str, ...], ...]:
    return tuple(row.cells() for row in rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or show the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--json", type=Path, help="file for the rows of all tables")
    chosen = parser.parse_args(arguments)
    here = "edge, mobile, this CPU"
    measured = measured_links(SETS[here])
    made = [
        table
        for title, devices in SETS.items()
        for links in ((read_links(), ON_CHIP) if "cpu" not in devices else (read_links(), measured))
        for table in tables(title, devices, links, chosen.networks)
    ]
    placed = {name: searched(name, SETS[here], measured) for name in chosen.networks}
    made.append(link_table(here, placed, measured))
    made.append(shared_table(chosen.networks))
    made.append(pipeline_table(chosen.networks))
    if chosen.json is not None:
        rows = [{"title": x.title, "columns": x.columns, "rows": x.rows} for x in made]
        chosen.json.write_text(json.dumps(rows, indent=1))
    if chosen.markdown is None:
        print("\n\n".join(table.text() for table in made), busy(), sep="\n")
        return
    head = HEAD.format(copies=COPIES, random=RANDOM, stream=STREAM, busy=busy())
    chosen.markdown.write_text(head + "\n\n".join(table.markdown() for table in made) + "\n")


if __name__ == "__main__":
    main()
