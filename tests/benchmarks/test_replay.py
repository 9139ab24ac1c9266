"""The benchmark of black-box search: peers try each configuration once, and random draws score nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autotune.targets.recorded_space import RecordedSpace
from benchmarks import replay, replay_peers
from benchmarks.kernel_models import DEVICES, KERNELS, OLD, SMALL, model

FILE = Path(__file__).parents[1] / "targets" / "recorded" / "convolution_A100.json.gz"
SPACE = RecordedSpace.read(FILE)


@pytest.mark.parametrize("search", (replay_peers.ours, replay_peers.tpe, replay_peers.xgboost_loop))
def test_peers_try_each_configuration_once(search: replay_peers.Search) -> None:
    times = search(SPACE, 0, 16)
    valid = times[np.isfinite(times)].tolist()
    assert len(times) == 16 and len(set(valid)) == len(valid)
    assert set(valid) <= set(SPACE.times.tolist())
    np.testing.assert_array_equal(times, search(SPACE, 0, 16))


def test_random_draws_score_nothing_and_the_optimum_at_once_scores_one() -> None:
    rng = np.random.default_rng(0)
    draws = [SPACE.times[rng.permutation(len(SPACE))[:100]].tolist() for _ in range(2000)]
    assert replay.score(SPACE, draws) == pytest.approx(0, abs=0.05)
    known = np.sort(SPACE.times)[:100].tolist()
    assert replay.score(SPACE, [known]) == pytest.approx(1)
    assert replay.early(SPACE, [known]) == 1


def test_runs_that_are_kept_are_not_repeated(tmp_path: Path) -> None:
    jobs = list(replay.jobs_of([str(FILE)], 1, 1, "python"))
    names = {
        replay.OURS,
        *replay.PEERS,
        *(replay_peers.KERNEL_TUNER + s for s in replay.STRATEGIES),
    }
    assert {job.peer for job in jobs} == names
    kept = tmp_path / "runs.json"
    values = SPACE.times[:30].tolist()
    kept.write_text(json.dumps({key: values for job in jobs for key in job.keys}))
    scores, best = replay.tables(jobs, replay.all_runs(jobs, kept, 1))
    assert scores.rows[0][0] == f"{SPACE.name}, {len(SPACE)}"
    assert [row[0] for row in best.rows[1:]] == ["mean", "worst"]
    assert scores.rows[0][2] == "–"  # no other recording


@pytest.mark.parametrize("kernel", KERNELS)
def test_models_are_whole_spaces_that_a_seed_fixes(kernel: str) -> None:
    space = model(kernel, SMALL)
    assert 2_000 <= len(space) <= 20_000
    assert len(set(space.values)) == len(space)
    valid = space.times[space.is_valid]
    assert len(valid) > 0.5 * len(space) and valid.min() > 0
    assert np.median(valid) > 1.3 * valid.min()
    np.testing.assert_array_equal(space.times, model(kernel, SMALL).times)
    assert (model(kernel, OLD).times != space.times).any()
    assert len({device.name for device in DEVICES}) == len(DEVICES)


def test_a_cache_file_of_a_space_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(replay_peers.cache_file(SPACE)))
    again = RecordedSpace.read(path)
    assert again.values == SPACE.values
    np.testing.assert_array_equal(again.times, SPACE.times)
