"""Faults in layers that several models share, and in the losses."""

from mutations.planting import Fault, Group

ATTENTION, CONVOLUTION, NEWS = "layers/attention.py", "layers/convolution.py", "layers/news.py"
NORMALISATION, RECURRENT, LOSS = "layers/normalisation.py", "layers/recurrent.py", "training/loss.py"
OPTIMISER = "training/optimiser.py"

HEADS = [
    Fault(
        "queries and keys swapped",
        ATTENTION,
        "(self.query, self.key, self.value)",
        "(self.key, self.query, self.value)",
    ),
    Fault(
        "values in place of keys",
        ATTENTION,
        "(self.query, self.key, self.value)",
        "(self.query, self.value, self.value)",
    ),
    Fault("heads not joined", ATTENTION, "aligned_linear(read, self.join.weight) if", "read if"),
    Fault(
        "the output of heads in another order",
        ATTENTION,
        "read.transpose(1, 2).flatten(-2)",
        "read.transpose(1, 2).transpose(-1, -2).flatten(-2)",
    ),
    Fault("padding is read", ATTENTION, "attn_mask=allowed[:, None, None, :]", "attn_mask=None"),
    Fault(
        "another scale",
        ATTENTION,
        "attn_mask=allowed[:, None, None, :])",
        "attn_mask=allowed[:, None, None, :], scale=1.0)",
    ),
]

POOLING = [
    Fault(
        "no tanh",
        ATTENTION,
        "dot(torch.tanh(aligned_linear(items, self.hidden.weight, self.hidden.bias))",
        "dot((aligned_linear(items, self.hidden.weight, self.hidden.bias))",
    ),
    Fault("no bias", ATTENTION, "self.hidden.weight, self.hidden.bias)", "self.hidden.weight)"),
    Fault(
        "padding is read",
        ATTENTION,
        "weight = masked_softmax(logits, mask)\n    return Aggregated",
        "weight = torch.softmax(logits, dim=-1)\n    return Aggregated",
    ),
    Fault(
        "without a hidden layer: no tanh",
        ATTENTION,
        "torch.tanh(dot(items, self.gate.weight[0]) + self.gate.bias)",
        "dot(items, self.gate.weight[0]) + self.gate.bias",
    ),
    Fault(
        "without a hidden layer: no bias",
        ATTENTION,
        "torch.tanh(dot(items, self.gate.weight[0]) + self.gate.bias)",
        "torch.tanh(dot(items, self.gate.weight[0]))",
    ),
    Fault(
        "no logit of its own for each item",
        ATTENTION,
        "self.gate.weight[0])\n\n    def forward",
        "0 * self.gate.weight[0])\n\n    def forward",
    ),
]

WINDOWS = [
    Fault(
        "no dropout on words",
        CONVOLUTION,
        "self.convolution(self.dropout(words), mask)",
        "self.convolution(words, mask)",
    ),
    Fault(
        "no dropout after the filters",
        CONVOLUTION,
        "self.dropout(self.convolution(self.dropout(words), mask))",
        "self.convolution(self.dropout(words), mask)",
    ),
    Fault(
        "filters read padding",
        CONVOLUTION,
        "windows(words * mask.unsqueeze(-1), self.window)",
        "windows(words, self.window)",
    ),
    Fault(
        "filters without ReLU",
        CONVOLUTION,
        "torch.relu(aligned_linear(around, self.filters.weight, self.filters.bias))",
        "aligned_linear(around, self.filters.weight, self.filters.bias)",
    ),
    Fault("filters without bias", CONVOLUTION, "self.filters.weight, self.filters.bias)", "self.filters.weight)"),
    Fault(
        "the extra word of an even window in front",
        CONVOLUTION,
        "(size - 1) // 2, size // 2",
        "size // 2, (size - 1) // 2",
    ),
    Fault(
        "the words of a window in another order",
        CONVOLUTION,
        "for first in range(size)]",
        "for first in reversed(range(size))]",
    ),
    Fault(
        "padding counts as a word", CONVOLUTION, "self.aggregate(context, mask)", "self.aggregate(context, mask | True)"
    ),
    Fault(
        "zeros for a text without words", CONVOLUTION, "mask.any(-1), self.nothing)", "mask.any(-1), 0 * self.nothing)"
    ),
    Fault(
        "the maximum over padding",
        CONVOLUTION,
        "values.masked_fill(~mask.unsqueeze(-1), smallest).amax(1)",
        "values.amax(1)",
    ),
    Fault(
        "padding as zero in the maximum",
        CONVOLUTION,
        "values.masked_fill(~mask.unsqueeze(-1), smallest)",
        "values.masked_fill(~mask.unsqueeze(-1), 0)",
    ),
]

GATES = [
    Fault(
        "padding changes the state",
        RECURRENT,
        "torch.where(present.unsqueeze(-1), new + update * (state - new), state)",
        "new + update * (state - new)",
    ),
    Fault(
        "the update gate the other way round",
        RECURRENT,
        "new + update * (state - new)",
        "state + update * (new - state)",
    ),
    Fault("no reset gate", RECURRENT, "torch.sigmoid(reset + own_reset) * own_new", "own_new"),
    Fault(
        "reset and update gate swapped", RECURRENT, "reset, update, new = item.chunk", "update, reset, new = item.chunk"
    ),
    Fault("the update gate without sigmoid", RECURRENT, "torch.sigmoid(update + own_update)", "update + own_update"),
    Fault("no tanh", RECURRENT, "torch.tanh(new + torch", "(new + torch"),
    Fault("no bias of the state", RECURRENT, "self.state.weight, self.state.bias)", "self.state.weight)"),
    Fault("no bias of the items", RECURRENT, "[Weight.from_layer(self.items)]", "[Weight(self.items.weight)]"),
    Fault("the first state is not read", RECURRENT, "else first.to(wide)", "else 0 * first.to(wide)"),
    Fault(
        "items from the newest to the oldest",
        RECURRENT,
        "zip(projected.unbind(1), mask.unbind(1), strict=True)",
        "zip(projected.flip(1).unbind(1), mask.flip(1).unbind(1), strict=True)",
    ),
]

DROPPING = [
    Fault("kept values are not scaled up", NEWS, ".mul_(256 / (256 - dropped))", ""),
    Fault(
        "the kept share is dropped",
        NEWS,
        "[: input.numel()].view(input.shape) >= dropped",
        "[: input.numel()].view(input.shape) < dropped",
    ),
    Fault("dropout in evaluation", NEWS, "if not self.training or dropped in (0, 256)", "if dropped in (0, 256)"),
    Fault(
        "the same values are dropped at every step",
        NEWS,
        "dtype=torch.int64).random_(-(2**63), None)",
        "dtype=torch.int64).random_(-(2**63), None, generator=torch.Generator())",
    ),
]

UNKNOWN = [
    Fault("ids are never unknown in training", NEWS, "            if self.dropped:", "            if False:"),
    Fault("ids that training did not meet are known", NEWS, "known = known & self.met[news]", "known = known & True"),
    Fault("training meets nothing", NEWS, "self.met.index_fill_(0, news.flatten().long(), True)", "pass"),
    Fault("everything counts as met when training starts", NEWS, "module.met.zero_()", "module.met.fill_(True)"),
    Fault("the share of known ids is unknown", NEWS, ">= self.dropped)", "< self.dropped)"),
    Fault("zeros for unknown ids", NEWS, "known, self.unknown)", "known, 0 * self.unknown)"),
    Fault("vectors that should start at zero do not", NEWS, "0.0 if zero else ID_SPREAD", "ID_SPREAD"),
    Fault("row 0 for unknown users", NEWS, "known = news != 0", "known = news >= 0"),
    Fault(
        "unknown ids among neighbours",
        NEWS,
        "return self.ids.of_neighbours(users)",
        "return self.ids(users)",
    ),
]

TITLES = [
    Fault("no dropout on words", NEWS, "title = self.dropout(self.words(words))", "title = self.words(words)"),
    Fault(
        "no dropout after the self-attention",
        NEWS,
        "self.dropout(self.attention(projected, mask))",
        "self.attention(projected, mask)",
    ),
    Fault(
        "the self-attention reads words before dropout",
        NEWS,
        "self.attention.project(title)",
        "self.attention.project(self.words(words))",
    ),
    Fault("zeros for a title without words", NEWS, "mask.any(-1), self.untitled)", "mask.any(-1), 0 * self.untitled)"),
    Fault("titles in the order of their length", NEWS, "index_select(0, order.argsort())", "index_select(0, order)"),
    Fault("the longest title loses its last word", NEWS, "nonzero().amax()) + 1 if", "nonzero().amax()) if"),
]

MOMENTS = [
    Fault(
        "the mean over padding",
        NORMALISATION,
        "mean = torch.where(present, values, 0)",
        "mean = torch.where(present | True, values, 0)",
    ),
    Fault("the variance over padding", NORMALISATION, "torch.where(present, values - mean, 0)", "(values - mean)"),
    Fault(
        "divided by the number of rows with padding",
        NORMALISATION,
        "mask.sum().clamp(min=1)",
        "torch.tensor(mask.numel())",
    ),
    Fault(
        "the variance around zero",
        NORMALISATION,
        "torch.where(present, values - mean, 0)",
        "torch.where(present, values, 0)",
    ),
]

TRUNCATED = [
    Fault("samples with the smallest loss are dropped", LOSS, "mask), descending=True", "mask), descending=False"),
    Fault(
        "one sample too many is dropped",
        LOSS,
        "device=losses.device) >= dropped",
        "device=losses.device) >= dropped + (dropped > 0)",
    ),
    Fault("the mean over all samples", LOSS, "(losses * kept).sum() / kept.sum()", "(losses * kept).mean()"),
    Fault("the share keeps rising", LOSS, "min(step / steps, 1.0)", "(step / steps)"),
    Fault("the whole share from the first step", LOSS, "min(step / steps, 1.0)", "1.0"),
    Fault("rounded up", LOSS, "return int(rate", "return -int(-1 - rate"),
    Fault(
        "masked slots count",
        LOSS,
        "logits = scores.float().masked_fill(~mask, -torch.inf)",
        "logits = scores.float()",
    ),
    Fault(
        "log loss: clicks count as negatives",
        LOSS,
        "torch.cat([softplus(-logits[:, :1]), softplus(logits[:, 1:])], dim=1)",
        "softplus(logits)",
    ),
    Fault("log loss: masked slots count", LOSS, "(losses * mask).sum() / mask.sum()", "losses.mean()"),
    Fault(
        "log loss: the sum of a sample", LOSS, "(losses * mask).sum() / mask.sum()", "(losses * mask).sum() / len(mask)"
    ),
    Fault("the wrong candidate is the click", LOSS, "logits[:, 0]", "logits[:, 1]"),
    Fault("the sum over a batch", LOSS, "click_losses(scores, mask).mean()", "click_losses(scores, mask).sum()"),
]

RATES = [
    Fault(
        "the context view learns at the rate of views",
        OPTIMISER,
        "- {id(weight) for weight in model.context.parameters()}",
        "& {id(weight) for weight in model.context.parameters()}",
    ),
    Fault("a schedule forgets the rate of views", OPTIMISER, 'rate * group.get("share", 1.0)', "rate"),
    Fault("the rate of views is not a share", OPTIMISER, "share * settings.rate", "share"),
    Fault(
        "decay reaches the factor of views",
        OPTIMISER,
        """    if parameter.ndim == 0:
        return "scalars"
    if isinstance(module, nn.LayerNorm) or name in ("scale", "shift"):
        return "norms"
""",
        """    if isinstance(module, nn.LayerNorm) or name in ("scale", "shift"):
        return "norms"
    if parameter.ndim == 0:
        return "scalars"
""",
    ),
]

LOSS_TESTS = (
    "tests/training/test_loss.py",
    "-k",
    "loop or equal or masked or largest or ties or count or kept",
)

GROUPS = [
    Group("Multi-head attention", ("tests/layers/test_attention.py",), HEADS),
    Group("Additive attention", ("tests/models/test_naml.py", "tests/models/test_lstur.py"), POOLING),
    Group(
        "Convolution over words",
        ("tests/layers/test_convolution.py", "tests/models/test_lstur.py", "tests/models/test_dropout.py"),
        WINDOWS,
    ),
    Group("Recurrent network", ("tests/layers/test_recurrent.py",), GATES),
    Group("Dropout", ("tests/layers/test_dropout.py",), DROPPING),
    Group(
        "Unknown ids",
        (
            "tests/layers/test_id_vectors.py",
            "tests/layers/test_user_vectors.py",
            "tests/models/test_dropout.py",
            "tests/models/test_npa.py",
        ),
        UNKNOWN,
    ),
    Group(
        "Title encoder",
        ("tests/layers/test_news.py", "tests/models/test_drpn_against_loops.py", "tests/models/test_dropout.py"),
        TITLES,
    ),
    Group("Batch normalisation", ("tests/layers/test_linear.py",), MOMENTS),
    Group("Losses", LOSS_TESTS, TRUNCATED),
    Group("Learning rates and decay", ("tests/training/test_optimiser.py",), RATES),
]
