"""``autotune store list | export | import | merge | verify | vacuum``: measurements that travel between stores."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotune.cli.console import print_facts, print_json, print_table, say
from autotune.cli.ending import MISMATCH, OK
from autotune.cli.options import JsonOption, StoreOption
from autotune.errors import InputError, StoreError

if TYPE_CHECKING:
    from autotune.store.contents import Contents
    from autotune.store.merging import Merged
    from autotune.store.store import Store

FILES = (".db", ".sqlite", ".sqlite3")
"""Endings of files that are stores; another place is a folder of Parquet files."""
TOLD = 20
"""Conflicts that are printed; --json has all of them."""
TargetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        help="Only this machine: its name or hardware profile; repeatable. Default: all.",
    ),
]
OutArgument = Annotated[
    Path, typer.Argument(metavar="PLACE", help="Folder of Parquet files, or a store's file (.db).")
]
SourceArgument = Annotated[
    str, typer.Argument(metavar="PLACE", help="Folder or file that 'autotune store export' wrote.")
]
SourcesArgument = Annotated[
    list[str], typer.Argument(metavar="STORE", help="Other stores: files, folders or URLs.")
]


def list_machines(place: StoreOption = None, json: JsonOption = False) -> None:
    """List the machines with their toolchains, measurements and models."""
    from autotune.store.contents import label, machines_of
    from autotune.store.store import Store

    with Store.open(place, reading=True) as store:
        machines = machines_of(store)
    if json:
        print_json([asdict(machine) for machine in machines])
        return
    rows = [
        (
            label(one.names),
            one.profile_id,
            one.toolchain or "unknown",
            f"{one.measurements:,}",
            f"{one.groups:,}",
            str(one.models),
            f"{datetime.fromtimestamp(one.last_at, UTC):%Y-%m-%d %H:%M}" if one.last_at else "–",
        )
        for one in machines
    ]
    columns = ("machine", "profile", "toolchain", "measurements", "groups", "models", "last (UTC)")
    print_table("machines", columns, rows)


def export(
    out: OutArgument,
    targets: TargetsOption = None,
    place: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Write measurements, models and machines to a folder of Parquet files, or to another store's file."""
    _check_out(out)
    from autotune.store.contents import StoreContents
    from autotune.store.parquet_folder import write_folder
    from autotune.store.store import Store

    with Store.open(place, reading=True) as store:
        chosen = profiles_of(store, targets)
        is_file = out.suffix in FILES
        if is_file:
            figures = _into_file(StoreContents(store), out, chosen)
        else:
            figures = {"measurements": write_folder(store, out, chosen)}
    figures |= {"machines": len(chosen)}
    if json:
        print_json(figures | {"path": str(out)})
    else:
        kind = "store's file" if is_file else "folder of Parquet files"
        print_facts({name: f"{count:,}" for name, count in figures.items()} | {kind: out})


def _check_out(out: Path) -> None:
    """Raise ``InputError`` for a name that promises a file of another kind, such as x.csv."""
    ending = out.suffix[1:]
    if ending.isalpha() and out.suffix not in FILES and not out.is_dir():
        raise InputError(
            f"{out}: no {out.suffix} file is written: a name without an ending becomes a folder of Parquet files, "
            f"one that ends in {', '.join(FILES[:-1])} or {FILES[-1]} another store's file"
        )


def _into_file(source: Contents, out: Path, chosen: list[str]) -> dict[str, int]:
    from autotune.store.merging import merge as merge_into
    from autotune.store.store import Store

    if out.exists():
        raise InputError(
            f"{out}: exists; 'autotune store merge' adds to a store, or give another file"
        )
    with Store.open(out) as target:
        return {"measurements": merge_into(target, source, chosen).added}


def profiles_of(store: Store, targets: list[str] | None) -> list[str]:
    """Return the hardware profiles of machines by name or profile. Raises ``InputError``."""
    from autotune.store.contents import StoreContents, machines_of

    if targets is None:
        return list(StoreContents(store).profile_ids())
    machines = machines_of(store)
    chosen: dict[str, None] = {}
    for wanted in targets:
        ids = [one.profile_id for one in machines if wanted in (*one.names, one.profile_id)]
        if not ids:
            names = sorted({name for one in machines for name in one.names})
            raise InputError(
                f"{store.path}: no machine {wanted!r}; it has {', '.join(names) or 'none'}"
            )
        chosen |= dict.fromkeys(ids)
    return list(chosen)


def import_(source: SourceArgument, place: StoreOption = None, json: JsonOption = False) -> None:
    """Add what 'autotune store export' wrote to the store; what is there already stays once."""
    _merge_all([source], place, json)


def merge(sources: SourcesArgument, place: StoreOption = None, json: JsonOption = False) -> None:
    """Add other stores to the store, and list calibrations that contradict each other.

    Measurements are told apart by hardware profile and toolchain. Order does not matter, and merging again
    adds nothing. Of two calibrations of one candidate the earlier one stays.
    """
    _merge_all(sources, place, json)


def _merge_all(sources: list[str], place: str | None, json: bool) -> None:
    from autotune.store.store import Store

    for source in sources:
        _check_exists(source)
    with Store.open(place) as store:
        namesakes = _namesakes(store)
        done = [_merge_one(store, source) for source in sources]
        notes = [note for name, note in _namesakes(store).items() if name not in namesakes]
        path = store.path
    if json:
        print_json([asdict(one) for one in done])
    else:
        _print_merged(path, done)
    for line in (*notes, *(line for one in done for line in one.refused)):
        say(line)


def _check_exists(source: str) -> None:
    from autotune.store.place import store_place

    place = store_place(source)
    if isinstance(place, Path) and not place.exists():
        raise StoreError(f"{source}: there is no such store; give a file, a folder or a URL")


def _merge_one(store: Store, source: str) -> Merged:
    from autotune.store.contents import StoreContents
    from autotune.store.merging import merge as merge_into
    from autotune.store.parquet_folder import ParquetContents
    from autotune.store.store import Store

    if "://" not in source and Path(source).is_dir():
        return merge_into(store, ParquetContents(Path(source)))
    with Store.open(source, reading=True) as other:
        return merge_into(store, StoreContents(other))


def _namesakes(store: Store) -> dict[str, str]:
    """Return a line for each name that machines with other numbers share."""
    from autotune.store.contents import machines_of

    profiles: dict[str, set[str]] = {}
    for machine in machines_of(store):
        for name in machine.names:
            profiles.setdefault(name, set()).add(machine.profile_id)
    return {
        f"{name} {sorted(ids)}": f"{name} is the name of {len(ids)} machines with other numbers "
        f"({', '.join(sorted(ids))}): kept apart; a search on a machine without measurements begins from the "
        "nearest one's schedules"
        for name, ids in profiles.items()
        if len(ids) > 1
    }


def _print_merged(path: str, done: list[Merged]) -> None:
    from autotune.store.merging import Merged

    total = sum(done, Merged(path))
    print_facts(
        {
            "store": path,
            "measurements added": f"{total.added:,}",
            "known before": f"{total.known:,}",
            "machines added": total.machines,
            "models added": total.models,
            "conflicts": f"{len(total.conflicts):,}",
            "machines refused": len(total.refused),
        }
    )
    if total.conflicts:
        rows = [
            (
                c.target,
                c.toolchain or "unknown",
                c.group_key[:12],
                *map(_cycles, (c.kept, c.dropped)),
            )
            for c in total.conflicts[:TOLD]
        ]
        columns = ("machine", "toolchain", "group", "kept (earlier)", "dropped")
        print_table(f"conflicts, {len(rows)} of {len(total.conflicts):,}", columns, rows)


def _cycles(cycles: int | None) -> str:
    return "failed" if cycles is None else f"{cycles:,}"


def verify(place: StoreOption = None, json: JsonOption = False) -> int:
    """Read everything and hold it against its checksums; exit code 1 if something is damaged."""
    from autotune.store.store import Store
    from autotune.store.verification import verify as verify_store

    with Store.open(place, reading=True) as store:
        result, path = verify_store(store), store.path
    if json:
        print_json(asdict(result))
    else:
        facts = asdict(replace(result, problems=()))
        facts["problems"] = len(result.problems)
        print_facts({"store": path} | {name.replace("_", " "): facts[name] for name in facts})
        for problem in result.problems:
            say(problem)
    return MISMATCH if result.problems else OK


def vacuum(place: StoreOption = None, json: JsonOption = False) -> None:
    """Give the space of removed measurements back."""
    from autotune.store.store import Store

    with Store.open(place) as store:
        saved = store.vacuum()
        size, path = store.info().size_bytes, store.path
    if json:
        print_json({"path": path, "saved_bytes": saved, "size_bytes": size})
    else:
        print_facts({"store": path, "saved": f"{saved:,} bytes", "size": f"{size:,} bytes"})
