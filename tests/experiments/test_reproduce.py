"""Reproducing the paper on a simulated newsroom in MIND's format."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drpn.cli import printing
from drpn.dataset.folder import MANIFEST, SPLITS, Dataset
from drpn.dataset.requirements import REQUIREMENTS
from drpn.errors import FolderError
from drpn.evaluation.metrics import METRICS
from drpn.experiments.paper import TABLE2, TABLE3
from drpn.experiments.reproduce import Reproduced, protocol, reproduce
from drpn.models.catalogue import CATALOGUE
from drpn.recipes.prepare import prepare
from drpn.recipes.settings import Settings, load_settings_of
from drpn.versioned import write_versioned
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
    statistics = Dataset.open(out / "dataset").statistics
    assert f"| users | {statistics['users']:,} |  |" in first
    assert f"| users with a profile | {statistics['profile_users']:,} | 654,870 |" in first
    assert "The paper does not say how it counts." in first
    assert "These are not the data of the paper" in first
    claims = (out / "claims.md").read_text()
    assert "| **not run** |" in claims
    assert "the paper's |" not in claims
    page = (out / "table2.md").read_text()
    assert ", paper" not in page
    assert "left out of training, validation and test, as the paper's authors do" in page


def test_users_without_a_profile_are_left_out(done: Reproduced, data: Path) -> None:
    dataset, everyone = Dataset.open(done.compared.out / "dataset"), Dataset.open(data)
    assert sum(dataset.statistics["impressions_left_out"].values()) > 0
    assert set(dataset.statistics["users_without_profile"].values()) == {0.0}
    assert everyone.statistics["users_without_profile"]["test"] > 0
    for name in SPLITS:
        part, whole = dataset.impressions(name), everyone.impressions(name)
        profiled = (everyone.clicked[whole.users, 0] > 0) | (everyone.skipped[whole.users, 0] > 0)
        assert list(part.ids) == [id for id, kept in zip(whole.ids, profiled, strict=True) if kept]
    assert done.compared.has_profile.all()
    for name in ("table2", "table3"):
        page = (done.compared.out / f"{name}.md").read_text()
        assert "## Impressions of users with a profile, " in page
        assert "users without a profile, 0" not in page
        assert "## All impressions" not in page


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


MIND_COUNTS = {
    "news": 104_151,
    "users": 750_000,
    "profile_users": 654_870,
    "clicked_samples": 1_048_414,
    "skipped_samples": 25_145_229,
    "mean_clicked_with_repeats": 4.14,
    "mean_skipped_with_repeats": 96.8,
    "of_profile_users": {
        "clicked_samples": 1_048_414,
        "skipped_samples": 25_145_229,
        "users_not_in_training": {"validation": 0.446, "test": 0.487},
    },
}
"""Counts of MIND-large: public ones, the paper's where there are none, and a guess of the users in both parts."""


@pytest.fixture
def mind_logs(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small logs in MIND's format; a dataset prepared from them says that it has the counts of MIND-large."""
    shutil.copytree(logs, tmp_path / "logs", ignore=shutil.ignore_patterns("truth.parquet"))

    def as_mind_large(logs: Path, out: Path, *arguments: Any, **options: Any) -> None:
        manifest = prepare(logs, out, *arguments, **options).manifest
        write_versioned(out / MANIFEST, manifest | {"statistics": manifest["statistics"] | MIND_COUNTS})

    monkeypatch.setattr("drpn.experiments.reproduce.prepare", as_mind_large)
    return tmp_path / "logs"


def test_the_paper_s_columns_are_next_to_ours_on_mind_large(
    mind_logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    done = run(mind_logs, out)
    first = (out / "table1.md").read_text()
    assert "| users with a profile | 654,870 | 654,870 |" in first
    assert "|   of users with a profile | 25,145,229 | 25,145,229 |" in first
    assert "These are not the data of the paper" not in first
    for number, reported in ((2, TABLE2), (3, TABLE3)):
        head, *rows = [
            line.split(" | ") for line in (out / f"table{number}.md").read_text().splitlines() if "|" in line
        ]
        assert [text.strip(" |") for text in head[-4:]] == [
            "AUC, paper",
            "MRR, paper",
            "nDCG@5, paper",
            "nDCG@10, paper",
        ]
        # reversed: of several tables the first counts
        shown = {row[0].strip("| "): [cell.strip(" |") for cell in row[-4:]] for row in reversed(rows)}
        expected = [f"{value / 100:.4f}" for value in reported["drpn"]]
        assert shown["DRPN"] == expected
    assert "| the paper's |" in (out / "claims.md").read_text()
    monkeypatch.setenv("COLUMNS", "80")
    printing.reproduction(done)
    printed = capsys.readouterr().out
    assert "Users with a profile, next to the paper's Tables 2 and 3" in printed
    (line,) = [line.split() for line in printed.splitlines() if line.startswith("DRPN ")]
    (row,) = [row for row in done.compared.rows if (row["model"], row["group"]) == ("drpn", "all")]
    assert line[1:] == [
        text
        for name, value in zip(METRICS, TABLE2["drpn"], strict=True)
        for text in (f"{row[name]:.4f}", f"{value / 100:.4f}")
    ]


def test_the_protocol_is_the_paper_s_with_any_settings_file(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[data]\nwords = 20\n")
    for settings in (protocol(), protocol(Path("mind-large")), protocol(tmp_path / "own.toml")):
        assert (settings.users, settings.train_days, settings.validation) == ("with-profile", 1, 0.1)
    assert protocol(sets=["data.users=all"]).users == "all"


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


OFFICIAL = {"nrms": 32, "naml": 32, "lstur": 32, "npa": 12, "dkn": 12, "nrms-tce": 32, "naml-tce": 32}
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
    assert actual == {name: own.get(name, (1e-3, 512, 10)) for name in CATALOGUE}
    losses = {"dkn": "log", "nrms-tce": "tce", "naml-tce": "tce"}
    assert {name: one.training.loss for name, one in shipped().items()} == {
        name: losses.get(name, "softmax") for name in CATALOGUE
    }
    for name in CATALOGUE:  # all passes, without early stopping
        assert shipped()[name].training.patience == shipped()[name].training.epochs


def test_each_system_reads_as_much_as_its_reference() -> None:
    for name, settings in shipped().items():
        model = settings.model
        assert model.max_words == {"gerl": 22, **OFFICIAL}.get(name, 15), name
        assert model.max_clicked == {"deers": 10}.get(name, 50 if name in ("gerl", *OFFICIAL) else 30), name
        assert model.max_skipped == {"deers": 10, "dfn": 30}.get(name, 60), name


def test_the_folder_holds_what_every_system_reads() -> None:
    data, models = protocol(Path("mind-large")), [settings.model for settings in shipped().values()]
    assert data.words == max(model.max_words for model in models) == 32
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
    assert (dataset.news_words.shape[1], dataset.clicked.shape[1], dataset.skipped.shape[1]) == (32, 50, 60)
    limits = {run["model"]: run["settings"]["model"]["max_words"] for run in done.compared.runs}
    assert limits == {"drpn": 15, "drpn-n": 15, "nrms": 32}
