"""Settings from TOML files and --set."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest

from drpn import config
from drpn.errors import SettingsError
from drpn.models.catalogue import CATALOGUE
from drpn.prepare.settings import DataSettings
from drpn.recipes.settings import load_data_settings, load_settings, load_settings_of
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


CONFIGS = sorted((Path(__file__).parents[1] / "configs").glob("*.toml"))


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_shipped_config_loads_and_changes_every_model(file: Path) -> None:
    settings, defaults = load_settings_of(CATALOGUE, file), load_settings_of(CATALOGUE)
    assert all(settings[model] != defaults[model] for model in CATALOGUE)
    assert load_data_settings(file) == settings["drpn"].data


TUNED = sorted((Path(__file__).parents[1] / "configs").glob("*/*.toml"))


@pytest.mark.parametrize("file", TUNED, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_tuned_config_loads_for_its_model(file: Path) -> None:
    settings, text = load_settings(file, model=file.stem), file.read_text()
    best = next(line.split() for line in text.splitlines() if line.startswith("#") and line.endswith("  best"))
    assert best[3:5] == [f"{settings.training.rate:g}", f"{settings.training.decay:g}"]
    assert {path.stem for path in file.parent.glob("*.toml")} == set(CATALOGUE)


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
