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
        "(own_odds / own_odds.mean().clamp(min=1e-6))",
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

FINDING = [
    Fault("a story shares labels with itself", LABELS, "(same.sum(2) - itself)", "same.sum(2)"),
    Fault("stories without labels share them", LABELS, " & known.unsqueeze(2)", ""),
    Fault("padding shares labels", LABELS, " & present.unsqueeze(1)", ""),
    Fault("labels are not compared", MODEL, "labels=labels", "labels=None"),
    Fault("labels of the opposite sequence left out", LABELS, "if other is not None", "if False"),
    Fault("the click loss changes the calibration", CALIBRATION, "self.slope.detach()", "self.slope"),
    Fault("the calibration loss changes trust", CALIBRATION, "(trust).detach()", "(trust)"),
    Fault("a negative slope", CALIBRATION, "torch.exp(_PACE * slope)", "_PACE * slope"),
    Fault("noise called real", LOSS, "softplus(logits) * noise", "softplus(-logits) * noise"),
    Fault("the calibration loss left out", STEPS, "(trust, planted, calibrated)", "(trust, planted)"),
    Fault("a fast reader without labels", FAST, "        trust += evidence", "        pass"),
    Fault("a fast reader without the constant", FAST, "(trust + constant)", "(trust)"),
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
            "tests/training/test_planted.py",
            "tests/models/test_drpn_against_loops.py",
            "tests/bundle/test_fast_reading.py",
            "-k",
            "labels or calibration or probabilities or drpn-planted",
        ),
        FINDING,
    ),
]
