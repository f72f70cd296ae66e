"""Scores and gradients of every model stay what they were.

`tests/reference/scores.json` holds, for each model of the catalogue with weights that its parameters' names decide, the
score of every candidate and a digest of the gradient of every parameter. Rearranging code must leave them unchanged to
1e-6. Write the file again, on purpose only, with `python tests/models/test_reference_scores.py`.
"""

import json
import sys
from pathlib import Path

import torch

FILE = Path(__file__).parents[1] / "reference" / "scores.json"

if __name__ == "__main__":
    sys.path.insert(0, str(FILE.parents[1]))

from contract_cases import every_model, impressions, real_scores, trained  # noqa: E402
from drpn.models.catalogue import CATALOGUE  # noqa: E402


def reference_of(name: str) -> dict[str, object]:
    """The scores of a model, and for each parameter two sums over the gradient of their squares."""
    model = trained(name)
    scores = real_scores(model, impressions())
    scores.square().sum().backward()
    gradients = {}
    for key, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        waves = torch.cos(torch.arange(gradient.numel(), dtype=gradient.dtype)).view(gradient.shape)
        gradients[key] = [gradient.norm().item(), (gradient * waves).sum().item()]
    return {"scores": scores.tolist(), "gradients": gradients}


@every_model
def test_scores_and_gradients_are_unchanged(name: str) -> None:
    expected, actual = json.loads(FILE.read_text())[name], reference_of(name)
    torch.testing.assert_close(actual["scores"], expected["scores"], rtol=1e-6, atol=1e-9)
    assert set(actual["gradients"]) == set(expected["gradients"])
    torch.testing.assert_close(actual["gradients"], expected["gradients"], rtol=1e-6, atol=1e-9)


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(reference_of(name))}" for name in CATALOGUE)
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
