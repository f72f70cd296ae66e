"""Convert logs into a dataset folder."""

import re
import tempfile
from pathlib import Path

from drpn.dataset.folder import Dataset
from drpn.errors import SettingsError
from drpn.logs.engines.opening import EngineName, open_engine
from drpn.logs.formats import Format, read
from drpn.output import atomic_folder
from drpn.preparation.build import build
from drpn.preparation.settings import DataSettings
from drpn.progress import Progress, Silent

_MEMORY = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B", re.IGNORECASE)


def prepare(
    logs: Path,
    out: Path,
    settings: DataSettings | None = None,
    *,
    format: Format = "auto",
    vectors: Path | None = None,
    entities: Path | None = None,
    contexts: Path | None = None,
    skip_unknown_news: bool = False,
    engine: EngineName = "duckdb",
    master: str | None = None,
    memory: str = "2GB",
    replace: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    """Read a folder of logs, write the dataset folder `out` (complete or not at all) and return it.

    Every engine writes the same arrays. `master` is the URL of a Spark cluster.
    """
    settings, progress = settings or DataSettings(), progress or Silent()
    if not _MEMORY.fullmatch(memory):
        raise SettingsError(f"memory is {memory!r}; it takes a size such as 2GB")
    with (
        atomic_folder(out, replace=replace) as folder,
        tempfile.TemporaryDirectory(prefix=".tables.", suffix=".partial", dir=folder.parent) as tables,
        open_engine(engine, Path(tables), memory=memory, master=master) as queries,
    ):
        with progress.stage("reading logs"):
            tables_of_logs = read(logs, queries, format=format, history=settings.history)
        build(
            tables_of_logs,
            queries,
            folder,
            settings,
            vectors=vectors,
            entities=entities,
            contexts=contexts,
            skip_unknown=skip_unknown_news,
            progress=progress,
        )
    return Dataset.open(out, verify=False)
