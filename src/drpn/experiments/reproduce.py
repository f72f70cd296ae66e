"""Reproduce the paper: prepare MIND by its protocol, train all systems, compare its tables and claims with ours."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from drpn.dataset.folder import Dataset
from drpn.dataset.requirements import REQUIREMENTS
from drpn.errors import FolderError
from drpn.escape import markdown
from drpn.evaluation.tables import Table
from drpn.experiments.compare import Compared, compare
from drpn.experiments.pages import write_page
from drpn.experiments.table1 import READING, Row, table1
from drpn.logs.mind import has_entities
from drpn.models.catalogue import CATALOGUE
from drpn.output import atomic_file
from drpn.preparation.settings import DataSettings
from drpn.progress import Progress, Silent
from drpn.recipes.data_settings import is_data_setting
from drpn.recipes.needs import requirements_of
from drpn.recipes.prepare import prepare
from drpn.recipes.settings import SHIPPED, load_data_settings, load_settings_of
from drpn.versioned import write_versioned

DATASET, DOCUMENT, SETTINGS = "dataset", "reproduce.json", "mind-large.toml"
PROTOCOL: dict[str, Any] = {"users": "with-profile", "train_days": 1, "validation": 0.1}
"""Section 5.1 of the paper; the choice of users is that of its authors' code and of the counts in its Table 1."""


@dataclass(frozen=True)
class Reproduced:
    """The result of a reproduction."""

    compared: Compared
    table1: list[Row]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison and Table 1 for JSON."""
        return self.compared.as_dict() | {"table1": [row._asdict() for row in self.table1]}


def reproduce(
    logs: Path,
    out: Path,
    *,
    vectors: Path | None = None,
    models: Sequence[str] | None = None,
    seeds: int = 3,
    config: Path | None = None,
    sets: Iterable[str] = (),
    jobs: int = 1,
    memory: str = "2GB",
    keep: bool = False,
    again: bool = False,
    progress: Progress | None = None,
) -> Reproduced:
    """Prepare MIND under `out`, compare all systems on it, write Tables 1 to 3 and the claims.

    A prepared dataset and finished runs in `out` are reused.
    """
    progress, sets = progress or Silent(), list(sets)
    config = config or SHIPPED / SETTINGS
    data, folder = protocol(config, sets), out / DATASET
    if data.entities and logs.exists() and not has_entities(logs):
        data = replace(data, entities=0)
        if models is None or "dkn" in models:
            progress.note("the titles of these logs have no entities, so DKN reads words alone")
    if folder.exists():
        check_prepared(folder, logs, data, vectors)
        progress.note(f"{folder} is prepared already")
    else:
        prepare(logs, folder, data, vectors=vectors, memory=memory, progress=progress)
    compared = compare(
        folder,
        out,
        models=models,
        seeds=seeds,
        config=config,
        sets=[assignment for assignment in sets if not is_data_setting(assignment)],
        jobs=jobs,
        keep=keep,
        again=again,
        progress=progress,
    )
    done = Reproduced(compared, table1(Dataset.open(folder, verify=False).statistics))
    _write(done, vectors)
    return done


def protocol(config: Path | None = None, sets: Iterable[str] = ()) -> DataSettings:
    """Return the data settings: Section 5.1 of the paper, plus data that any model reads, then `config` and `sets`.

    They cover all models, so that more models can be run on the same folder later. Entities are for DKN.
    """
    settings = load_settings_of([name for name, entry in CATALOGUE.items() if not entry.live], config, sets)
    needs = {need for name in settings for need in requirements_of(name, settings[name].model, entities=True)}
    additions: dict[str, Any] = {REQUIREMENTS[need].setting: REQUIREMENTS[need].value for need in sorted(needs)}
    return load_data_settings(config, sets, defaults=replace(DataSettings(), **PROTOCOL | additions))


def check_prepared(folder: Path, logs: Path, data: DataSettings, vectors: Path | None) -> None:
    """Refuse a dataset folder that was prepared with other settings or from files of other names or sizes."""
    manifest = Dataset.open(folder, verify=False).manifest
    remedy = f"remove {folder} to prepare it again, or choose another output folder"
    prepared = asdict(DataSettings()) | manifest["settings"]
    for key, value in asdict(data).items():
        before = prepared[key]
        if before != value:
            raise FolderError(f"{folder} was prepared with data.{key} = {before}, and {value} is asked for; {remedy}")
    sizes = {source["name"]: source["bytes"] for source in manifest["sources"]}
    for name, size in sizes.items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise FolderError(f"{folder} was prepared from {name!r}, which is not the name of a log; {remedy}")
        places = [logs / name, logs.absolute().parent / name, *([vectors] if vectors else [])]
        same = [place for place in places if place.name == Path(name).name and place.is_file()]
        if not any(place.stat().st_size == size for place in same):
            raise FolderError(f"{folder} was prepared from another {name} than the one in {logs}; {remedy}")
    if vectors and f"{vectors.absolute().parent.name}/{vectors.name}" not in sizes:
        raise FolderError(f"{folder} was prepared without {vectors}; {remedy}")


def _write(done: Reproduced, vectors: Path | None) -> None:
    out, is_mind = done.compared.out, done.compared.about["data"]["mind_large"]
    statistics = Table(
        "Table 1: statistics of the dataset and of the paper's MIND-large",
        ("", "here", "the paper's"),
        tuple((row.label, row.here, row.paper) for row in done.table1),
    )
    source = markdown(vectors.name) if vectors else "trained on the titles; the paper uses GloVe.840B.300d"
    paragraphs = [f"Word vectors: {source}.", READING]
    if not is_mind:
        paragraphs.append("These are not the data of the paper, so its results are not comparable with ours.")
    write_page(out / "table1", statistics, paragraphs)
    with atomic_file(out / DOCUMENT) as scratch:
        write_versioned(scratch, done.as_dict(), checksum=False)
