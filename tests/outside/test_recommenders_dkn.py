"""DKN against the model of `recommenders` with the same weights.

Its model reads padding, so titles and histories have none. Its filters do not reach over the ends of a title: with
filters of width 1 there is no difference, and with positive numbers the maximum is never at an end.
"""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from baseline_cases import close, randomised, rows_of
from batch_cases import make_batch
from drpn.models.base import DataShape
from drpn.models.baselines.dkn import CHANNELS, Dkn, DknSettings
from outside.official_modules import module_of

pytestmark = pytest.mark.filterwarnings("ignore")

NEWS, WORDS, ENTITIES, TITLE, HISTORY = 9, 14, 7, 5, 4
SIZE, ENTITY_SIZE, FILTERS, ATTENTION, HIDDEN = 6, 3, 4, 5, 8
CLICKED = torch.tensor([[1, 2, 3, 4], [5, 5, 8, 1], [7, 6, 2, 3]])
SHOWN = torch.tensor([[5, 6, 7], [2, 3, 4], [8, 1, 5]])


class Settings(SimpleNamespace):
    """The settings of their model, which asks for all of them, too."""

    def values(self) -> dict[str, Any]:
        return vars(self)


class Inputs:
    """Stands in for the reader of files: the inputs of the graph."""

    def __init__(self, _: Any, graph: Any) -> None:
        import tensorflow as tf

        with graph.as_default():
            place = tf.compat.v1.placeholder
            self.labels = place(tf.float32, [None, 1])
            self.candidate_news_index_batch = place(tf.int64, [SHOWN.numel(), TITLE])
            self.candidate_news_entity_index_batch = place(tf.int64, [SHOWN.numel(), TITLE])
            self.click_news_index_batch = place(tf.int64, [SHOWN.numel(), HISTORY, TITLE])
            self.click_news_entity_index_batch = place(tf.int64, [SHOWN.numel(), HISTORY, TITLE])


def official(model: Dkn, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Their model with the weights of ours."""
    module = module_of("deeprec.models.dkn", monkeypatch)
    for name, channel in model.knowledge.items():
        np.save(folder / f"{name}.npy", channel.vectors.table.numpy())
    np.save(folder / "words.npy", np.zeros((WORDS, SIZE)))
    theirs = module.DKN(
        Settings(
            wordEmb_file=str(folder / "words.npy"), entityEmb_file=str(folder / "entities.npy"),
            contextEmb_file=str(folder / "contexts.npy"), use_entity="entities" in model.knowledge,
            use_context="contexts" in model.knowledge, dim=SIZE, entity_dim=ENTITY_SIZE, entity_size=ENTITIES,
            doc_size=TITLE, history_size=HISTORY, filter_sizes=list(range(1, model.settings.window + 1)),
            num_filters=FILTERS, attention_layer_sizes=ATTENTION, attention_activation="relu", layer_sizes=[HIDDEN],
            activation=["sigmoid"], enable_BN=model.settings.normalisation, dropout=[0.0], init_method="uniform",
            init_value=0.1, method="regression", loss="square_loss", optimizer="adam", learning_rate=1e-3, embed_l1=0.0,
            embed_l2=0.0, layer_l1=0.0, layer_l2=0.0, cross_l1=0.0, cross_l2=0.0, epochs=1, is_clip_norm=0,
            max_grad_norm=1.0,
        ),
        Inputs,
    )  # fmt: skip
    with theirs.graph.as_default():
        import tensorflow as tf

        variables = {variable.name.removesuffix(":0"): variable for variable in tf.compat.v1.global_variables()}
        for name, weight in weights_of(model).items():
            variables[name].load(weight.detach().float().numpy(), theirs.sess)
    return theirs


def weights_of(model: Dkn) -> dict[str, Tensor]:
    """The weights by their names there; biases that are left out here are zero."""
    weights = {"embedding/word": model.words.table.weight}
    names = iter(["Variable", "Variable_1", "Variable_2", "Variable_3"])
    for channel in model.knowledge.values():
        for weight in (channel.transform.weight.T, channel.transform.bias):
            weights[f"embedding/{next(names)}"] = weight
    for width, layer in enumerate(model.title.convolutions, start=1):
        part = f"DKN/attention_net/kcnn/conv-maxpool-{width}"
        weights[f"{part}/W_filter_size_{width}"] = layer.filters.weight.view(FILTERS, width, -1, 1).permute(1, 2, 3, 0)
        weights[f"{part}/b_filter_size_{width}"] = layer.filters.bias
    for net, part, hidden, bias, out in (
        (model.attention, "attention_net", "attention_hidden_w", "attention_hidden_b", "attention_output"),
        (model.prediction, "nn_part", "w_nn_layer0", "b_nn_layer0", "nn_output"),
    ):
        both = torch.cat([net.clicked.weight, net.candidate.weight], dim=1).T
        weights[f"DKN/{part}/{hidden}"] = both
        weights[f"DKN/{part}/{bias}"] = torch.zeros_like(net.shift) if model.settings.normalisation else net.shift
        weight, constant = (f"{out}_w", f"{out}_b") if part == "attention_net" else (f"w_{out}", f"b_{out}")
        weights |= {f"DKN/{part}/{weight}": net.out.weight.T, f"DKN/{part}/{constant}": torch.zeros(1)}
        if model.settings.normalisation:
            own = {"gamma": net.scale, "beta": net.shift, "moving_mean": net.mean, "moving_variance": net.variance}
            weights |= {f"DKN/{part}/batch_normalization/{name}": value for name, value in own.items()}
    return weights


def case(channels: Any, window: int, *, normalisation: bool = True) -> Dkn:
    """Random weights; with filters of several widths, numbers that make windows over an end smaller than others."""
    drawn = np.random.default_rng(5).uniform(-1 if window == 1 else 0, 1, (2, ENTITIES, ENTITY_SIZE)).astype(np.float32)
    drawn[:, 0] = 0
    shape = DataShape(NEWS, WORDS, 3, 4, 5, entities=ENTITIES, entity_vectors=drawn[0], context_vectors=drawn[1])
    settings = DknSettings(
        size=SIZE, filters=FILTERS, window=window, attention=ATTENTION, hidden=HIDDEN, channels=channels,
        normalisation=normalisation,
    )  # fmt: skip
    random = torch.Generator().manual_seed(5)
    model = randomised(Dkn(settings, shape), random)
    with torch.no_grad():
        if window > 1:
            narrow = [model.words.table.weight, *(layer.filters.weight for layer in model.title.convolutions)]
            for weight in narrow:
                weight.uniform_(0.95, 1.05, generator=random)
            for layer in model.title.convolutions:
                layer.filters.bias.fill_(-0.9 * layer.filters.in_features)
            for channel in model.knowledge.values():
                channel.transform.weight.uniform_(0, 1, generator=random)
                channel.transform.bias.fill_(2)
        if normalisation:
            for net in (model.attention, model.prediction):
                net.mean.normal_(generator=random)
                net.variance.uniform_(0.5, 2, generator=random)
    return model


@pytest.mark.parametrize(
    ("channels", "window", "normalisation"),
    [*((channels, 1, True) for channels in CHANNELS), ("contexts", 1, False), ("contexts", 3, True)],
)
def test_dkn(channels: str, window: int, normalisation: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In evaluation, and in training with the statistics of the batch."""
    model = case(channels, window, normalisation=normalisation)
    theirs = official(model, tmp_path, monkeypatch)
    random = torch.Generator().manual_seed(3)
    words = torch.randint(1, WORDS, (NEWS, TITLE), generator=random)
    entities = torch.randint(0, ENTITIES, (NEWS, TITLE), generator=random)
    words[0] = entities[0] = 0
    news = replace(rows_of([[]] * NEWS, entities=entities), words=words)
    shown, clicked = SHOWN.flatten(), CLICKED.repeat_interleave(SHOWN.shape[1], dim=0)
    given = {
        theirs.iterator.candidate_news_index_batch: words[shown],
        theirs.iterator.candidate_news_entity_index_batch: entities[shown],
        theirs.iterator.click_news_index_batch: words[clicked],
        theirs.iterator.click_news_entity_index_batch: entities[clicked],
    }
    for training in (False, True):
        expected = theirs.sess.run(theirs.logit, {**given, theirs.is_train_stage: training})
        model.train(training)
        batch = make_batch(torch.tensor([1, 2, 1]), CLICKED, CLICKED[:, :0], SHOWN)
        actual = model.score(model.encode_news(news), batch)
        close(actual, torch.from_numpy(expected).double().view_as(actual), rtol=1e-4, atol=1e-5)
        assert actual.std() > 1e-3
