"""Faults in DRPN and in the layers it is made of."""

from mutations.planting import Fault, Group

DRPN = "models/drpn.py"
ATTENTION, DENOISING, LINEAR = "layers/attention.py", "layers/denoising.py", "layers/linear.py"
GRAPH, NEWS, TABLES = "layers/graph.py", "layers/news.py", "layers/tables.py"

FAULTS = [
    Fault(
        "a story counts more if it resembles the opposite sequence",
        DRPN,
        "similar - torch.relu(self.gamma)",
        "similar + torch.relu(self.gamma)",
    ),
    Fault("gamma without its ReLU", DRPN, "torch.relu(self.gamma)", "self.gamma"),
    Fault(
        "intra-attention reads padding",
        DENOISING,
        "mask.unsqueeze(1) & ~itself",
        "torch.ones_like(mask).unsqueeze(1) & ~itself",
    ),
    Fault("intra-attention reads the story itself", DENOISING, "mask.unsqueeze(1) & ~itself", "mask.unsqueeze(1)"),
    Fault(
        "inter-attention reads padding",
        DENOISING,
        "other_value, other.mask.unsqueeze(1))",
        "other_value, torch.ones_like(other.mask).unsqueeze(1))",
    ),
    Fault(
        "inter-attention with the parameters of the wrong sequence",
        DRPN,
        "else opposite.opposite_weights()",
        "else (own or opposite).opposite_weights()",
    ),
    Fault(
        "both similarities from one head",
        DRPN,
        "same, self.contrary.head(), opposite)",
        "same, self.similar.head(), opposite)",
    ),
    Fault(
        "zeros for an empty opposite sequence",
        DRPN,
        "instead=self.contrary.read(self.unopposed)",
        "instead=torch.zeros_like(self.unopposed)",
    ),
    Fault(
        "zeros for the denoised interest of an empty sequence",
        DRPN,
        "where_present(result.vector, own.mask.any(-1), self.nothing)",
        "result.vector",
    ),
    Fault(
        "self-attention of stories without the residual",
        DRPN,
        "self.norm(stories.gather() + self.attention(qkv, mask))",
        "self.norm(self.attention(qkv, mask))",
    ),
    Fault(
        "clicked and skipped swapped",
        DRPN,
        ".read(rows, profiles.sequences(self.reads))",
        ".read(rows, dict(zip(self.reads, profiles.sequences(self.reads[::-1]).values())))",
    ),
    Fault(
        "the fusion net weighs graph vectors instead of ids",
        DRPN,
        "self.collaborative.project(graph, own)",
        "self.collaborative.project(graph, graph)",
    ),
    Fault(
        "the candidate's graph vector instead of its id vector",
        DRPN,
        "{view: (rows.candidate, rows.plain) for",
        "{view: (rows.candidate, rows.stories) for",
    ),
    Fault(
        "the graph network without a scale",
        GRAPH,
        'torch.einsum("umd,ukmd->umk", query, key) / math.sqrt(query.shape[-1])',
        'torch.einsum("umd,ukmd->umk", query, key)',
    ),
    Fault(
        "the graph network reads padding",
        GRAPH,
        "masked_softmax(logits, mask.unsqueeze(1))",
        "masked_softmax(logits, torch.ones_like(mask).unsqueeze(1))",
    ),
    Fault(
        "gate and content of the graph network swapped",
        GRAPH,
        "torch.sigmoid(gate) * torch.tanh(content)",
        "torch.sigmoid(content) * torch.tanh(gate)",
    ),
    Fault(
        "softmax over padding",
        ATTENTION,
        "torch.softmax(logits.masked_fill(~mask, torch.finfo(logits.dtype).min), dim=-1)",
        "torch.softmax(logits, dim=-1)",
    ),
    Fault(
        "attention without a scale",
        ATTENTION,
        "query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])",
        "query @ key.transpose(-1, -2)",
    ),
    Fault(
        "the projections of a sequence in another order",
        TABLES,
        "for group in groups.values() for weight in group",
        "for group in reversed(groups.values()) for weight in group",
    ),
    Fault(
        "a bias left out of the joined projections",
        LINEAR,
        "if weight.bias is None else weight.bias for weight",
        "if True else weight.bias for weight",
    ),
    Fault("self-attention reads padding", ATTENTION, "attn_mask=allowed[:, None, None, :]", "attn_mask=None"),
    Fault(
        "no unknown vector for stories that training did not meet",
        NEWS,
        "return where_present(gather_rows(self.table.weight, news), known, self.unknown)",
        "return gather_rows(self.table.weight, news)",
    ),
    Fault(
        "own vectors for neighbours that training did not meet",
        NEWS,
        "return where_present(vectors, self.met[news] | (news == 0), self.unknown)",
        "return vectors",
    ),
]

GROUPS = [Group("DRPN", ("tests/models/test_drpn_against_loops.py",), FAULTS)]
