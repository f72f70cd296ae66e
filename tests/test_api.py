"""The public Python API: its names, what importing it loads, and the whole path from logs to rankings."""

import ast
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest

import drpn
import drpn.api
from drpn.config import build, read
from drpn.progress import Advance
from drpn.training.settings import TrainingSettings

ROOT = Path(__file__).parents[1]
SOURCE = Path(drpn.__file__).read_text(encoding="utf-8")
FUNCTIONS = [name for name in drpn.__all__ if inspect.isfunction(getattr(drpn, name))]
TINY: dict[str, Any] = {
    "model.size": 8, "model.heads": 2, "model.hidden": 8, "model.dropout": 0.1, "model.denoise": True,
    "training.epochs": 1, "training.device": "cpu",
}  # fmt: skip
"""Values of every kind: integers, a float, a truth value and a text."""


def test_the_public_names_are_listed_alike_everywhere() -> None:
    (block,) = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.If)]
    assert isinstance(block.test, ast.Name)
    assert block.test.id == "TYPE_CHECKING"
    (statement,) = block.body
    assert isinstance(statement, ast.ImportFrom)
    assert statement.module == "drpn.api"
    assert [alias.name for alias in statement.names] == drpn.__all__ == drpn.api.__all__ == sorted(drpn.__all__)
    assert all(alias.asname is None for alias in statement.names)


def test_every_public_name_can_be_used() -> None:
    assert set(drpn.__all__) <= set(dir(drpn))
    assert {"simulate", "prepare", "open_dataset", "train", "evaluate", "load", "explain", "compare"} == set(FUNCTIONS)
    for name in drpn.__all__:
        assert getattr(drpn, name) is getattr(drpn.api, name)
        assert inspect.isclass(getattr(drpn, name)) or name in FUNCTIONS
    assert drpn.__version__


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_types_and_a_docstring(name: str) -> None:
    function = getattr(drpn, name)
    signature = inspect.signature(function)
    assert function.__doc__
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter


def public_methods() -> list[Any]:
    methods = []
    for name in drpn.__all__:
        kind = getattr(drpn, name)
        if inspect.isclass(kind):
            for attribute, member in vars(kind).items():
                if inspect.isfunction(member) and not attribute.startswith("_"):
                    methods.append(pytest.param(member, id=f"{name}.{attribute}"))
    return methods


@pytest.mark.parametrize("method", public_methods())
def test_methods_have_types_and_a_docstring(method: Any) -> None:
    signature = inspect.signature(method)
    assert method.__doc__
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in [*signature.parameters.values()][1:]:
        assert parameter.annotation is not inspect.Parameter.empty, parameter


def test_types_have_a_docstring() -> None:
    for name in drpn.__all__:
        if name not in FUNCTIONS:
            documentation = getattr(drpn, name).__doc__
            assert documentation
            assert not documentation.startswith(f"{name}("), name  # the text that dataclasses write


def loaded_by(statement: str, modules: set[str]) -> str:
    code = f"{statement}; import sys; print(sorted({modules!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "statement",
    ["import drpn.models.catalogue", "import drpn.state.profile", "import drpn; drpn.Recommender; drpn.Profile"],
)
def test_models_and_profiles_load_without_query_engine_and_drawing(statement: str) -> None:
    assert loaded_by(statement, {"ibis", "duckdb", "pyarrow", "pandas", "matplotlib"}) == "[]"


def test_import_drpn_loads_no_library() -> None:
    libraries = {"ibis", "duckdb", "pyarrow", "pandas", "matplotlib", "torch", "numpy", "rich", "typer", "drpn.api"}
    assert loaded_by("import drpn; drpn.__version__", libraries) == "[]"
    assert loaded_by("import drpn.state.profile", libraries) == "[]"


@pytest.mark.parametrize("module", [drpn, drpn.api])
def test_an_unknown_attribute_is_an_attribute_error(module: Any) -> None:
    with pytest.raises(AttributeError, match=rf"^module '{module.__name__}' has no attribute 'recomend'$"):
        module.recomend  # noqa: B018
    assert not hasattr(module, "Recomender")


@pytest.mark.parametrize("name", ["prepare", "explain"])
def test_functions_keep_their_names_when_subpackages_are_imported(name: str) -> None:
    """`drpn.prepare` and `drpn.explain` are also packages; importing them must not hide the functions."""
    code = (
        f"import drpn\nbefore = drpn.{name}\nimport drpn.preparation.settings, drpn.explanation.trace\n"
        f"from drpn.explanation import trace\nfrom drpn import {name}\n"
        f"assert callable(before) and drpn.{name} is before is {name}\nassert trace.Trace is drpn.Trace"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Recorder:
    """A progress view that is neither a function nor a subclass of anything."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.notes: list[str] = []
        self.advanced = 0

    @contextmanager
    def stage(self, title: str, total: int | None = None) -> Iterator[Advance]:
        del total
        self.stages.append(title)
        yield self.advance

    def advance(self, units: int) -> None:
        self.advanced += units

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api")


@pytest.fixture(scope="module")
def logs(folder: Path) -> str:
    lines: list[str] = []
    written = drpn.simulate(f"{folder}/logs", users=80, news=300, days=4, seed=1, progress=lines.append)
    assert written == folder / "logs"
    assert lines
    return str(written)


@pytest.fixture(scope="module")
def data(logs: str, folder: Path) -> drpn.Dataset:
    view = Recorder()
    data = drpn.prepare(logs, f"{folder}/data", settings={"vector_size": 8, "data.clicked": 10}, progress=view)
    assert view.stages
    return data


@pytest.fixture(scope="module")
def lines_of_training() -> list[str]:
    return []


@pytest.fixture(scope="module")
def run(data: drpn.Dataset, folder: Path, lines_of_training: list[str]) -> drpn.Run:
    return drpn.train(data, f"{folder}/run", settings=TINY, progress=lines_of_training.append)


@pytest.fixture(scope="module")
def user(data: drpn.Dataset) -> str:
    """A user with a profile."""
    clicked = data.clicked.any(axis=1) & data.skipped.any(axis=1)
    return data.user_ids[int(clicked.nonzero()[0][0])]


def test_prepare_and_open(data: drpn.Dataset, logs: str) -> None:
    assert data.manifest["settings"]["vector_size"] == 8
    assert data.clicked.shape[1] == 10
    opened = drpn.open_dataset(str(data.path))
    assert opened.statistics == data.statistics
    with pytest.raises(drpn.DrpnError, match="replace"):
        drpn.prepare(logs, str(data.path))


def test_train_uses_the_settings(run: drpn.Run, lines_of_training: list[str]) -> None:
    settings = run.facts["settings"]
    assert {name: settings[name.split(".")[0]][name.split(".")[1]] for name in TINY} == TINY
    assert any("epoch 1 of 1" in line for line in lines_of_training)
    assert all(isinstance(line, str) and "\n" not in line for line in lines_of_training)


def test_train_from_a_path_with_a_shipped_config(data: drpn.Dataset, tmp_path: Path) -> None:
    """Settings override the file."""
    tiny = {**TINY, "model.graph_heads": 2}
    run = drpn.train(str(data.path), f"{tmp_path}/run", config="laptop", settings=tiny)
    assert run.facts["settings"]["model"]["size"] == 8
    assert drpn.train(data, tmp_path / "run", config="laptop", settings=tiny, resume=True).path == tmp_path / "run"


def test_evaluate(run: drpn.Run, tmp_path: Path) -> None:
    evaluation = drpn.evaluate(run, scores=f"{tmp_path}/scores.jsonl", scores_format="jsonl")
    assert {row["model"] for row in evaluation.rows} == {"drpn", "chance", "popularity", "oracle"}
    assert {row["group"] for row in evaluation.rows} == {"all", "with_profile", "without_profile"}
    assert (tmp_path / "scores.jsonl").read_text().startswith("{")
    assert drpn.evaluate(str(run.path), split="validation").split == "validation"


def test_load_and_recommend(run: drpn.Run, user: str) -> None:
    recommender = drpn.load(str(run.path))
    ranking = recommender.recommend(user, top=3)
    assert isinstance(ranking, drpn.Ranking)
    assert isinstance(ranking.rows[0], drpn.RankedStory)
    assert (ranking.user_id, ranking.known, [row.rank for row in ranking.rows]) == (user, True, [1, 2, 3])
    profile = recommender.profile(user)
    assert isinstance(profile.clicked[0], drpn.Entry)
    by_history = recommender.recommend(history=profile, top=3)
    assert [row.news_id for row in by_history.rows] == [row.news_id for row in ranking.rows]
    candidates = [row.news_id for row in ranking.rows][::-1]
    again = recommender.recommend(user, candidates=candidates)
    assert [row.news_id for row in again.rows] == candidates[::-1]
    rankings = recommender.recommend_many([user, "nobody", drpn.Profile(clicked=candidates)], top=3)
    assert [row.news_id for row in rankings[0].rows] == [row.news_id for row in ranking.rows]
    assert [ranking.known for ranking in rankings] == [True, False, True]
    for place in (run, run.path, run.path / "bundle"):
        assert drpn.load(place).recommend(user, top=3).rows == ranking.rows


def test_profiles_from_events_are_ranked(run: drpn.Run) -> None:
    recommender = drpn.load(run)
    first, second = recommender.live[:2]
    state = drpn.ProfileState([drpn.Event(first, True, 1), drpn.Event(second, False, 2)])
    recommender.add([drpn.NewStory("A storm is coming", news_id=7)])
    state.update(drpn.Event(7, True, 3))
    ranking = recommender.recommend(history=state.profile(), top=1000)
    assert len(ranking.rows) == len(recommender.live) - 3


def test_explain(run: drpn.Run, user: str, tmp_path: Path) -> None:
    for _ in range(2):  # the second call finds the subpackage `explain` loaded
        trace = drpn.explain(run, user, f"{tmp_path}/case.png", progress=Recorder())
    assert isinstance(trace, drpn.Trace)
    assert trace.user_id == user
    assert (tmp_path / "case.png").stat().st_size > 10_000


def test_compare(data: drpn.Dataset, tmp_path: Path) -> None:
    settings = {**TINY, "model.head_size": 4}
    compared = drpn.compare(data, f"{tmp_path}/tables", models=["drpn", "nrms"], seeds=1, settings=settings)
    assert isinstance(compared, drpn.Compared)
    assert {"drpn", "nrms", "popularity"} <= {row["model"] for row in compared.rows}
    assert any((tmp_path / "tables").glob("*.md"))


@pytest.mark.parametrize("progress", [3, True, "print"])
def test_a_wrong_progress_is_refused(data: drpn.Dataset, tmp_path: Path, progress: Any) -> None:
    with pytest.raises(drpn.DrpnError) as raised:
        drpn.train(data, tmp_path / "run", settings=TINY, progress=progress)
    assert str(raised.value) == (
        f"progress is {progress!r}; it takes a function of one text, such as print, or a Progress"
    )
    assert not (tmp_path / "run").exists()


def test_settings_of_every_kind() -> None:
    chosen = {"epochs": 3, "rate": 1e-05, "decay": 0, "compile": False, "device": "cpu", "loss": "tce"}
    assignments = drpn.api._assignments({f"training.{key}": value for key, value in chosen.items()})
    settings = build(TrainingSettings(), read(["training"], sets=assignments)["training"], section="training")
    assert {key: getattr(settings, key) for key in chosen} == chosen


@pytest.mark.parametrize(
    ("function", "path", "options", "message"),
    [
        (drpn.train, "data", {"settings": {"model.sise": 8}}, "there is no setting 'model.sise'; did you mean 'size'?"),
        (drpn.train, "data", {"settings": {"modle.size": 8}}, "setting 'modle.size=8': there is no section 'modle'; "),
        (drpn.train, "data", {"settings": {"size": 8}}, "setting 'size=8': write it as section.key=value"),
        (drpn.train, "data", {"settings": {"model.size": "big"}}, "model.size is 'big'; it takes a whole number"),
        (drpn.train, "data", {"settings": ["model.size=8"]}, "settings is ['model.size=8']; it takes a dictionary"),
        (drpn.train, "data", {"model": "drnp"}, "there is no model 'drnp'; did you mean 'drpn'?"),
        (drpn.train, "data", {"config": "tiny"}, "tiny: there is no such settings file; name a TOML file or one of "),
        (drpn.train, "nowhere", {}, "nowhere is missing; prepare it from logs"),
        (drpn.prepare, "nowhere", {"settings": {"vector_sise": 8}}, "there is no setting 'data.vector_sise'; did you"),
        (drpn.prepare, "nowhere", {"format": "csv"}, "format is 'csv'; choose from auto, mind, ebnerd, events"),
        (drpn.compare, "data", {"models": "drpn"}, "models is 'drpn'; it takes a list of names, such as ['drpn', "),
        (drpn.compare, "data", {"models": []}, "models is []; it takes a list of names, such as ['drpn', 'nrms']"),
        (drpn.compare, "data", {"models": ["drpn"], "seeds": 0}, "seeds is 0; it takes 1 or more"),
        (drpn.compare, "data", {"models": ["drpn"], "jobs": 0}, "jobs is 0; it takes 1 or more"),
    ],
)
def test_jobs_that_cannot_start(
    data: drpn.Dataset, tmp_path: Path, function: Any, path: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(drpn.DrpnError) as raised:
        function(data.path if path == "data" else path, tmp_path / "out", **options)
    assert message in str(raised.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (drpn.simulate, {"users": 0}, "users is 0; at least 1 is needed"),
        (drpn.simulate, {"preset": "paper"}, "preset is 'paper'; it takes one of newsroom, personal, live"),
        (drpn.simulate, {"preset": "live", "noise": 0.2}, "noise is 0.2, but in the preset live"),
        (drpn.open_dataset, {}, "nowhere is missing; prepare it from logs"),
        (drpn.load, {}, "nowhere is not a run: it has no run.json; train a model first"),
        (drpn.evaluate, {}, "nowhere is not a run: it has no run.json; train a model first"),
        (drpn.evaluate, {"split": "tset"}, "split is 'tset'; choose from train, validation, test"),
        (drpn.evaluate, {"scores_format": "csv"}, "scores_format is 'csv'; choose from mind, jsonl"),
        (drpn.evaluate, {"seed": -1}, "seed is -1; it takes 0 or more"),
        (drpn.explain, {"user_id": "U1"}, "nowhere is not a run: it has no run.json; train a model first"),
        (drpn.explain, {"user_id": "U1", "out": "x.gif"}, "x.gif is neither PNG nor SVG; choose a name that ends in "),
    ],
)
def test_arguments_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any, options: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(drpn.DrpnError) as raised:
        function("nowhere", **options)
    assert str(raised.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_a_dataset_folder_is_not_a_run(data: drpn.Dataset) -> None:
    with pytest.raises(drpn.DrpnError, match=r"data is not a run: it has no run.json; train a model first$"):
        drpn.load(data.path)


def test_explain_names_a_user_who_exists(run: drpn.Run, data: drpn.Dataset) -> None:
    with pytest.raises(drpn.DrpnError, match=f"such as '{data.user_ids[1]}'$"):
        drpn.explain(run, 404)


def test_rankings_and_stories_are_data() -> None:
    assert is_dataclass(drpn.Ranking)
    assert is_dataclass(drpn.RankedStory)
    story = drpn.NewStory("storm", news_id=7)
    assert story == drpn.NewStory("storm", news_id="7")
    assert hash(story) == hash(drpn.NewStory("storm", news_id="7"))


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_examples_of_the_docs_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, on the example log of docs/events.md."""
    monkeypatch.chdir(tmp_path)
    impressions, news = re.findall(r"```csv\n(.*?)```", (ROOT / "docs" / "events.md").read_text(), re.DOTALL)
    Path("mylogs").mkdir()
    Path("mylogs/impressions.csv").write_text(impressions)
    Path("mylogs/news.csv").write_text(news)
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
        exec(example, names)
    assert names["drpn"] is drpn
    assert Path("anna.png").stat().st_size > 10_000


def test_simulate_takes_a_preset(tmp_path: Path) -> None:
    out = drpn.simulate(tmp_path / "live", users=20, news=300, days=2, preset="live")
    assert {file.name for file in out.iterdir()} >= {"news.parquet", "impressions.parquet"}
    out = drpn.simulate(tmp_path / "personal", users=20, news=2_000, days=2, preset="personal", noise=0.1)
    assert json.loads((out / "simulation.json").read_text())["settings"]["noise"] == 0.1
