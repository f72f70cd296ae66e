"""Settings from TOML files and --set."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

import drpn
from drpn import config
from drpn.errors import SettingsError
from drpn.models.catalogue import CATALOGUE
from drpn.preparation.settings import DataSettings
from drpn.recipes.settings import SHIPPED, find_config, load_data_settings, load_settings, load_settings_of
from drpn.training.settings import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class Kitchen:
    """Settings of every type."""

    ovens: int = 2
    heat: float = 1.5
    open: bool = True
    cook: str = "anna"
    style: Literal["slow", "fast"] = "slow"
    cellar: Path | None = None
    tables: int | None = None

    def __post_init__(self) -> None:
        if self.ovens < 1:
            raise ValueError(f"ovens is {self.ovens}; it takes 1 or more")


def load(*sets: str, file: Path | None = None) -> Kitchen:
    kitchen: Kitchen = config.load({"kitchen": Kitchen()}, file=file, sets=sets)["kitchen"]
    return kitchen


def test_set_overrides_the_file_and_the_file_overrides_the_default(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[kitchen]\novens = 3\nheat = 2\ncellar = "wine"\n')
    assert load("kitchen.ovens=4", file=file) == Kitchen(ovens=4, heat=2.0, cellar=Path("wine"))


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("kitchen.heat=3", Kitchen(heat=3.0)),
        ("kitchen.open=false", Kitchen(open=False)),
        ("kitchen.cook=ben", Kitchen(cook="ben")),
        ('kitchen.cook="3"', Kitchen(cook="3")),
        ("kitchen.style=fast", Kitchen(style="fast")),
        ("kitchen.tables=4", Kitchen(tables=4)),
        ("kitchen.tables=none", Kitchen()),
        ("kitchen.cellar=a/b", Kitchen(cellar=Path("a/b"))),
    ],
)
def test_values_are_converted_to_the_type_of_the_setting(assignment: str, expected: Kitchen) -> None:
    assert load(assignment) == expected


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("kitchen.oven=4", "there is no setting 'kitchen.oven'; did you mean 'ovens'?"),
        (
            "kitchen.zzz=4",
            "there is no setting 'kitchen.zzz'; choose from cellar, cook, heat, open, ovens, style, tables",
        ),
        ("kitchn.ovens=4", "setting 'kitchn.ovens=4': there is no section 'kitchn'; did you mean 'kitchen'?"),
        ("kitchen.ovens=true", "kitchen.ovens is True; it takes a whole number"),
        ("kitchen.ovens=1.5", "kitchen.ovens is 1.5; it takes a whole number"),
        ("kitchen.open=1", "kitchen.open is 1; it takes true or false"),
        ("kitchen.style=raw", "kitchen.style is 'raw'; choose from 'slow', 'fast'"),
        ("kitchen.ovens=0", "kitchen.ovens is 0; it takes 1 or more"),
        ("ovens=0", "setting 'ovens=0': write it as section.key=value, for example data.history=true"),
    ],
)
def test_the_error_names_the_bad_value(assignment: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        load(assignment)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[kitchen\n", "is not valid TOML: "),
        ("[kitchne]\n", "there is no section [kitchne]; did you mean 'kitchen'?"),
        ("kitchen = 3\n", "'kitchen' is outside a section; write it under [section]"),
        ("[kitchen]\noven = 3\n", "there is no setting 'kitchen.oven'; did you mean 'ovens'?"),
    ],
)
def test_the_error_names_the_bad_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load(file=file)
    assert message in str(error.value)


def test_the_error_names_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"b\.toml: there is no such settings file"):
        load(file=tmp_path / "b.toml")


TUNED = ("newsroom", "ebnerd-week1")
NOT_LIVE = [model for model in CATALOGUE if not model.startswith("drpn-live")]
SHIPPED_NAMES = sorted(path.stem for path in SHIPPED.glob("*.toml"))


@pytest.mark.parametrize("name", SHIPPED_NAMES)
def test_every_shipped_config_is_accepted_and_changes_something(name: str) -> None:
    settings, defaults = load_settings_of(CATALOGUE, Path(name)), load_settings_of(CATALOGUE)
    changed = [model for model in CATALOGUE if settings[model] != defaults[model]]
    assert len(changed) > len(CATALOGUE) / 2 if name in TUNED else changed == list(CATALOGUE)
    assert load_data_settings(Path(name)) == settings["drpn"].data
    for model in CATALOGUE:
        assert load_settings(Path(name), model=model, of_several=True) == settings[model]


def test_a_shared_config_can_be_used_for_a_few_models() -> None:
    assert load_settings_of(["nrms"], Path("small")) == {"nrms": load_settings_of(CATALOGUE, Path("small"))["nrms"]}


def test_the_shipped_configs_are_found_inside_the_package() -> None:
    assert SHIPPED_NAMES == ["ebnerd-week1", "laptop", "mind-large", "newsroom", "small"]
    assert Path(drpn.__file__).parent / "configs" == SHIPPED


@pytest.mark.parametrize("name", TUNED)
def test_tuned_files_have_settings_for_every_model(name: str) -> None:
    """Those of DRPN without its graph network, and of DRPN with planted feedback, are DRPN's.

    Models that read counts need a folder of the live protocol, and these files were tuned on folders without them.
    """
    tables = tomllib.loads((SHIPPED / f"{name}.toml").read_text())["models"]
    assert sorted(tables) == sorted(NOT_LIVE)
    assert tables["drpn-g-ids"] == tables["drpn-planted"] == tables["drpn"]


@pytest.mark.parametrize("model", [model for model in NOT_LIVE if model not in ("drpn-g-ids", "drpn-planted")])
@pytest.mark.parametrize("name", TUNED)
def test_tuned_settings_are_those_of_the_best_trial(name: str, model: str) -> None:
    text = (SHIPPED / f"{name}.toml").read_text()
    (block,) = (paragraph for paragraph in text.split("\n\n") if f"\n[models.{model}]\n" in paragraph)
    rows = dict(line[2:].split("  ", 1) for line in block.splitlines() if line.startswith("# "))
    trials = {row: cells.split() for row, cells in rows.items()}
    aucs = trials.pop("validation AUC")
    (best,) = (place for place, auc in enumerate(aucs) if auc.endswith("*"))
    assert float(aucs[best].rstrip("*")) == max(float(auc.rstrip("*")) for auc in aucs)
    settings = load_settings(Path(name), model=model)
    assert {"training.rate", "training.decay"} <= set(trials)
    for row, cells in trials.items():
        section, _, key = row.partition(".")
        assert cells[best] == f"{getattr(getattr(settings, section), key):g}"


def test_a_config_can_be_a_path_or_the_name_of_a_shipped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_config(Path("laptop")) == SHIPPED / "laptop.toml"
    assert find_config(tmp_path / "laptop") == tmp_path / "laptop"
    with pytest.raises(SettingsError) as refusal:
        load_settings(Path("lap"))
    assert str(refusal.value) == (
        "lap: there is no such settings file; "
        "name a TOML file or one of ebnerd-week1, laptop, mind-large, newsroom, small"
    )
    monkeypatch.chdir(tmp_path)
    Path("laptop").write_text("[training]\nepochs = 7\n")
    assert load_settings(Path("laptop")).training.epochs == 7


def test_the_table_of_a_model_overrides_the_common_sections(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[training]\nepochs = 3\nrate = 0.5\n[models.nrms]\nmodel.size = 8\ntraining.rate = 0.25\n")
    nrms, drpn_settings = (load_settings(file, model=model) for model in ("nrms", "drpn"))
    assert (nrms.model.size, nrms.training.epochs, nrms.training.rate) == (8, 3, 0.25)
    assert (drpn_settings.model.size, drpn_settings.training.rate) == (300, 0.5)
    assert load_settings(file, ["training.rate=0.1"], model="nrms").training.rate == 0.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.nmrs]\n", ": [models.nmrs]: there is no model 'nmrs'; did you mean 'nrms'?"),
        ("[models.nrms]\nrate = 1\n", ": [models.nrms] takes model.KEY and training.KEY, not 'rate'"),
        ("[models.nrms.data]\nwords = 3\n", ": [models.nrms] takes model.KEY and training.KEY, not 'data'"),
        ("[models]\nnrms = 3\n", ": [models.nrms] takes model.KEY and training.KEY, not 3"),
        ("models = 3\n", ": 'models' is outside a section; write it under [section]"),
    ],
)
def test_a_bad_table_of_a_model_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(file)
    assert str(error.value) == f"{file}{message}"


def test_data_settings_load_from_a_file_with_settings_of_any_model(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[data]\nwords = 9\n[model]\nfilters = 7\n")
    assert load_data_settings(file, ["data.neighbours=3"]) == DataSettings(words=9, neighbours=3)
    with pytest.raises(SettingsError, match=r"there is no setting 'data\.wordz'; did you mean 'words'"):
        load_data_settings(None, ["data.wordz=3"])


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_model_can_have_its_own_training_defaults(name: str, tmp_path: Path) -> None:
    """The file and --set override them like any default."""
    defaults = dict(CATALOGUE[name].training)
    assert load_settings(model=name).training == TrainingSettings(**defaults)
    file = tmp_path / "a.toml"
    file.write_text("[training]\nepochs = 3\n")
    assert load_settings(file, model=name).training == TrainingSettings(**defaults | {"epochs": 3})
    training = load_settings(file, ["training.loss=softmax"], model=name).training
    assert training == TrainingSettings(**defaults | {"epochs": 3, "loss": "softmax"})


def test_a_large_batch_changes_other_defaults(tmp_path: Path) -> None:
    """Those of the model itself and what the file or --set says stay."""
    small, large = load_settings().training, load_settings(None, ["training.batch=2048"]).training
    assert (small.rate, small.schedule, small.epochs) == (1e-3, "constant", 5)
    assert (large.rate, large.schedule, large.epochs) == (2e-3, "one-cycle", 3)
    assert load_settings(None, ["training.batch=1023"]).training == replace(small, batch=1023)
    file = tmp_path / "a.toml"
    file.write_text("[training]\nbatch = 8192\nepochs = 7\n")
    larger = load_settings(file, ["training.rate=0.5"]).training
    assert (larger.rate, larger.epochs, larger.clip, larger.matrix_rate) == (0.5, 7, 1.0, 0.25)
    assert (small.first_scores, large.first_scores, larger.first_scores) == (1.0, 1.0, 0.1)
    assert load_settings(None, ["training.batch=8192"], model="nrms-tce").training.loss == "tce"
    live = load_settings(None, ["training.batch=8192"], model="drpn-live").training
    assert live == replace(load_settings(model="drpn-live").training, batch=8192)


@pytest.mark.parametrize(("name", "loss"), [("nrms", "softmax"), ("nrms-tce", "tce")])
def test_only_tce_variants_use_truncated_cross_entropy(name: str, loss: str) -> None:
    assert load_settings(model=name).training.loss == loss


def test_a_shared_file_can_have_settings_of_other_models(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[model]\nsize = 8\nfilters = 7\n")
    assert load_settings(file, model="nrms", of_several=True).model == replace(CATALOGUE["nrms"].settings, size=8)
    assert load_settings(file, model="naml").model.filters == 7
    with pytest.raises(SettingsError, match=r"there is no setting 'model\.filters'"):
        load_settings(file, model="nrms")
    with pytest.raises(SettingsError, match=r"there is no setting 'model\.filters'"):
        load_settings(None, ["model.filters=7"], model="nrms", of_several=True)
    file.write_text("[model]\nfiltres = 7\n")
    with pytest.raises(SettingsError, match=r"there is no setting 'model\.filtres'"):
        load_settings(file, model="nrms", of_several=True)


@pytest.mark.parametrize("name", SHIPPED_NAMES)
def test_a_shipped_file_sets_up_any_single_model(name: str) -> None:
    for model in CATALOGUE:
        load_settings(Path(name), model=model)
