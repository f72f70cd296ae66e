"""The paper, whole: MIND prepared by its protocol, all systems trained, its tables and its claims beside ours."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from drpn.dataset.folder import Dataset
from drpn.errors import FolderError
from drpn.evaluation.tables import Table
from drpn.experiments.compare import Compared, compare
from drpn.experiments.pages import write_page
from drpn.experiments.table1 import Row, table1
from drpn.models.catalogue import CATALOGUE
from drpn.output import atomic_file
from drpn.prepare.settings import DataSettings
from drpn.progress import Progress, Silent
from drpn.recipes.needs import REMEDIES, requirements_of
from drpn.recipes.prepare import prepare
from drpn.recipes.settings import SHIPPED, load_data_settings, load_settings_of
from drpn.versioned import write_versioned

DATASET, DOCUMENT, SETTINGS = "dataset", "reproduce.json", "mind-large.toml"


@dataclass(frozen=True)
class Reproduced:
    """What came of the paper."""

    compared: Compared
    table1: list[Row]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
    """Prepare MIND into `out`, compare all systems there, write Tables 1 to 3 and the claims; what is there is kept."""
    progress, sets = progress or Silent(), list(sets)
    config = config or SHIPPED / SETTINGS
    data, folder = protocol(config, sets), out / DATASET
    if folder.exists():
        check_prepared(folder, logs, data, vectors)
        progress.note(f"{folder} is prepared already")
    else:
        prepare(logs, folder, data, vectors=vectors, memory=memory, progress=progress)
    found = compare(
        folder,
        out,
        models=models,
        seeds=seeds,
        config=config,
        sets=sets,
        jobs=jobs,
        keep=keep,
        again=again,
        progress=progress,
    )
    done = Reproduced(found, table1(Dataset.open(folder, verify=False).statistics))
    _write(done, vectors)
    return done


def protocol(config: Path | None = None, sets: Iterable[str] = ()) -> DataSettings:
    """Section 5.1 of the paper, which is the default, and what any system needs beyond it, then what is asked for.

    The same whichever models are named, so that others can be run on the folder later.
    """
    chosen = load_settings_of(CATALOGUE, config, sets)
    needs = {need for name, one in chosen.items() for need in requirements_of(name, one.model)}
    more: dict[str, Any] = {REMEDIES[need].setting: REMEDIES[need].value for need in sorted(needs)}
    return load_data_settings(config, sets, defaults=replace(DataSettings(), **more))


def check_prepared(folder: Path, logs: Path, data: DataSettings, vectors: Path | None) -> None:
    """Refuse a dataset folder that was made with other settings or from files of other names or sizes."""
    manifest = Dataset.open(folder, verify=False).manifest
    remedy = f"remove {folder} to prepare it anew, or choose another --out"
    made = asdict(DataSettings()) | manifest["settings"]
    for key, asked in asdict(data).items():
        before = made[key]
        if before != asked:
            raise FolderError(f"{folder} was prepared with data.{key} = {before}, and {asked} is asked for; {remedy}")
    sizes = {source["name"]: source["bytes"] for source in manifest["sources"]}
    for name, size in sizes.items():
        places = [logs / name, logs.absolute().parent / name, *([vectors] if vectors else [])]
        same = [place for place in places if place.name == Path(name).name and place.is_file()]
        if not any(place.stat().st_size == size for place in same):
            raise FolderError(f"{folder} was prepared from another {name} than that of {logs}; {remedy}")
    if vectors and f"{vectors.absolute().parent.name}/{vectors.name}" not in sizes:
        raise FolderError(f"{folder} was prepared without {vectors}; {remedy}")


def _write(done: Reproduced, vectors: Path | None) -> None:
    out, mind = done.compared.out, done.compared.about["data"]["mind_large"]
    first = Table(
        "Table 1: statistics of the dataset, beside those of the paper's MIND-large",
        ("", "here", "the paper's"),
        tuple((row.label, row.here, row.paper) for row in done.table1),
    )
    words = [f"Word vectors: {vectors.name if vectors else 'learnt from the titles; the paper has GloVe.840B.300d'}."]
    if not mind:
        words.append("These are not the data of the paper, so that its results do not stand beside ours.")
    write_page(out / "table1", first, words)
    with atomic_file(out / DOCUMENT) as scratch:
        write_versioned(scratch, done.as_dict(), checksum=False)
