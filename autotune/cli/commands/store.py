"""``autotune store``: the measurements, models and caches that are kept."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.commands import store_exchange, store_models
from autotune.cli.console import print_facts, print_json, print_table
from autotune.cli.options import JsonOption, StoreOption

store = typer.Typer(help="Where measurements and models are kept.", no_args_is_help=True)


@store.command("info")
def info(place: StoreOption = None, json: JsonOption = False) -> None:
    """What the store holds."""
    from autotune.store.contents import label
    from autotune.store.store import Store

    with Store.open(place, reading=True) as opened:
        contents = opened.info()
    if json:
        print_json(asdict(contents))
        return
    print_facts(
        {
            "path": contents.path,
            "bytes": f"{contents.size_bytes:,}",
            "schema": contents.schema_version,
        }
    )
    rows = [
        (label(p.targets), p.profile_id, f"{p.measurements:,}", str(p.groups), str(p.models))
        for p in contents.profiles
    ]
    print_table("profiles", ("targets", "profile", "measurements", "groups", "models"), rows)


@store.command("path")
def path(place: StoreOption = None) -> None:
    """Where the store is."""
    from autotune.store.place import store_place

    typer.echo(str(store_place(place)))


@store.command("prune")
def prune(
    size: Annotated[
        int, typer.Option("--mb", min=0, help="Megabytes to keep: those used most recently.")
    ] = 256,
    days: Annotated[
        float | None,
        typer.Option("--days", min=0, help="Also remove what was not used for so long."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Remove kept networks, code and tables: they are made again when needed.

    Measurements, models and plans stay.
    """
    from autotune.disk import eviction

    pruned = eviction.prune(
        _cache_folders(), size * 1_000_000, None if days is None else days * 86_400.0
    )
    if json:
        print_json(asdict(pruned))
        return
    print_facts(
        {
            "removed": f"{pruned.removed_files:,} files, {pruned.removed_bytes / 1e6:,.1f} MB",
            "kept": f"{pruned.kept_files:,} files, {pruned.kept_bytes / 1e6:,.1f} MB",
        }
    )


store.command("list")(store_exchange.list_machines)
store.command("models")(store_models.list_models)
store.command("export")(store_exchange.export)
store.command("import")(store_exchange.import_)
store.command("merge")(store_exchange.merge)
store.command("verify")(store_exchange.verify)
store.command("vacuum")(store_exchange.vacuum)


def _cache_folders() -> list[Path]:
    """Return the folders whose files can be made again; this machine's figures are not among them."""
    from autotune.disk.home import cache_folder, home

    cache = cache_folder()
    return [
        cache / "networks",
        cache / "objects",
        cache / "padded",
        cache / "programs",
        cache / "quantisation",
        cache / "tables",
        cache / "schedules",
        home() / "networks",
    ]
