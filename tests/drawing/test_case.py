"""The case-study figure, its table, and the recipe that draws it from a run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from drpn.batches.tables import Tables
from drpn.bundle.files import Bundle
from drpn.cli.case import print_case
from drpn.dataset.folder import Dataset
from drpn.drawing.case import draw_case, excerpt, shade
from drpn.drawing.pictures import fitted, new_figure
from drpn.errors import ExplainError, OutputError
from drpn.explanation.trace import Trace, trace
from drpn.models.drpn import ABLATIONS, Drpn
from drpn.recipes.explain import choose_user, explain, last_shown

Build = Callable[[str], Drpn]


def trace_chosen_user(model: Drpn, tables: Tables, dataset: Dataset) -> Trace:
    user = choose_user(dataset)
    return trace(model, tables, dataset, user, *last_shown(dataset, user))


@pytest.mark.parametrize("name", ["drpn", *ABLATIONS])
def test_every_variant_can_be_drawn(name: str, build: Build, tables: Tables, newsroom: Dataset, tmp_path: Path) -> None:
    draw_case(trace_chosen_user(build(name), tables, newsroom), tmp_path / "case.png", model=name.upper())
    pixels = matplotlib.image.imread(tmp_path / "case.png")[..., :3]
    height, width = pixels.shape[:2]
    assert width == 1430
    assert height > 600
    assert all(quarter.std() > 0.05 for half in np.array_split(pixels, 2) for quarter in np.array_split(half, 2, 1))


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_trace_gives_the_same_bytes(
    suffix: str, build: Build, tables: Tables, newsroom: Dataset, tmp_path: Path
) -> None:
    result = trace_chosen_user(build("drpn"), tables, newsroom)
    files = [tmp_path / f"{name}{suffix}" for name in ("first", "second")]
    for file in files:
        draw_case(result, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == files  # and no temporary file remains


def test_an_empty_profile_and_odd_titles_can_be_drawn(
    build: Build, tables: Tables, newsroom: Dataset, tmp_path: Path
) -> None:
    empty = trace(build("drpn"), tables, newsroom, 0, [])
    draw_case(empty, tmp_path / "empty.png")
    result = trace_chosen_user(build("drpn"), tables, newsroom)
    odd = tuple(replace(story, title="$5 or $$10 [b]", topic="W" * 60) for story in result.clicked)
    draw_case(replace(result, clicked=odd), tmp_path / "odd.svg")
    assert "<!-- $5 or $$10 [b] -->" in (tmp_path / "odd.svg").read_text(encoding="utf-8")


def test_long_lists_are_shortened_in_the_middle() -> None:
    assert excerpt(range(10, 19), best=6, worst=3) == [*range(10, 19)]
    assert excerpt("abcdefgh", best=2, worst=2) == ["a", "b", 4, "g", "h"]
    with_e = excerpt("abcdefgh", best=2, worst=2, always=lambda letter: letter == "e")
    assert with_e == ["a", "b", 2, "e", "f", "g", "h"]
    assert excerpt("", best=2, worst=2) == []


def test_a_larger_weight_is_darker_and_an_equal_share_is_in_the_middle() -> None:
    brightness = [sum(shade(weight, 10)) for weight in (0.0, 0.05, 0.08, 0.1, 0.15, 0.2, 1.0)]
    assert brightness == sorted(brightness, reverse=True)
    assert brightness[0] == brightness[1]
    assert brightness[-1] == pytest.approx(brightness[-2])
    assert brightness[3] == pytest.approx((brightness[0] + brightness[-1]) / 2)


def test_text_is_shortened_between_words() -> None:
    ax = new_figure(10, 1).add_axes((0, 0, 1, 1))
    assert fitted(ax, "short", 0.5, 9) == "short"
    cut = fitted(ax, "many words that do not fit", 0.1, 9)
    assert cut.endswith(" …")
    assert "many words that do not fit".startswith(cut.removesuffix(" …"))
    assert fitted(ax, "W" * 50, 0.1, 9).strip("W") == "…"


def test_the_table_shows_the_same_as_the_picture(
    build: Build, tables: Tables, newsroom: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    result = trace_chosen_user(build("drpn"), tables, newsroom)
    best = result.by_trust("clicked")[0]
    marked = replace(best, title="[red]x")
    print_case(replace(result, clicked=tuple(marked if story is best else story for story in result.clicked)))
    out = capsys.readouterr().out
    lines = out.splitlines()
    first = next(line for line in lines if "[red]x" in line)
    assert first.split()[0] == f"{result.trust(best):.3f}"
    assert best.cause in first
    assert f"clicked {len(result.clicked)}" in out
    assert out.count("✓") == sum(bool(candidate.clicked) for candidate in result.candidates)
    print_case(trace_chosen_user(build("drpn-n"), tables, newsroom))
    assert "which this model does not read" in capsys.readouterr().out


def test_the_chosen_user_has_the_median_number_of_clicks(newsroom: Dataset) -> None:
    test = newsroom.impressions("test")
    long = {int(user) for user, size in zip(test.users, np.diff(test.offsets), strict=True) if size >= 5}
    clicks = {user: int((newsroom.clicked[user] != 0).sum()) for user in sorted(long)}
    enough = {user: count for user, count in clicks.items() if count >= 5 and (newsroom.skipped[user] != 0).sum() >= 10}
    median = sorted(enough.values())[(len(enough) - 1) // 2]
    assert choose_user(newsroom) == min(user for user, count in enough.items() if count == median)


def test_a_run_is_explained_with_the_last_impression_of_the_user(
    run_path: Path, newsroom: Dataset, tmp_path: Path
) -> None:
    user = choose_user(newsroom)
    result = explain(run_path, newsroom.user_ids[user], tmp_path / "new" / "case.png")
    test = newsroom.impressions("test")
    last = max(place for place in range(len(test)) if test.users[place] == user)
    shown = test.candidates[test.offsets[last] : test.offsets[last + 1]]
    assert [candidate.news_id for candidate in result.candidates] == [newsroom.news_ids[row] for row in shown]
    assert [candidate.clicked for candidate in result.candidates] == test.clicked[
        test.offsets[last] : test.offsets[last + 1]
    ].tolist()
    assert (tmp_path / "new" / "case.png").stat().st_size > 10_000


def test_a_user_without_impressions_gets_the_most_clicked_stories_of_the_last_day(
    run_path: Path, newsroom: Dataset
) -> None:
    shown = {int(user) for split in ("train", "validation", "test") for user in newsroom.impressions(split).users}
    user = next(row for row in range(1, len(newsroom.user_ids)) if row not in shown)
    assert last_shown(newsroom, user) is None
    result = explain(run_path, newsroom.user_ids[user])
    assert len(result.candidates) == 20
    assert all(candidate.clicked is None for candidate in result.candidates)
    recent = Bundle.open(run_path / "bundle").data.arrays.array("news/recent")
    clicks = newsroom.arrays.array("news/times_clicked")
    profile = {*newsroom.clicked[user].tolist(), *newsroom.skipped[user].tolist()}
    eligible = sorted((int(clicks[row]) for row in np.flatnonzero(recent) if row not in profile), reverse=True)
    rows = {name: row for row, name in enumerate(newsroom.news_ids)}
    assert [int(clicks[rows[candidate.news_id]]) for candidate in result.candidates] == eligible[:20]


def test_an_unknown_user_is_refused_with_an_example(run_path: Path, newsroom: Dataset) -> None:
    example = newsroom.user_ids[1]
    with pytest.raises(
        ExplainError, match=f"^user 'nobody' is not in .*; choose one of its users, such as '{example}'"
    ):
        explain(run_path, "nobody")
    with pytest.raises(ExplainError, match=r"^user '' is not in "):  # the padding row is not a user
        explain(run_path, "")


def test_an_unknown_picture_format_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"case\.bmp is neither PNG nor SVG; choose a name that ends in .png or .svg"):
        explain(tmp_path / "no run", "U1", tmp_path / "case.bmp")
