"""The options of `drpn recommend`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from drpn.bundle.recommender import Recommender
from drpn.preparation.settings import DataSettings
from drpn.recipes.prepare import prepare
from drpn.recipes.runs import Run
from small_training import refused, train_small
from writing import MindLine, write_mind

STORIES = [f"N{number}\tsports\tchess\tStory number {number}" for number in range(1, 9)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on three days of eight stories; N7 and N8 are first shown at 5:00 of the last day, which ends at 6:00."""
    lines = [
        MindLine("1", "U1", "11/9/2019 8:00:00 AM", "N1-1 N2-0 N3-0"),
        MindLine("2", "U2", "11/9/2019 9:00:00 AM", "N2-1 N3-0 N1-0"),
        MindLine("3", "U1", "11/10/2019 8:00:00 AM", "N3-1 N4-0 N5-0"),
        MindLine("4", "U2", "11/10/2019 9:00:00 AM", "N4-1 N5-0 N6-0"),
        MindLine("7", "U2", "11/11/2019 1:00:00 AM", "N1-0 N4-1"),
        MindLine("5", "U2", "11/11/2019 5:00:00 AM", "N1-0 N4-1 N7-0 N8-0"),
        MindLine("6", "U1", "11/11/2019 6:00:00 AM", "N2-0 N5-1 N6-0 N7-0"),
    ]
    folder = tmp_path_factory.mktemp("recommend")
    prepare(write_mind(folder / "logs", lines, STORIES), folder / "data")
    return train_small(folder / "data", folder / "run", epochs=1)


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drpn.bundle.recommender.pick_device", lambda: torch.device("cpu"))


def document(drpn, *arguments: object) -> Any:
    """The JSON document of a command that succeeds."""
    done = drpn("recommend", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ids(ranking: dict[str, Any]) -> list[str]:
    return [row["news_id"] for row in ranking["rows"]]


def test_json_of_one_user(drpn, run: Path) -> None:
    ranking = document(drpn, run, "--user", "U1", "--top", 2)
    assert list(ranking) == ["user_id", "known", "rows"]
    assert (ranking["user_id"], ranking["known"]) == ("U1", True)
    keys = ["rank", "news_id", "title", "score", "reason", "plain_rank"]
    assert [list(row) for row in ranking["rows"]] == [keys] * 2
    assert [(row["reason"], row["plain_rank"]) for row in ranking["rows"]] == [("ranked", 1), ("ranked", 2)]
    expected = Recommender(Run.open(run).bundle()).recommend("U1", top=2)
    assert [(row["news_id"], row["title"]) for row in ranking["rows"]] == [
        (row.news_id, row.title) for row in expected.rows
    ]
    assert [row["score"] for row in ranking["rows"]] == pytest.approx([row.score for row in expected.rows], abs=1e-5)


def test_json_of_many_users(drpn, run: Path) -> None:
    many = document(drpn, run, "--user", "U2", "--user", "nobody", "--user", "U1")
    assert list(many) == ["rankings"]
    assert [ranking["user_id"] for ranking in many["rankings"]] == ["U2", "nobody", "U1"]
    assert [ranking["known"] for ranking in many["rankings"]] == [True, False, True]
    for ranking in many["rankings"]:
        assert ids(ranking) == ids(document(drpn, run, "--user", ranking["user_id"]))


def test_tables_of_many_users(drpn, run: Path) -> None:
    done = drpn("recommend", run, "--user", "U1", "--user", "nobody", "--top", 1)
    assert done.returncode == 0
    assert done.stdout.count("Story number") == 2
    assert done.stderr == "drpn: user nobody has no profile; this is the ranking for a new user\n"


def test_history(drpn, run: Path) -> None:
    arguments = ("--clicked", "N1", "--clicked", "N5", "--skipped", "N2")
    ranking = document(drpn, run, *arguments)
    assert (ranking["user_id"], ranking["known"]) == ("", True)
    assert not {"N1", "N5", "N2"} & set(ids(ranking))
    named = document(drpn, run, "--user", "U1", *arguments)
    assert named["user_id"] == "U1"
    assert named["rows"] == ranking["rows"]
    assert ids(document(drpn, run, "--skipped", "N8"))[0] != "N8"


def test_a_ranking_without_stories_says_so(drpn, run: Path) -> None:
    done = drpn("recommend", run, "--user", "U1", "--candidate", "N1", "--exclude", "N1")
    assert done.returncode == 0
    assert done.stderr.startswith("drpn: no story is left to rank")


def test_unknown_stories_of_a_history_are_reported(drpn, run: Path) -> None:
    done = drpn("recommend", run, "--clicked", "N1", "--clicked", "X", "--json")
    assert done.stderr == "drpn: stories of the history that are not in the catalogue are left out: X\n"
    done = drpn("recommend", run, "--clicked", "X")
    assert done.returncode == 0
    assert done.stderr.endswith("drpn: the history holds no known story; this is the ranking for a new user\n")


def test_candidates(drpn, run: Path) -> None:
    ranking = document(drpn, run, "--user", "U1", "--candidate", "N8", "--candidate", "N1", "--candidate", "N8")
    assert sorted(ids(ranking)) == ["N1", "N8"]
    message = refused(drpn, "recommend", run, "--user", "U1", "--candidate", "N9")
    assert message == "story 'N9' is not in the catalogue; add it first, or leave it out"


def test_candidates_and_new_titles_are_ranked_together(drpn, run: Path) -> None:
    ranking = document(drpn, run, "--user", "U1", "--candidate", "N8", "--title", "Story number nine")
    assert sorted(ids(ranking)) == ["N8", "new"]


def test_exclude(drpn, run: Path) -> None:
    everything = ids(document(drpn, run, "--user", "nobody"))
    rest = ids(document(drpn, run, "--user", "nobody", "--exclude", everything[0], "--exclude", "X"))
    assert rest == everything[1:]


def test_max_age(drpn, run: Path) -> None:
    """N7 and N8 are first shown an hour before the end of the log."""
    everything = ids(document(drpn, run, "--user", "nobody"))
    assert {"N1", "N7", "N8"} < set(everything)
    recent = ids(document(drpn, run, "--user", "nobody", "--max-age", 1))
    assert sorted(recent) == ["N7", "N8"]
    assert ids(document(drpn, run, "--user", "nobody", "--max-age", 0.5)) == []
    assert ids(document(drpn, run, "--user", "nobody", "--max-age", 48)) == everything
    assert drpn("recommend", run, "--user", "nobody", "--max-age", -1).returncode == 2


def test_nobody_to_rank_for(drpn, run: Path) -> None:
    message = "there is nobody to rank for; name a --user, or give a history with --clicked and --skipped"
    assert refused(drpn, "recommend", run) == message
    assert refused(drpn, "recommend", run, "--title", "Rain") == message


def test_a_history_with_two_users_is_refused(drpn, run: Path) -> None:
    message = refused(drpn, "recommend", run, "--user", "U1", "--user", "U2", "--clicked", "N1")
    assert message == "--clicked and --skipped are the history of one user; name one --user, or none"


def test_an_empty_story_id_is_refused(drpn, run: Path) -> None:
    message = refused(drpn, "recommend", run, "--clicked", "")
    assert message.startswith("the history cannot be used: news_id is ''; it takes the id of a story")


def test_diversity_and_fresh_stories(drpn, run: Path) -> None:
    """N7 and N8 are the newest; of ten places, one is for the freshest story."""
    options = ("--user", "nobody", "--diversity", 0.5, "--diversity-method", "calibrated")
    mixed = document(drpn, run, *options, "--fresh", 0.5, "--popular", 0.2, "--top", 5)
    recommender = Recommender(Run.open(run).bundle())
    expected = recommender.recommend(
        "nobody", diversity=0.5, diversity_method="calibrated", fresh=0.5, popular=0.2, top=5
    )
    assert [(row["news_id"], row["reason"], row["plain_rank"]) for row in mixed["rows"]] == [
        (row.news_id, row.reason, row.plain_rank) for row in expected.rows
    ]
    assert {row["news_id"] for row in mixed["rows"] if row["reason"] == "fresh"} >= {"N7", "N8"}
    shown = drpn("recommend", run, *options, "--fresh", 0.5, "--top", 4).stdout
    assert "reason" in shown
    assert "fresh" in shown
    assert "reason" not in drpn("recommend", run, "--user", "nobody").stdout


def test_wrong_shares(drpn, run: Path) -> None:
    for options in (("--diversity", 1.5), ("--fresh", -0.1), ("--popular", 2), ("--diversity-method", "greedy")):
        done = drpn("recommend", run, "--user", "U1", *options)
        assert done.returncode == 2
        assert options[0] in done.stderr
    message = refused(drpn, "recommend", run, "--user", "U1", "--fresh", 0.6, "--popular", 0.6)
    assert message == "fresh is 0.6 and popular 0.6; together they take at most 1"


def test_page_and_about(drpn, tmp_path: Path) -> None:
    """A model that reads counts ranks by the page and by what is known of the user."""
    random = np.random.default_rng(1)
    lines = ["impression_id,user_id,time,device,page,news_id,clicked"]
    for day in range(1, 7):
        for hour in range(1, 9):
            user, device, page = random.integers(4), random.choice(["phone", "desktop"]), random.integers(1, 9)
            facts = f"{day}-{hour},U{user},2026-01-0{day}T0{hour}:00:00,{device},N{page}"
            shown = random.choice(np.arange(1, 9), 4, replace=False)
            lines += [f"{facts},N{story},{int(place < 1)}" for place, story in enumerate(shown)]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "impressions.csv").write_text("\n".join(lines) + "\n")
    stories = "".join(f"N{number},Story number {number}\n" for number in range(1, 9))
    (tmp_path / "logs" / "news.csv").write_text("news_id,title\n" + stories)
    prepare(tmp_path / "logs", tmp_path / "data", DataSettings(protocol="live", vector_size=4))
    run = train_small(tmp_path / "data", tmp_path / "run", "drpn-live", epochs=1)
    candidates = [word for number in range(1, 9) for word in ("--candidate", f"N{number}")]
    request = (run, "--user", "U1", *candidates)
    asked = document(drpn, *request, "--page", "N2", "--about", "device=phone")
    recommender = Recommender(Run.open(run).bundle())
    options: dict[str, Any] = {"candidates": [f"N{number}" for number in range(1, 9)], "page": "N2"}
    expected = recommender.recommend("U1", about={"device": "phone"}, **options)
    assert ids(asked) == [row.news_id for row in expected.rows]
    assert [row["score"] for row in asked["rows"]] == pytest.approx([row.score for row in expected.rows], abs=1e-5)
    for others in (("--page", "N3", "--about", "device=phone"), ("--page", "N2", "--about", "device=desktop")):
        scores = sorted(row["score"] for row in document(drpn, *request, *others)["rows"])
        assert scores != pytest.approx(sorted(row["score"] for row in asked["rows"]), abs=1e-6)
    assert drpn("recommend", *request, "--about", "device=fridge").stderr.startswith("drpn: no reader of the log has")
    for wrong in ("device", "=phone", "device="):
        message = f"--about is '{wrong}'; it takes NAME=VALUE, such as device=phone"
        assert refused(drpn, "recommend", *request, "--about", wrong) == message


def test_a_model_without_counts_says_that_it_ignores_the_page(drpn, run: Path) -> None:
    done = drpn("recommend", run, "--user", "U1", "--page", "N1")
    assert done.stderr == "drpn: this model reads no counts, so it ignores page\n"
