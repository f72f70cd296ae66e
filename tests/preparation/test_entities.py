"""Entities of titles: found in their words, with vectors from files; kept if shown in training or with a vector."""

import json
from pathlib import Path

import numpy as np
import pytest

from drpn.dataset.folder import Dataset
from drpn.dataset.mentions import Mention
from drpn.errors import LogError, SettingsError
from drpn.preparation.entities import parse_mentions
from drpn.preparation.settings import DataSettings
from drpn.progress import Lines
from drpn.recipes.prepare import prepare
from writing import MindLine, write_mind

TWO = DataSettings(entities=2)
TITLE = " ".join(["On", *(f"Q{number}" for number in range(1, 13)), "now"])


def as_json(*ids: str) -> str:
    """Entities that the title of `write_logs` names by their ids."""
    places = {id: [TITLE.index(f" {id} ") + 1] for id in ids}
    return json.dumps(
        [{"Label": f"a {id}", "WikidataId": id, "SurfaceForms": [id], "OccurrenceOffsets": places[id]} for id in ids]
    )


def write_logs(folder: Path, **entities: str) -> Path:
    """Write three days of logs; N4 is shown on the last day only."""
    lines = [
        MindLine("1", "U1", "11/9/2019 8:00:00 AM", "N1-1 N2-0"),
        MindLine("2", "U2", "11/10/2019 8:00:00 AM", "N3-1 N2-0"),
        MindLine("3", "U2", "11/11/2019 8:00:00 AM", "N1-0 N4-1"),
        MindLine("4", "U1", "11/11/2019 9:00:00 AM", "N2-0 N4-1"),
    ]
    news = [f"N{row}\tnews\tlocal\t{TITLE}\t\t\t{entities.get(f'N{row}', '[]')}" for row in range(1, 5)]
    return write_mind(folder, lines, news)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    late = as_json("Q9", "Q2", "Q8")
    return write_logs(tmp_path / "logs", N1=as_json("Q2", "Q10", "Q2", "Q3"), N3=as_json("Q3"), N4=late)


def stored_entities(dataset: Dataset) -> list[dict[str, str]]:
    """For each story, the words that name an entity."""
    ids, words = dataset.arrays.strings("entities/id"), dataset.arrays.strings("words/word")
    stories = zip(dataset.news_words.tolist(), dataset.arrays.array("news/word_entities").tolist(), strict=True)
    return [{words[word]: ids[entity] for word, entity in zip(*story, strict=True) if entity} for story in stories]


def test_every_surface_form_is_a_mention() -> None:
    twice = {"WikidataId": "Q1", "SurfaceForms": ["The Queen", "Queen"], "OccurrenceOffsets": [0, 31], "Type": "P"}
    without_offset = {"WikidataId": "Q2", "SurfaceForms": ["Bath", "Bath Spa"], "OccurrenceOffsets": [7]}
    without_names = {"WikidataId": "Q3", "OccurrenceOffsets": [7, 9]}
    assert parse_mentions("N1", json.dumps([twice, without_offset, without_names, {"WikidataId": "Q3"}])) == [
        Mention("Q1", "The Queen", 0),
        Mention("Q1", "Queen", 31),
        Mention("Q2", "Bath", 7),
        Mention("Q2", "Bath Spa"),
        Mention("Q3", "", 7),
        Mention("Q3", ""),
    ]
    for empty in (None, "", "  ", "[]"):
        assert parse_mentions("N1", empty) == []


@pytest.mark.parametrize(
    "text",
    [
        *['[{"WikidataId": "Q1"', "Q1", "3", '["Q1"]', '[{"Label": "a"}]', '[{"WikidataId": 7}]', '{"a": 1}', "[[]]"],
        *['[{"WikidataId": "Q1", "SurfaceForms": "a"}]', '[{"WikidataId": "Q1", "SurfaceForms": [1]}]'],
        '[{"WikidataId": "Q1", "SurfaceForms": ["a"], "OccurrenceOffsets": ["0"]}]',
        '[{"WikidataId": "Q1", "SurfaceForms": ["a"], "OccurrenceOffsets": 0.5}]',
    ],
)
def test_broken_json_is_reported_with_the_story(text: str) -> None:
    with pytest.raises(LogError) as raised:
        parse_mentions("N7", text)
    assert str(raised.value) == (
        f"news N7 has title_entities {text[:40]!r}, which is not a JSON list of entities with a WikidataId each, and "
        "SurfaceForms with OccurrenceOffsets; correct it, or leave data.entities at 0"
    )


def test_entities_first_shown_after_training_have_no_row(logs: Path, tmp_path: Path) -> None:
    dataset = prepare(logs, tmp_path / "data", TWO)
    assert list(dataset.arrays.strings("entities/id")) == ["", "Q10", "Q2", "Q3"]
    assert stored_entities(dataset) == [{}, {"q2": "Q2", "q10": "Q10"}, {}, {"q3": "Q3"}, {"q2": "Q2"}]
    assert dataset.arrays.array("news/word_entities").shape == dataset.news_words.shape
    assert "entities/vector" not in dataset.arrays


def test_entities_with_a_vector_in_a_file_have_a_row(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "own.vec").write_text("Q9\t1\t2\t\nQ77\t5\t6\t\nQ3\t-0.5\t4\t\n")
    dataset = prepare(logs, tmp_path / "data", TWO, entities=tmp_path / "own.vec")
    assert list(dataset.arrays.strings("entities/id")) == ["", "Q10", "Q2", "Q3", "Q9"]
    assert stored_entities(dataset)[4] == {"q9": "Q9", "q2": "Q2"}
    vectors = dataset.arrays.array("entities/vector")
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[0, 0], [0, 0], [0, 0], [-0.5, 4], [1, 2]]
    assert dataset.manifest["sources"][-1]["name"].endswith("/own.vec")


def test_vector_files_next_to_the_news_are_read_in_both_parts(tmp_path: Path) -> None:
    for part, days in {"train": (9, 10), "dev": (11,)}.items():
        lines = [MindLine(str(day), "U1", f"11/{day}/2019 {hour}:00:00 AM", "N1-1 N2-0")
                 for day in days for hour in (8,)]  # fmt: skip
        lines += [MindLine("x", "U2", "11/11/2019 9:00:00 AM", "N1-1 N2-0")] if part == "dev" else []
        stories = [f"N{row}\tnews\tlocal\t{TITLE}\t\t\t{as_json(f'Q{row}')}" for row in (1, 2)]
        write_mind(tmp_path / "logs" / part, lines, stories)
    (tmp_path / "logs" / "train" / "entity_embedding.vec").write_text("Q1\t1\t1\n")
    (tmp_path / "logs" / "dev" / "entity_embedding.vec").write_text("Q1\t9\t9\nQ2\t2\t2\n")
    dataset = prepare(tmp_path / "logs", tmp_path / "data", TWO)
    assert dataset.arrays.array("entities/vector").tolist() == [[0, 0], [1, 1], [2, 2]]
    assert [source["name"] for source in dataset.manifest["sources"]][-2:] == [
        "train/entity_embedding.vec",
        "dev/entity_embedding.vec",
    ]
    plain = prepare(tmp_path / "logs", tmp_path / "plain")
    assert not any("embedding" in source["name"] for source in plain.manifest["sources"])
    assert not any(name.startswith("entities/") for name in plain.arrays.checksums)


def test_context_vectors(logs: Path, tmp_path: Path) -> None:
    """Only entities with a row have a context; a context alone does not give an entity a row."""
    (tmp_path / "own.vec").write_text("Q9\t1\t2\n")
    (tmp_path / "context.vec").write_text("Q8\t7\t8\t9\nQ9\t1\t2\t3\nQ3\t4\t5\t6\n")
    dataset = prepare(logs, tmp_path / "data", TWO, entities=tmp_path / "own.vec", contexts=tmp_path / "context.vec")
    assert list(dataset.arrays.strings("entities/id")) == ["", "Q10", "Q2", "Q3", "Q9"]
    assert dataset.arrays.array("entities/context").tolist() == [[0] * 3, [0] * 3, [0] * 3, [4, 5, 6], [1, 2, 3]]
    assert [source["name"].rpartition("/")[2] for source in dataset.manifest["sources"]][-2:] == [
        "own.vec",
        "context.vec",
    ]
    (logs / "context_embedding.vec").write_text("Q2\t1\n")
    next_to_logs = prepare(logs, tmp_path / "next_to_logs", TWO)
    assert next_to_logs.arrays.array("entities/context").tolist() == [[0], [0], [1], [0]]
    assert "entities/vector" not in next_to_logs.arrays


def test_mentions_that_no_word_matches_are_left_out_and_counted(tmp_path: Path) -> None:
    entities = [
        {"WikidataId": "Q3", "SurfaceForms": ["Q3", "q7 Q8"], "OccurrenceOffsets": [2, 0]},  # both offsets are wrong
        {"WikidataId": "Q5", "SurfaceForms": ["Nowhere"], "OccurrenceOffsets": [0]},
        {"WikidataId": "Q6"},
    ]
    notes: list[str] = []
    logs = write_logs(tmp_path / "logs", N1=json.dumps(entities))
    dataset = prepare(logs, tmp_path / "data", TWO, progress=Lines(notes.append))
    assert stored_entities(dataset)[1] == {"q3": "Q3", "q7": "Q3", "q8": "Q3"}
    assert [dataset.statistics[f"entity_mentions{end}"] for end in ("", "_found")] == [4, 2]
    assert "mentions of entities found in the words of titles: 2 of 4" in notes
    assert dataset.statistics["entities"] == 1


def test_entities_beyond_the_words_kept_have_no_row(tmp_path: Path) -> None:
    logs = write_logs(tmp_path / "logs", N1=as_json("Q2", "Q4"), N3=as_json("Q12"))
    dataset = prepare(logs, tmp_path / "data", DataSettings(entities=2, words=5))
    assert stored_entities(dataset) == [{}, {"q2": "Q2"}, {}, {}, {}]  # news local on q1 q2
    with pytest.raises(LogError) as raised:
        prepare(logs, tmp_path / "none", DataSettings(entities=2, words=3))
    assert str(raised.value) == (
        "data.entities is 2, but no word of a title shown in training names one; leave it at 0"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "own.vec is missing; name an entity_embedding.vec, as MIND has it"),
        ("Q2\t1\t2\nQ3\n", "own.vec:2: 'Q3' is not an entity and its vector"),
        ("\n", "own.vec:1: '' is not an entity and its vector"),
        ("Q2\t1\t2\nQ7\t1\n", "own.vec:2: 'Q7' is followed by 1 numbers, others by 2"),
        ("Q7\tx\t2\nQ3\t1\tzwei\n", "own.vec:2: 'Q3' is not followed by 2 numbers"),
    ],
)
def test_bad_vector_files_are_refused(logs: Path, tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "own.vec").write_text(content)
    with pytest.raises(LogError) as raised:
        prepare(logs, tmp_path / "data", TWO, entities=tmp_path / "own.vec")
    assert str(raised.value) == f"{tmp_path}/{message}"


def test_log_without_entities_is_refused(tmp_path: Path) -> None:
    logs = write_logs(tmp_path / "logs", N2="", N3=" ")
    with pytest.raises(LogError) as raised:
        prepare(logs, tmp_path / "data", TWO)
    assert str(raised.value) == "data.entities is 2, but no title in these logs has an entity; leave it at 0"


def test_log_without_abstracts_is_refused(logs: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError) as raised:
        prepare(logs, tmp_path / "data", DataSettings(abstracts=9))
    assert str(raised.value) == "data.abstracts is 9, but no story in these logs has an abstract; leave it at 0"


@pytest.mark.parametrize(("option", "kind"), [("entities", "entity"), ("contexts", "context")])
def test_entity_file_without_the_setting_is_refused(logs: Path, tmp_path: Path, option: str, kind: str) -> None:
    with pytest.raises(SettingsError) as raised:
        prepare(logs, tmp_path / "data", **{option: Path("own.vec")})
    assert str(raised.value) == (
        f"own.vec has {kind} vectors, but data.entities is 0; set how many entities of each title to keep"
    )
    assert raised.value.hint == "for example --set data.entities=5"


@pytest.mark.parametrize("name", ["abstracts", "entities", "user_neighbours", "vector_size"])
def test_negative_settings_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is -1; it takes 0 or more$"):
        DataSettings(**{name: -1})


def test_entities_option_of_the_command(drpn, logs: Path, tmp_path: Path) -> None:
    (tmp_path / "own.vec").write_text("Q9 1 2\n")
    done = drpn("prepare", logs, "--out", "data", "--entities", "own.vec", "--set", "data.entities=2")
    assert done.returncode == 0, done.stderr
    assert stored_entities(Dataset.open(tmp_path / "data"))[4] == {"q9": "Q9", "q2": "Q2"}
    refused = drpn("prepare", logs, "--out", "other", "--entities", "own.vec")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("drpn: own.vec has entity vectors, but data.entities is 0; ")
    assert not (tmp_path / "other").exists()
