"""Faults in planted feedback: in its rules and in its loss."""

from mutations.planting import Fault, Group

RULES, LOSS, STEPS = "batches/planted.py", "training/planted.py", "training/batch_loss.py"

FAULTS = [
    Fault("all clicks of a profile are replaced", RULES, ".clamp(min=1).minimum(count - 1)", ".clamp(min=1)"),
    Fault("no click is replaced in a short profile", RULES, ".round().long().clamp(min=1)", ".round().long()"),
    Fault("clicks of the same reader are planted", RULES, "& ~known & ~same.unsqueeze(1)", "& ~known"),
    Fault("stories that the profile holds are planted", RULES, "& ~known & ~same", "& ~same"),
    Fault(
        "a missed interest stays among the clicks",
        RULES,
        "planted & (rank == 0), clicked, 0",
        "rank == 0, mixed, 0",
    ),
    Fault("skips drawn without their odds", RULES, "torch.log(odds[stories]) - torch.log", "-torch.log"),
    Fault(
        "skips drawn against their odds",
        RULES,
        "torch.log(odds[stories]) - torch.log",
        "-torch.log(odds[stories]) - torch.log",
    ),
    Fault(
        "profiles that all count as much",
        RULES,
        "(own_odds / mean.clamp(min=1e-6))",
        "torch.ones_like(own_odds)",
    ),
    Fault("odds of clicks among all feedback", RULES, "(clicks + 1) / (skips", "(clicks + 1) / (clicks + skips"),
    Fault(
        "passes that leave out users with two clicks",
        RULES,
        ".sum(1) >= _FEWEST_CLICKS",
        ".sum(1) > _FEWEST_CLICKS",
    ),
    Fault(
        "real feedback ranked below noise",
        LOSS,
        "logits.unsqueeze(2) - logits.unsqueeze(1)",
        "logits.unsqueeze(1) - logits.unsqueeze(2)",
    ),
    Fault(
        "pairs without the weight of their profile",
        LOSS,
        " * weight[:, None, None]",
        " * torch.ones_like(weight)[:, None, None]",
    ),
    Fault("the sum over all pairs", LOSS, " / both.sum().clamp(min=1e-6)", ""),
    Fault(
        "the weight of the planted loss left out",
        STEPS,
        "(self.settings.planted if self.clicks else 1.0) *",
        "1.0 *",
    ),
    Fault(
        "the click loss of the planted profile",
        STEPS,
        "self.model.score(encoded, batch)",
        "self.model.match(encoded, self.model.read(encoded, planted.profiles), batch.candidates, batch.context)",
    ),
]

FAST = "bundle/fast_reading.py"
LABELS, CALIBRATION, MODEL = "layers/labels.py", "layers/calibration.py", "models/drpn_planted.py"
LOOP, FIT = "training/loop.py", "training/calibrate.py"

FINDING = [
    Fault("a story shares labels with itself", LABELS, "(same.sum(2) - itself)", "same.sum(2)"),
    Fault("stories without labels share them", LABELS, " & known.unsqueeze(2)", ""),
    Fault("padding shares labels", LABELS, " & present.unsqueeze(1)", ""),
    Fault("labels are not compared", MODEL, "rows._replace(labels=labels_of(news))", "rows"),
    Fault("labels of the same sequence twice", LABELS, "own, other, itself=0", "own, own, itself=0"),
    Fault("a negative slope", CALIBRATION, "if a <= 0:", "if False:"),
    Fault(
        "targets of 0 and 1",
        CALIBRATION,
        "torch.where(real, (true + 1) / (true + 2), 1 / (false + 2))",
        "real.double()",
    ),
    Fault(
        "all stories count as much", CALIBRATION, "weight = weight / weight.mean()", "weight = torch.ones_like(weight)"
    ),
    Fault("the middle of trust left out", CALIBRATION, "b - a * middle / spread", "b"),
    Fault("no fit after the planted passes", LOOP, "self._calibrate()\n        if trained", "if trained"),
    Fault(
        "stories with random vectors count as met",
        LOOP,
        'if trained_part(self.settings, self.tables, self.model) != "vectors":',
        "if False:",
    ),
    Fault(
        "planted passes keep for themselves which stories they met",
        LOOP,
        "self._shared.share_met()\n        self._calibrate()",
        "pass\n        self._calibrate()",
    ),
    Fault("the loop does not share fits", LOOP, "self._shared.share_calibrations()", "pass"),
    Fault(
        "gradients reach vectors that are not to be trained", "models/drpn.py", "rows.stories.detach()", "rows.stories"
    ),
    Fault("profiles of eight clicks are short", LOSS, ">= _LONG_PROFILES", "> _LONG_PROFILES"),
    Fault("labels learn from clicks of others", LOSS, " and not alone else", " else"),
    Fault("clicks trade places with skips that are not there", LOSS, "< _ENOUGH", "< 0"),
    Fault("a profile needs a skip for each click", RULES, ">= wanted + _compared(skips))", ">= wanted)"),
    Fault("clicks alone decide who can swap", RULES, "enough = (wanted > 0) & (", "enough = (wanted > 0) | ("),
    Fault(
        "profiles that are not swapped have a say in the weights of the others",
        RULES,
        "(own_odds * swapped).sum() / swapped.sum().clamp(min=1)",
        "own_odds.mean()",
    ),
    Fault("a model of skips alone learns from clicks of others", LOSS, 'if "clicked" not in model.reads:', "if False:"),
    Fault("labels learn from popular skips alone", STEPS, 'if self._part == "labels" else', "if False else"),
    Fault("vectors learn from unpopular skips", STEPS, 'if self._part == "labels" else', "if True else"),
    Fault("one rule for all profiles", RULES, "weight.device) < 1 / 2", "weight.device) < 2"),
    Fault(
        "passes read profiles of the test", RULES, "((tables.clicked[: tables.before_validation]", "((tables.clicked"
    ),
    Fault("no fit after an epoch", LOOP, "self._calibrate()\n                auc", "auc"),
    Fault(
        "the fit draws from the training's random numbers",
        FIT,
        'torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])',
        "torch.no_grad()",
    ),
    Fault("noise called real", FIT, "noise, real = planted", "real, noise = planted"),
    Fault("each process keeps its own fit", "training/shared.py", "self.ranks.copy_first(value)", "pass"),
    Fault("a fast reader without labels", FAST, "trust if evidence is None else trust + evidence", "trust"),
    Fault("a fast reader without the constant", FAST, "@ own.out + own.constant", "@ own.out"),
    Fault("a fast reader that adds all of the similarities", FAST, "_Denoise(factor * out,", "_Denoise(out,"),
    Fault("a fast reader without similarities", FAST, "if own.labels_alone and", "if True and"),
    Fault(
        "similarities stay in the trust",
        LOOP,
        'trust_labels_alone(self.model, part == "labels")',
        "trust_labels_alone(self.model, False)",
    ),
    Fault("labels alone for long profiles", LOSS, 'return "vectors"', 'return "labels"'),
    Fault("weights by softmax", "models/drpn.py", "else self.calibration.log_probability(trust)", "else trust"),
]

GROUPS = [
    Group(
        "Planted feedback",
        (
            "tests/batches/test_planted.py",
            "tests/training/test_planted.py",
            "-k",
            "rule or swap or drawn or odds or passes_visit or slot or alone or loop or sums or loss_of_a_step",
        ),
        FAULTS,
    ),
    Group(
        "Trained to find noise",
        (
            "tests/layers/test_labels.py",
            "tests/layers/test_calibration.py",
            "tests/training/test_calibrate.py",
            "tests/training/test_planted.py",
            "tests/batches/test_planted.py",
            "tests/models/test_drpn_against_loops.py",
            "tests/bundle/test_fast_reading.py",
            "-k",
            "not resumed and (labels or calibra or probabilities or finite or random or processes or as_much or fitted "
            "or drpn-planted or as_met or which_stories or length_of or come_from or enough_skips or equal_odds "
            "or half_of or left_out or alone)",
        ),
        FINDING,
    ),
]
