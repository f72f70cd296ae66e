"""Faults in learning from teachers, and in scores that start small."""

from mutations.planting import Fault, Group

LOSS, STEPS, TEACHERS = "training/loss.py", "training/batch_loss.py", "recipes/teachers.py"
TRAIN, DRPN = "recipes/train.py", "models/drpn.py"

FAULTS = [
    Fault(
        "the teacher's padding counts",
        LOSS,
        "taught.float().masked_fill(~mask, -torch.inf).softmax(-1)",
        "taught.float().softmax(-1)",
    ),
    Fault(
        "scores and teacher's scores swapped",
        STEPS,
        "taught_loss(scores, taught, mask)",
        "taught_loss(taught, scores, mask)",
    ),
    Fault(
        "more from clicks than from teachers",
        STEPS,
        "(1 - _TAUGHT) * clicked + _TAUGHT * taught_loss",
        "_TAUGHT * clicked + (1 - _TAUGHT) * taught_loss",
    ),
    Fault("the sum of the teachers", TEACHERS, "taught=total / count", "taught=total"),
    Fault("teachers with one seed", TEACHERS, "self.training.seed + number * _SEEDS", "self.training.seed + _SEEDS"),
    Fault("no teacher reads lists", TEACHERS, "number % 2 == 0", "False"),
    Fault(
        "teachers take the model's random numbers",
        TEACHERS,
        'fork_rng(devices=[self.device] if self.device.type == "cuda" else [])',
        "fork_rng(devices=[], enabled=False)",
    ),
    Fault(
        "a refit without teachers",
        TRAIN,
        "dataclasses.replace(teaching, training=again).add_scores(tables, clicks, REFIT_SPLITS, folder)",
        "tables",
    ),
    Fault("a run that stops while teachers learn is forgotten", TRAIN, " or (out / TEACHERS).exists()", ""),
    Fault("one half of the weights starts small", DRPN, '("fusion.out", "fusion.bias")', '("fusion.out",)'),
    Fault("scores never start small", TRAIN, "training.first_scores != 1", "training.first_scores > 1"),
]

GROUPS = [
    Group(
        "Teachers and first scores",
        (
            "tests/training/test_loss.py",
            "tests/recipes/test_teachers.py",
            "tests/models/test_first_scores.py",
            "-k",
            "taught or teacher or scores",
        ),
        FAULTS,
    )
]
