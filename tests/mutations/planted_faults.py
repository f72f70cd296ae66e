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
    )
]
