"""After training, the probabilities of denoising weights are right on planted feedback."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from drpn.batches.planted import click_odds, swap_clicks_and_skips
from drpn.ranks import Ranks
from drpn.training.batch_loss import BatchLoss
from drpn.training.calibrate import calibrate
from drpn.training.loop import Loop
from drpn.training.shared import SharedModel
from small_training import give_two_tastes, toy
from thread_ranks import together

PASSES = {"planted_passes": 60, "planted": 0, "rate": 3e-3, "planted_from": "skips", "planted_trains": "vectors"}


def losses_of(loop: Loop) -> BatchLoss:
    return BatchLoss(loop.model, loop.tables, loop.settings, clicks=False)


def fitted(loop: Loop) -> dict[str, tuple[float, float]]:
    """The slope and the offset of each calibration, by view and sequence."""
    return {
        f"{view} {sequence}": (float(one.slope), float(one.offset))
        for view, by_sequence in loop.model.calibrations().items()
        for sequence, one in by_sequence.items()
    }


def log_loss(probability: Tensor, real: Tensor) -> float:
    return float(-torch.where(real, probability, 1 - probability).log().mean())


def test_probabilities_are_right_on_stories_planted_afresh(tmp_path: Path) -> None:
    """Readers of two tastes. The profiles were trained on, the planted stories in them are drawn again."""
    loop = toy("drpn-planted", **PASSES)(tmp_path)
    give_two_tastes(loop.tables)
    loop.run(lambda _: 0.5, resume=False)
    torch.manual_seed(7)
    profiles = loop.tables.profiles(torch.arange(1, 30).repeat(20))
    planted = swap_clicks_and_skips(profiles, click_odds(loop.tables), share=0.2, skips=3)
    with torch.no_grad():
        trust = loop.model.trust(loop.model.encode_news(loop.tables.news), planted.profiles)
    for view, by_sequence in loop.model.calibrations().items():
        for sequence, calibration in by_sequence.items():
            noise, real = planted.pairs[sequence]
            known = noise | real
            probability = calibration.log_probability(trust[view][sequence])[known].exp()
            share = real[known].float().mean()
            assert probability.mean().item() == pytest.approx(share.item(), abs=0.06), (view, sequence)
            uninformed = log_loss(share.expand(len(probability)), real[known])
            assert log_loss(probability, real[known]) < 0.8 * uninformed, (view, sequence)


def test_they_are_fitted_after_the_planted_passes_and_after_each_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = toy("drpn-planted", planted_passes=2, epochs=2)(tmp_path)
    seen, train = [], Loop._train

    def watched(self: Loop, *arguments: Any) -> None:
        seen.append(fitted(self))
        train(self, *arguments)

    monkeypatch.setattr(Loop, "_train", watched)
    loop.run(lambda _: len(seen) / 10, resume=False)  # the last epoch is the best
    first_pass, second_pass, first_epoch, second_epoch = seen
    assert set(first_pass.values()) == {(1.0, 0.0)}
    assert first_pass == second_pass != first_epoch != second_epoch
    last = fitted(loop)
    calibrate(losses_of(loop))
    assert fitted(loop) == last != second_epoch


def test_only_the_calibrations_change_and_no_random_numbers_are_drawn(tmp_path: Path) -> None:
    loop = toy("drpn-planted")(tmp_path)
    names = {name for name, _ in loop.model.named_buffers() if "calibration" in name}
    before = {name: value.clone() for name, value in loop.model.state_dict().items()}
    random = torch.get_rng_state()
    calibrate(losses_of(loop))
    assert torch.equal(torch.get_rng_state(), random)
    changed = {name for name, value in loop.model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == names
    assert len(names) == 8  # two numbers for two sequences of two views
    first = fitted(loop)
    torch.manual_seed(9)
    calibrate(losses_of(loop))
    assert fitted(loop) == first


@pytest.mark.parametrize(("name", "planted"), [("drpn", 0.3), ("drpn-planted", 0.0)])
def test_nothing_is_fitted_without_calibrations_or_planted_feedback(name: str, planted: float, tmp_path: Path) -> None:
    loop = toy(name, planted=planted, planted_passes=0)(tmp_path)
    before = {key: value.clone() for key, value in loop.model.state_dict().items()}
    calibrate(losses_of(loop))
    assert all(torch.equal(value, before[key]) for key, value in loop.model.state_dict().items())


def test_profiles_without_two_clicks_leave_the_calibrations(tmp_path: Path) -> None:
    loop = toy("drpn-planted")(tmp_path)
    loop.tables.clicked[:, 1:] = 0
    calibrate(losses_of(loop))
    assert set(fitted(loop).values()) == {(1.0, 0.0)}


def test_processes_take_the_numbers_of_the_first(tmp_path: Path) -> None:
    def work(ranks: Ranks) -> dict[str, tuple[float, float]]:
        loop = toy("drpn-planted")(tmp_path / str(ranks.rank))
        for by_sequence in loop.model.calibrations().values():
            for one in by_sequence.values():
                one.slope.fill_(2.0 + ranks.rank)
                one.offset.fill_(-1.0 - ranks.rank)
        SharedModel(loop.model, ranks).share_calibrations()
        return fitted(loop)

    for result in together(2, work):
        assert set(result.values()) == {(2.0, -1.0)}
