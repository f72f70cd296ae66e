"""Training with planted feedback: its loss, its gradients, passes over all profiles, and models that cannot have it."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from contract_cases import impressions, newsroom, trained
from drpn.batches.batch import Profiles
from drpn.batches.planted import (
    Pairs,
    Planted,
    click_odds,
    half_of_each,
    plant_clicks_of_others,
    swap_clicks_and_skips,
    swappable_profiles,
)
from drpn.batches.samples import Plan
from drpn.errors import SettingsError, TrainingError
from drpn.layers.news import IdVectors, forget_met
from drpn.models.base import ClickModel
from drpn.ranks import Ranks
from drpn.recipes.planted import check_planted, planted_note, planted_reads
from drpn.recipes.settings import load_settings, training_defaults
from drpn.training.batch_loss import BatchLoss, Samples
from drpn.training.calibrate import calibrate
from drpn.training.checkpoint import Checkpoints, TrainingState
from drpn.training.loop import CHECKPOINT, Loop
from drpn.training.loss import click_loss
from drpn.training.optimiser import build_optimiser
from drpn.training.planted import planted_from, planted_loss, ranking_loss, trained_part
from drpn.training.settings import PlantedPart, TrainingSettings
from drpn.training.shared import SharedModel
from drpn.training.steps import choose_stepper
from drpn.training.stopping import Stopped
from small_training import give_two_tastes, small, toy, train_small, weights
from thread_ranks import together

PLANT: dict[str, Callable[[Profiles], Planted]] = {
    "skips": lambda profiles: swap_clicks_and_skips(profiles, torch.ones(60), share=0.2, skips=3),
    "others": lambda profiles: plant_clicks_of_others(profiles, share=0.2, skips=3),
    "both": lambda profiles: half_of_each(PLANT["skips"](profiles), PLANT["others"](profiles)),
}
Gradients = dict[str, Tensor | None]
DENOISING = ["drpn", "drpn-planted", "drpn-g", "drpn-g-ids", "drpn-n", "drpn-p"]


def softplus(value: float) -> float:
    return math.log1p(math.exp(value))


def loss_by_loops(weight: Tensor, pairs: Pairs, counts: Tensor) -> float:
    """The weighted mean over all pairs of a batch, from the weights themselves."""
    terms = [
        (float(counts[reader]), softplus(math.log(weight[reader, noise]) - math.log(weight[reader, real])))
        for reader in range(len(weight))
        for noise in range(weight.shape[1])
        for real in range(weight.shape[1])
        if pairs.noise[reader, noise] and pairs.real[reader, real]
    ]
    return sum(count * term for count, term in terms) / sum(count for count, _ in terms)


def some_pairs(seed: int, rows: int = 6, slots: int = 5) -> Pairs:
    random = torch.Generator().manual_seed(seed)
    kinds = torch.randint(0, 3, (rows, slots), generator=random)
    return Pairs(kinds == 1, kinds == 2)


def test_ranking_loss_against_a_loop() -> None:
    random = torch.Generator().manual_seed(0)
    for seed in range(10):
        logits = 3 * torch.randn(6, 5, generator=random)
        pairs = some_pairs(seed)
        counts = torch.rand(6, generator=random) if seed % 2 else torch.ones(6)
        expected = loss_by_loops(torch.softmax(logits.double(), 1), pairs, counts)
        assert float(ranking_loss(logits, pairs, counts)) == pytest.approx(expected, rel=1e-5)
    none = torch.zeros(6, 5, dtype=torch.bool)
    assert float(ranking_loss(logits, Pairs(none, ~none), counts)) == 0.0


def test_planted_loss_sums_over_views_and_sequences() -> None:
    random = torch.Generator().manual_seed(1)
    profiles = impressions().profiles
    counts = torch.rand(6, generator=random)
    planted = Planted(profiles, {"clicked": some_pairs(1), "skipped": some_pairs(2, slots=4)}, counts)
    trust = {
        view: {"clicked": torch.randn(6, 5, generator=random), "skipped": torch.randn(6, 4, generator=random)}
        for view in ("semantic", "collaborative")
    }
    expected = sum(
        ranking_loss(trust[view][side], planted.pairs[side], counts) for view in trust for side in trust[view]
    )
    torch.testing.assert_close(planted_loss(trust, planted), expected)
    one_side = {view: {"clicked": by_side["clicked"]} for view, by_side in trust.items()}
    only = sum(ranking_loss(by_side["clicked"], planted.pairs["clicked"], counts) for by_side in one_side.values())
    torch.testing.assert_close(planted_loss(one_side, planted), only)


@pytest.mark.parametrize("name", DENOISING)
def test_the_weights_are_the_softmax_of_trust_or_shares_of_probabilities(name: str) -> None:
    model, profiles = trained(name), impressions().profiles
    encoded = model.encode_news(newsroom())
    trust, readers = model.trust(encoded, profiles), model.read(encoded, profiles)
    calibrations = model.calibrations()
    assert set(trust) == set(readers)
    assert bool(calibrations) == (name == "drpn-planted")
    for view, by_side in trust.items():
        assert set(by_side) == set(model.reads)
        for side, logits in by_side.items():
            mask = getattr(profiles, side) != 0
            expected = torch.softmax(logits.masked_fill(~mask, -1e300), 1) * mask
            if calibrations:
                real = calibrations[view][side].log_probability(logits).exp() * mask
                expected = real / real.sum(1, keepdim=True).clamp(min=1e-300)
            torch.testing.assert_close(readers[view].weights[f"{side} denoise"], expected)


@pytest.mark.parametrize("name", DENOISING)
@pytest.mark.parametrize("rule", ["skips", "others", "both"])
def test_gradients_reach_the_denoising_weights_and_the_vectors_of_stories(name: str, rule: str) -> None:
    random = torch.Generator().manual_seed(2)
    model, stories = trained(name), 1 + torch.stack([torch.randperm(22, generator=random) for _ in range(6)])
    profiles = Profiles(torch.arange(1, 7), stories[:, :4], stories[:, 4:10])
    planted = PLANT[rule](profiles)
    assert all(marks.any() for side in model.reads for marks in planted.pairs[side])
    trust = model.trust(model.encode_news(newsroom()), planted.profiles)
    planted_loss(trust, planted).backward()
    sizes = {key: 0.0 if one.grad is None else float(one.grad.abs().max()) for key, one in model.named_parameters()}
    for key, size in sizes.items():
        part, rest = key.split(".")[0], key.split(".")[1:]
        if part in ("semantic", "collaborative"):
            # a bias of all logits has no effect, and an empty profile has no pairs
            idle = ("out.bias", "denoise.nothing", "denoise.unopposed")
            assert (size > 1e-8) == ("denoise" in rest and not key.endswith(idle)), key
    for key in ("title.words.table.weight", *(["id.table.weight"] if "id.table.weight" in sizes else [])):
        assert sizes[key] > 1e-8


def step_gradients(name: str, *, clicks: bool, **training: object) -> tuple[Gradients, Gradients]:
    """The gradients of one step without dropout: of the denoising weights, and of all others."""
    loop = toy(name, **training)(Path())
    step = choose_stepper(loop.model.eval(), loop.tables, None, loop.settings, clicks=clicks)  # type: ignore[arg-type]
    news, batch = step.look_up(Samples(*next(iter(loop.sampler.plan(0).batches(16)))))
    torch.manual_seed(4)
    step.loss(news, batch, step.plant(news, batch)).backward()  # type: ignore[no-untyped-call]
    gradients = {key: one.grad for key, one in loop.model.named_parameters()}
    denoising = {key: gradient for key, gradient in gradients.items() if ".denoise." in key}
    return denoising, {key: gradient for key, gradient in gradients.items() if key not in denoising}


@pytest.mark.parametrize("name", DENOISING)
def test_only_if_chosen_does_planted_feedback_train_vectors(name: str) -> None:
    """Otherwise denoising weights have the same gradients, and all others those of the click loss."""
    denoising, others = step_gradients(name, clicks=True, planted=0.5, planted_trains="weights")
    same_denoising, with_vectors = step_gradients(name, clicks=True, planted=0.5, planted_trains="vectors")
    _, of_clicks = step_gradients(name, clicks=True)
    torch.testing.assert_close(denoising, same_denoising)
    torch.testing.assert_close(others, of_clicks)
    assert not torch.allclose(with_vectors["title.words.table.weight"], of_clicks["title.words.table.weight"])


@pytest.mark.parametrize("name", DENOISING)
def test_planted_passes_can_train_denoising_weights_alone(name: str) -> None:
    denoising, others = step_gradients(name, clicks=False, planted=0.5, planted_trains="weights")
    expected, with_vectors = step_gradients(name, clicks=False, planted=0.5, planted_trains="vectors")
    torch.testing.assert_close(denoising, expected)
    assert all(gradient is None for gradient in others.values())
    assert with_vectors["title.words.table.weight"] is not None


@pytest.mark.parametrize("clicks", [True, False])
def test_planted_feedback_can_train_the_evidence_of_labels_alone(clicks: bool) -> None:
    """The trust is this evidence alone, so that the planted loss gives all gradients but those of the click loss."""
    denoising, others = step_gradients("drpn-planted", clicks=clicks, planted=0.5, planted_trains="labels")
    evidence = {key: gradient for key, gradient in denoising.items() if ".evidence." in key}
    assert len(evidence) == 12  # two layers, one with a bias, for two sequences of two views
    assert sum(float(gradient.abs().sum()) for gradient in evidence.values() if gradient is not None) > 0
    if not clicks:
        assert all(gradient is None for gradient in others.values())
        assert all(gradient is None for key, gradient in denoising.items() if key not in evidence)
        return
    _, of_clicks = step_gradients("drpn-planted", clicks=True)
    torch.testing.assert_close(others, of_clicks)


def test_a_model_that_is_trained_again_has_its_similarities_back(tmp_path: Path) -> None:
    first = toy("drpn-planted", planted_trains="labels", planted_passes=0)(tmp_path)
    first.run(lambda _: 0.5, resume=False)
    (tmp_path / "again").mkdir()
    again = replace(first, settings=replace(first.settings, planted_trains="weights"), folder=tmp_path / "again")
    factors = [value for name, value in first.model.named_buffers() if name.endswith("similarity")]
    assert [float(value) for value in factors] == [0.0] * 4
    again.run(lambda _: 0.5, resume=False)
    assert [float(value) for value in factors] == [1.0] * 4


def test_with_labels_alone_similarities_are_left_out_of_the_trust(tmp_path: Path) -> None:
    loops = {trains: toy("drpn-planted", planted_trains=trains)(tmp_path / trains) for trains in ("labels", "weights")}
    for trains, loop in loops.items():
        loop.folder.mkdir()
        loop.run(lambda _: 0.5, resume=False)
        model = loop.model.eval()
        profiles = loop.tables.batch(torch.arange(1, 30), loop.tables.clicked[1:30]).of_all_stories().profiles
        encoded = model.encode_news(loop.tables.news)
        trust, of_labels = model.trust(encoded, profiles), model.label_trust(loop.tables.news, profiles)
        assert trust.keys() == of_labels.keys() == {"semantic", "collaborative"}
        for view, by_sequence in trust.items():
            for sequence, values in by_sequence.items():
                real = getattr(profiles, sequence) != 0
                same = torch.allclose(values[real], of_labels[view][sequence][real], atol=1e-6)
                assert same is (trains == "labels"), (view, sequence)


@pytest.mark.parametrize(
    ("name", "trains", "clicks", "expected"),
    [
        ("drpn-planted", "auto", 7, "labels"),
        ("drpn", "auto", 7, "weights"),
        ("drpn", "auto", 8, "vectors"),
        ("drpn-planted", "auto", 8, "vectors"),
        ("drpn", "weights", 50, "weights"),
        ("drpn-planted", "labels", 50, "labels"),
        ("drpn", "vectors", 0, "vectors"),
    ],
)
def test_what_is_trained_depends_on_the_length_of_profiles(name: str, trains: str, clicks: int, expected: str) -> None:
    loop = toy(name)(Path())
    tables = loop.tables
    clicked = torch.zeros(30, 50, dtype=torch.int32)
    clicked[1:20, :clicks] = 1
    clicked[20:, :1] = 1  # a single click is nothing to plant among
    tables = replace(tables, clicked=clicked)
    settings = load_settings(None, [f"training.planted_trains={trains}"], model=name).training
    assert trained_part(settings, tables, loop.model) == expected
    for column in (tables.news.category, tables.news.subcategory):
        column[:] = 1  # a log with one category
    if trains == "labels":
        with pytest.raises(TrainingError, match="the stories have fewer than two categories; choose weights or"):
            trained_part(settings, tables, loop.model)
    else:
        assert trained_part(settings, tables, loop.model) == ("weights" if expected == "labels" else expected)
    tables.news.subcategory[:5] = 2
    assert trained_part(settings, tables, loop.model) == expected


@pytest.mark.parametrize(
    ("name", "asked", "trains", "skips", "expected", "without_categories"),
    [
        ("drpn-planted", "auto", "labels", 4, "skips", None),
        ("drpn-planted", "auto", "labels", 3, "others", None),
        ("drpn-planted", "auto", "vectors", 30, "others", "skips"),
        ("drpn-planted", "auto", "weights", 30, "others", "skips"),
        ("drpn", "auto", "vectors", 4, "skips", "skips"),
        ("drpn", "auto", "vectors", 0, "others", "others"),
        ("drpn-p", "auto", "vectors", 0, "skips", "skips"),
        ("drpn-n", "auto", "vectors", 0, "others", "others"),
        ("drpn-planted", "skips", "vectors", 0, "skips", "skips"),
        ("drpn-planted", "both", "labels", 30, "both", None),
    ],
)
def test_where_planted_clicks_come_from(
    name: str, asked: str, trains: str, skips: int, expected: str, without_categories: str | None
) -> None:
    """Readers have 8 clicks; two of them trade places with skips, and two more skips are compared."""
    loop = toy(name)(Path())
    tables = replace(loop.tables, clicked=rows_of(8), skipped=rows_of(skips))
    choices = [f"training.planted_from={asked}", f"training.planted_trains={trains}"]
    settings = load_settings(None, choices, model=name).training
    assert planted_from(settings, tables, loop.model) == expected
    for column in (tables.news.category, tables.news.subcategory):
        column[:] = 1
    if without_categories is not None:  # labels alone cannot be trained there
        assert planted_from(settings, tables, loop.model) == without_categories


def rows_of(count: int) -> Tensor:
    """Sequences of 29 readers with this many stories, after user 0, who has none."""
    rows = torch.zeros(30, 50, dtype=torch.int32)
    rows[1:, :count] = 1
    return rows


def test_most_profiles_need_enough_skips_to_trade() -> None:
    """Not the mean: here few readers have nearly all the skips."""
    loop = toy("drpn-planted", planted_trains="labels")(Path())
    skipped = rows_of(0)
    for able, expected in ((13, "others"), (14, "skips")):
        skipped[1 : 1 + able, :40] = 1
        clicked = rows_of(8)
        clicked[29, 1:] = 0  # a single click does not count
        tables = replace(loop.tables, clicked=clicked, skipped=skipped)
        assert swappable_profiles(tables, share=0.2, skips=3) == able / 28
        assert planted_from(loop.settings, tables, loop.model) == expected
        note = planted_note(loop.settings, tables, loop.model)
        assert note.endswith(f" {100 * able / 28:.0f} % of them with enough skips to trade")
        assert {"others": "clicks of other readers", "skips": "skips of the same reader"}[expected] in note
    assert swappable_profiles(replace(loop.tables, clicked=rows_of(1)), share=0.2, skips=3) == 0
    validated = replace(loop.tables, clicked=rows_of(8), skipped=skipped, before_validation=15)
    assert swappable_profiles(validated, share=0.2, skips=0) == 1


def test_only_labels_alone_may_plant_unpopular_skips() -> None:
    """Vectors can learn which stories are popular, and would find planted clicks by it."""
    drawn = {}
    for trains in ("labels", "vectors"):
        loop = toy("drpn-planted", planted_from="skips", planted_trains=trains)(Path())
        odds = BatchLoss(loop.model, loop.tables, loop.settings)._odds
        assert odds is not None
        drawn[trains] = odds
        if trains == "vectors":
            assert torch.equal(odds, click_odds(loop.tables))
    assert torch.equal(drawn["labels"], torch.ones(len(drawn["vectors"])))
    assert len(drawn["vectors"].unique()) > 1


def own_stories(loop: Loop) -> None:
    """Give every reader of a toy two clicked stories that nobody else has, and no skips; start as a training does."""
    forget_met(loop.model)
    loop.tables.news.neighbours.zero_()
    loop.tables.clicked.zero_()
    loop.tables.skipped.zero_()
    loop.tables.clicked[1:, :2] = torch.arange(1, 59).view(29, 2)


def met_stories(model: ClickModel) -> list[int]:
    """The stories with an id vector of their own."""
    (vectors,) = (module for module in model.modules() if isinstance(module, IdVectors))
    stories: list[int] = vectors.met.nonzero().flatten().tolist()
    return stories


def toy_step(planted: float, model: str = "drpn", **training: object) -> tuple[Loop, Plan]:
    loop = toy(model, planted=planted, **training)(Path())
    return loop, loop.sampler.plan(0)


@pytest.mark.parametrize(
    ("name", "trains"), [("drpn", "vectors"), ("drpn-planted", "vectors"), ("drpn-planted", "labels")]
)
def test_the_loss_of_a_step_is_the_click_loss_plus_the_weighted_planted_loss(name: str, trains: str) -> None:
    loop, plan = toy_step(0.3, name, planted_trains=trains)
    step = choose_stepper(loop.model, loop.tables, None, loop.settings)  # type: ignore[arg-type]
    samples = Samples(*next(iter(plan.batches(16))))
    news, batch = step.look_up(samples)
    torch.manual_seed(4)
    planted = step.plant(news, batch)
    assert planted is not None
    encoded = loop.model.encode_news(news)
    clicks = click_loss(loop.model.score(encoded, batch), batch.candidate_mask)
    trust = loop.model.trust(encoded, planted.profiles)
    if trains == "labels":
        trust = loop.model.label_trust(news, planted.profiles)
    extra = planted_loss(trust, planted)
    torch.testing.assert_close(step.loss(news, batch, planted), clicks + 0.3 * extra)
    alone = choose_stepper(loop.model, loop.tables, None, loop.settings, clicks=False)  # type: ignore[arg-type]
    torch.testing.assert_close(alone.loss(news, batch, planted), extra)


def test_off_it_changes_nothing_and_draws_nothing() -> None:
    loop, plan = toy_step(0.0)
    step = choose_stepper(loop.model, loop.tables, None, loop.settings)  # type: ignore[arg-type]
    news, batch = step.look_up(Samples(*next(iter(plan.batches(16)))))
    before = torch.get_rng_state()
    assert step.plant(news, batch) is None
    expected = click_loss(loop.model.score(loop.model.encode_news(news), batch), batch.candidate_mask)
    assert torch.equal(step.loss(news, batch, step.plant(news, batch)), expected)
    assert torch.equal(torch.get_rng_state(), before)


def test_settings_without_effect_do_not_change_the_weights(data: Path, tmp_path: Path) -> None:
    plain = train_small(data, tmp_path / "plain")
    other = train_small(data, tmp_path / "other", planted_share=0.4, planted_skips=5)
    assert weights(plain) == weights(other)
    train_small(data, tmp_path / "plain", resume=True, planted_share=0.4)
    planted = train_small(data, tmp_path / "planted", planted=1.0)
    assert weights(planted) != weights(plain)
    with pytest.raises(Exception, match="planted_share"):
        train_small(data, tmp_path / "planted", resume=True, planted=1.0, planted_share=0.4)
    others = train_small(data, tmp_path / "others", planted=1.0, planted_from="others")
    assert weights(others) != weights(planted)


def test_planted_passes_learn_to_find_planted_stories(tmp_path: Path) -> None:
    """Without any click to predict: readers of two tastes, whose stories share no words and no neighbours."""
    loop = toy("drpn-planted", planted_passes=60, planted=0, planted_trains="vectors", rate=3e-3)(tmp_path)
    tables = loop.tables
    give_two_tastes(tables)

    def share_ranked_right() -> dict[str, float]:
        torch.manual_seed(0)
        profiles = tables.profiles(torch.arange(1, 30))
        planted = swap_clicks_and_skips(profiles, click_odds(tables), share=0.2, skips=3)  # type: ignore[arg-type]
        encoded = loop.model.encode_news(tables.news)
        shares = {}
        for view, by_side in loop.model.trust(encoded, planted.profiles).items():
            for side, logits in by_side.items():
                pairs = planted.pairs[side]
                both = pairs.noise[:, :, None] & pairs.real[:, None, :]
                shares[f"{view} {side}"] = float((logits[:, :, None] < logits[:, None, :])[both].float().mean())
        return shares

    before = share_ranked_right()
    seen = []
    loop.progress.note = seen.append  # type: ignore[method-assign]
    loop.run(lambda _: 0.5, resume=False)
    after = share_ranked_right()
    assert len([line for line in seen if "planted loss" in line]) == 60
    assert max(before.values()) < 0.8
    assert min(after.values()) > 0.8, after


@pytest.mark.parametrize(("name", "trains"), [("drpn", "auto"), ("drpn-planted", "labels")])
def test_planted_passes_can_be_stopped_and_resumed(
    name: str, trains: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = {"planted": 0.5, "planted_passes": 2, "epochs": 1, "name": name, "planted_trains": trains}
    whole = train_small(data, tmp_path / "whole", **chosen)
    similarities = [
        value for key, value in load_file(next(whole.rglob("model.safetensors"))).items() if "similarity" in key
    ]
    assert [float(value) for value in similarities] == [0.0] * (4 if trains == "labels" else 0)
    asked, stops = [], 30

    class StopSoon:
        def __enter__(self):  # type: ignore[no-untyped-def]
            def requested() -> bool:
                asked.append(1)
                return len(asked) in (3, 8)

            return requested

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("drpn.training.loop.defer_interrupts", StopSoon)
    places = []
    while stops := stops - 1:
        try:
            train_small(data, tmp_path / "stopped", resume=bool(places), **chosen)
            break
        except Stopped as stopped:
            places.append(str(stopped))
            assert (tmp_path / "stopped" / CHECKPOINT).exists()
    assert places[0] == "stopped in planted pass 1 at step 3"
    assert places[1].startswith("stopped in planted pass 2 at step")
    assert weights(tmp_path / "stopped") == weights(whole)


@pytest.mark.parametrize("trains", ["labels", "weights", "vectors"])
def test_stories_count_as_met_if_their_vectors_were_trained(trains: str, tmp_path: Path) -> None:
    """Stories 1 to 58 are in profiles, 59 is the only one of clicks."""
    loop = toy("drpn-planted", planted_passes=1, planted_trains=trains)(tmp_path)
    own_stories(loop)
    loop._planted_passes(build_optimiser(loop.model, loop.settings), TrainingState(), {}, Checkpoints(None))
    assert met_stories(loop.model) == (list(range(59)) if trains == "vectors" else [])  # 0 is that of padding


def test_processes_tell_each_other_which_stories_planted_passes_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before probabilities are fitted. Both have the same fit, each from half of the profiles of a pass."""
    loops = [toy("drpn-planted", planted_passes=1, planted_trains="vectors", batch=32)(tmp_path) for _ in range(2)]
    for loop in loops:
        own_stories(loop)
    monkeypatch.setattr("drpn.training.loop.defer_interrupts", lambda: nullcontext(lambda: False))
    met = dict[int, list[int]]()

    def watched(losses: BatchLoss) -> None:
        met[id(losses.model)] = met_stories(losses.model)
        calibrate(losses)
        if losses.model is loops[1].model:  # as if another machine had rounded in another way
            losses.model.calibrations()["semantic"]["clicked"].slope += 1.0

    monkeypatch.setattr("drpn.training.loop.calibrate", watched)

    def work(ranks: Ranks) -> float:
        loop = replace(loops[ranks.rank], ranks=ranks)
        loop._shared = SharedModel(loop.model, ranks)
        loop._planted_passes(build_optimiser(loop.model, loop.settings), TrainingState(), {}, Checkpoints(None))
        return float(loop.model.calibrations()["semantic"]["clicked"].slope)

    first, second = together(2, work)
    assert first == second
    assert list(met.values()) == [list(range(59))] * 2


def test_passes_without_a_profile_to_plant_in_are_refused(tmp_path: Path) -> None:
    loop = toy("drpn", planted_passes=1)(tmp_path)
    loop.tables.clicked[:, 1:] = 0
    with pytest.raises(TrainingError, match="no profile has two or more clicks"):
        loop.run(lambda _: 0.5, resume=False)


def test_checkpoints_of_older_versions_have_no_planted_passes() -> None:
    assert TrainingState(epoch=2).planted_passes == 0


@pytest.mark.parametrize(
    ("name", "setting"), [("drpn-d", "planted"), ("nrms", "planted_passes"), ("drpn-dg", "planted")]
)
def test_models_without_denoising_weights_are_refused(name: str, setting: str, data: Path, tmp_path: Path) -> None:
    expected = rf"training.{setting} is 2(.0)?, but {name} has no denoising weights.*choose from drpn, drpn-g,"
    with pytest.raises(SettingsError, match=expected):
        train_small(data, tmp_path / "run", name, **{setting: 2})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("part", ["auto", *get_args(PlantedPart)])
def test_every_part_can_be_chosen_in_settings(part: str) -> None:
    settings = load_settings(None, [f"training.planted_trains={part}"], model="drpn-planted")
    assert settings.training.planted_trains == part


def test_only_models_that_compare_labels_learn_from_them() -> None:
    labels = TrainingSettings(planted=1, planted_trains="labels")
    with pytest.raises(SettingsError, match="but drpn does not compare labels; choose weights or vectors"):
        check_planted("drpn", small("drpn"), labels)
    with pytest.raises(SettingsError, match="but drpn-planted does not compare labels"):
        check_planted("drpn-planted", replace(small("drpn-planted"), compare_labels=False), labels)
    check_planted("drpn-planted", small("drpn-planted"), labels)


def test_a_model_of_skips_alone_needs_planted_skips() -> None:
    with pytest.raises(SettingsError, match="drpn-p reads skipped stories alone"):
        check_planted("drpn-p", small("drpn-p"), TrainingSettings(planted=1, planted_skips=0))
    check_planted("drpn-p", small("drpn-p"), TrainingSettings(planted=1))
    check_planted("drpn-d", small("drpn-d"), training_defaults("drpn-d"))


def test_weights_that_planted_feedback_trains_need_it() -> None:
    check_planted("drpn-planted", small("drpn-planted"), training_defaults("drpn-planted"))
    with pytest.raises(SettingsError, match=r"training\.planted_passes are 0; set model\.weights=softmax"):
        check_planted("drpn-planted", small("drpn-planted"), TrainingSettings())
    check_planted("drpn-planted", replace(small("drpn-planted"), weights="softmax"), TrainingSettings())
    without_skips = TrainingSettings(planted=1, planted_skips=0)
    with pytest.raises(SettingsError, match=r"fitted to planted skips, but training\.planted_skips is 0"):
        check_planted("drpn-planted", small("drpn-planted"), without_skips)
    check_planted("drpn-planted", replace(small("drpn-planted"), skipped=False), without_skips)
    few, defaults = replace(small("drpn-planted"), max_skipped=3), training_defaults("drpn-planted")
    with pytest.raises(SettingsError, match=r"is 3, not below model\.max_skipped, 3; lower it, set training"):
        check_planted("drpn-planted", few, defaults)
    check_planted("drpn-planted", replace(few, max_skipped=4), defaults)
    check_planted("drpn-planted", few, replace(defaults, planted_from="skips"))
    expected = (
        r"training\.planted is 0\.3 and training\.planted_passes is 12, .* set both to 0 or choose from drpn, drpn-g"
    )
    with pytest.raises(SettingsError, match=expected):
        check_planted("drpn-planted", replace(small("drpn-planted"), denoise=False), training_defaults("drpn-planted"))


@pytest.mark.parametrize("name", ["drpn-n", "drpn-p"])
def test_variants_of_one_sequence_train(name: str, data: Path, tmp_path: Path) -> None:
    assert weights(train_small(data, tmp_path / "planted", name, planted=1.0, planted_passes=1)) != weights(
        train_small(data, tmp_path / "plain", name)
    )


def test_what_is_planted_in_one_sequence_comes_from_the_other() -> None:
    on, others, off = (
        TrainingSettings(planted=1),
        TrainingSettings(planted=1, planted_from="others"),
        TrainingSettings(),
    )
    assert planted_reads(("skipped",), on) == planted_reads(("clicked",), on) == ("clicked", "skipped")
    assert planted_reads(("skipped",), others) == ("clicked", "skipped")
    assert planted_reads(("clicked",), others) == ("clicked",)
    assert planted_reads(("skipped",), off) == ("skipped",)


@pytest.mark.parametrize(
    ("name", "value"),
    [("planted", -1), ("planted_passes", -1), ("planted_share", 0), ("planted_share", 1.0), ("planted_skips", 1)],
)
def test_settings_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        TrainingSettings(**{name: value})
