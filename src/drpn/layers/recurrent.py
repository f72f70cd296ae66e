"""A recurrent network over sequences with padding."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from drpn.layers.linear import Weight, aligned_linear


class Gru(nn.Module):
    """The last state of a GRU over a sequence, as in `torch.nn.GRU`; padding anywhere leaves the state unchanged.

    r = sigmoid(W_r x + U_r h), z = sigmoid(W_z x + U_z h), n = tanh(W_n x + r * (U_n h)), h' = (1 - z) * n + z * h,
    each product with a bias. The products with x depend on the item alone and are computed before, once per item.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.items = nn.Linear(size, 3 * hidden)  # W_r, W_z and W_n
        self.state = nn.Linear(hidden, 3 * hidden)  # U_r, U_z and U_n
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

    def weights(self) -> list[Weight]:
        """W_r, W_z and W_n, which are applied to each item before `forward`."""
        return [Weight.from_layer(self.items)]

    def forward(
        self,
        projected: Float[Tensor, "B S RZN"],
        mask: Bool[Tensor, "B S"],
        first: Float[Tensor, "B h"] | None = None,
    ) -> Float[Tensor, "B h"]:
        """The state after the last item; an empty sequence keeps the first state, which is zeros by default."""
        # in float32 at least: many small steps add up
        wide = torch.promote_types(projected.dtype, torch.float32)
        state = projected.new_zeros(len(projected), self.hidden, dtype=wide) if first is None else first.to(wide)
        for item, present in zip(projected.unbind(1), mask.unbind(1), strict=True):
            reset, update, new = item.chunk(3, dim=-1)  # (B h)
            own_reset, own_update, own_new = aligned_linear(state, self.state.weight, self.state.bias).chunk(3, dim=-1)
            update = torch.sigmoid(update + own_update)
            new = torch.tanh(new + torch.sigmoid(reset + own_reset) * own_new)
            state = torch.where(present.unsqueeze(-1), new + update * (state - new), state)
        return state
