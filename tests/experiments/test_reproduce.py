"""Reproducing the paper on a simulated newsroom in MIND's format."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drpn.dataset.folder import Dataset
from drpn.dataset.requirements import REQUIREMENTS
from drpn.errors import FolderError
from drpn.experiments.reproduce import Reproduced, protocol, reproduce
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.settings import Settings, load_settings_of
from small_comparison import MODELS, SETS, Notes

SMALL = [*SETS, "data.vector_size=8", "training.epochs=1"]


def run(logs: Path, out: Path, **options: Any) -> Reproduced:
    """Reproduce with three small models, one seed each, by default."""
    return reproduce(logs, out, **{"models": MODELS, "seeds": 1, "sets": SMALL} | options)


@pytest.fixture(scope="module")
def done(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Reproduced:
    """A finished reproduction."""
    return run(logs, tmp_path_factory.mktemp("reproduced") / "out")


def test_files_of_a_reproduction(done: Reproduced) -> None:
    out = done.compared.out
    pages = {f"{name}.{kind}" for name in ("table1", "table2", "table3", "claims") for kind in ("md", "tex")}
    assert pages | {"dataset", "runs", "compare.json", "compare.png", "reproduce.json"} == {
        path.name for path in out.iterdir()
    }
    document = json.loads((out / "reproduce.json").read_text())
    assert set(document["claims"]) == {"all", "with_profile"}
    verdicts = {claim["words"]: claim["verdict"] for claim in document["claims"]["with_profile"]}
    assert verdicts["DFN is below DEERS"] == "not run"
    assert verdicts["skipped stories help: DRPN-N is below DRPN"] in ("held", "failed", "not separated")
    assert len(document["runs"]) == 3
    first = (out / "table1.md").read_text()
    assert f"| users | {Dataset.open(out / 'dataset').statistics['users']:,} | 654,870 |" in first
    assert "These are not the data of the paper" in first
    claims = (out / "claims.md").read_text()
    assert "| **not run** |" in claims
    assert "the paper's |" not in claims
    assert "paper" not in (out / "table2.md").read_text()


def test_claims_are_judged_on_users_with_a_profile(done: Reproduced) -> None:
    rows = {(row["model"], row["group"]): row["auc"] for row in done.compared.rows}
    for group, judged in done.compared.claims.items():
        (pair,) = next(item.pairs for item in judged if "DRPN-N is below" in item.claim.words)
        assert pair.difference == pytest.approx(rows["drpn", group] - rows["drpn-n", group])
    assert "Judged on impressions of users with a profile" in (done.compared.out / "claims.md").read_text()


def test_a_second_call_prepares_and_trains_nothing(
    done: Reproduced, logs: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("prepared again")

    monkeypatch.setattr("drpn.experiments.reproduce.prepare", never)
    again = run(logs, done.compared.out)
    assert trained == []
    assert again.as_dict()["claims"] == done.as_dict()["claims"]


def test_a_different_dataset_is_refused(done: Reproduced, logs: Path, tmp_path: Path) -> None:
    out = done.compared.out
    with pytest.raises(FolderError) as refusal:
        run(logs, out, sets=[*SMALL, "data.clicked=7"])
    assert str(refusal.value) == (
        f"{out}/dataset was prepared with data.clicked = 50, and 7 is asked for; "
        f"remove {out}/dataset to prepare it again, or choose another output folder"
    )
    shutil.copytree(logs, tmp_path / "logs")
    with (tmp_path / "logs" / "dev" / "behaviors.tsv").open("a") as stream:
        stream.write("\n")
    with pytest.raises(FolderError, match=r"dataset was prepared from another dev/behaviors\.tsv than the one in "):
        run(tmp_path / "logs", out)
    with pytest.raises(FolderError, match=r"dataset was prepared without .*glove\.txt; remove "):
        run(logs, out, vectors=tmp_path / "glove.txt")


def test_data_settings_cover_the_needs_of_all_models(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = protocol()
    assert (settings.user_neighbours, settings.entities, settings.abstracts) == (
        REQUIREMENTS["user_neighbours"].value,
        REQUIREMENTS["entities"].value,
        0,
    )
    assert protocol(sets=["data.user_neighbours=3"]).user_neighbours == 3
    assert protocol(sets=["model.channels=words"]).entities == 0
    monkeypatch.setattr("drpn.experiments.reproduce.requirements_of", lambda *_, **__: ())
    assert protocol().user_neighbours == 0


@pytest.mark.parametrize("entities", [True, False], ids=["with entities", "without entities"])
def test_dkn_reads_entities_if_the_logs_have_them(logs: Path, tmp_path: Path, entities: bool) -> None:
    shutil.copytree(logs, tmp_path / "logs")
    for file in (tmp_path / "logs").glob("*/news.tsv") if entities else ():
        file.write_text("".join(map(with_entity, file.read_text().splitlines(keepends=True))))
    sets = ["model.size=6", "model.filters=3", "training.epochs=1", "training.device=cpu", "data.vector_size=4"]
    notes = Notes()
    done = run(tmp_path / "logs", tmp_path / "out", models=["dkn"], sets=sets, progress=notes)
    dataset, read = Dataset.open(tmp_path / "out" / "dataset"), "words + entities" if entities else "words"
    assert dataset.manifest["settings"]["entities"] == (5 if entities else 0)
    assert ("news/word_entities" in dataset.arrays) == entities
    assert [one["content"] for one in done.compared.runs] == [read]
    assert f"| DKN, {read} |" in (tmp_path / "out" / "table2.md").read_text()
    told = "the titles of these logs have no entities, so DKN reads words alone" in notes.messages
    assert told != entities
    run(tmp_path / "logs", tmp_path / "out", models=["dkn"], sets=sets)  # the folder is found to be the same


def with_entity(line: str) -> str:
    """The line of news.tsv with the first word of its title as an entity."""
    fields = line.split("\t")
    word = fields[3].split()[0]
    fields[6] = json.dumps([{"WikidataId": f"Q{len(word)}", "SurfaceForms": [word], "OccurrenceOffsets": [0]}])
    return "\t".join(fields)


OFFICIAL = {"nrms": 30, "naml": 30, "lstur": 30, "npa": 12, "dkn": 12, "nrms-tce": 30, "naml-tce": 30}
"""Systems with the settings of the official code, each with the words that it reads."""


def shipped() -> dict[str, Settings]:
    """The settings of `drpn reproduce`."""
    return load_settings_of(CATALOGUE, Path("mind-large"))


def test_each_system_is_trained_as_its_reference() -> None:
    actual = {name: (one.training.rate, one.training.batch, one.training.epochs) for name, one in shipped().items()}
    own = {
        **dict.fromkeys(OFFICIAL, (0.0001, 32, 5)),
        "dkn": (5e-4, 100, 10),  # 500 candidates are 100 clicks with four skips
        "gerl": (1e-4, 128, 10),
    }
    assert actual == {name: own.get(name, (1e-3, 128, 5)) for name in CATALOGUE}
    losses = {"dkn": "log", "nrms-tce": "tce", "naml-tce": "tce"}
    assert {name: one.training.loss for name, one in shipped().items()} == {
        name: losses.get(name, "softmax") for name in CATALOGUE
    }
    for name in OFFICIAL:  # all passes, without early stopping
        assert shipped()[name].training.patience == shipped()[name].training.epochs


def test_each_system_reads_as_much_as_its_reference() -> None:
    for name, settings in shipped().items():
        model = settings.model
        assert model.max_words == OFFICIAL.get(name, 15), name
        assert model.max_clicked == {"deers": 10}.get(name, 50 if name in OFFICIAL else 30), name
        assert model.max_skipped == {"deers": 10, "dfn": 30}.get(name, 60), name


def test_the_folder_holds_what_every_system_reads() -> None:
    data, models = protocol(Path("mind-large")), [settings.model for settings in shipped().values()]
    assert data.words == max(model.max_words for model in models) == 30
    assert data.clicked == max(model.max_clicked for model in models) == 50
    assert data.skipped == max(model.max_skipped for model in models) == 60


def test_networks_are_those_of_the_official_code_or_of_the_papers() -> None:
    limits = {"max_words": None, "max_clicked": None, "max_skipped": None}
    heads = {"heads": 20, "head_size": 20}
    own: dict[str, dict[str, Any]] = {
        "nrms": heads,
        "nrms-tce": heads,
        "lstur": {"filters": 400, "logits": "code", "categories": False, "masking": 0.0, "zero_users": True},
        "npa": {"user_size": 100, "logits": "code", "pooled_dropout": True, "id_dropout": 0.0, "zero_users": True},
    }
    for name, settings in shipped().items():
        assert replace(settings.model, **limits) == replace(CATALOGUE[name].settings, **own.get(name, {})), name


def test_limits_of_the_shipped_settings_are_used(done: Reproduced) -> None:
    """The folder holds more than DRPN reads."""
    dataset = Dataset.open(done.compared.out / "dataset")
    assert (dataset.news_words.shape[1], dataset.clicked.shape[1], dataset.skipped.shape[1]) == (30, 50, 60)
    limits = {run["model"]: run["settings"]["model"]["max_words"] for run in done.compared.runs}
    assert limits == {"drpn": 15, "drpn-n": 15, "nrms": 30}
