"""Faults in the baselines whose attention depends on the user, the candidate or the sequence: NPA, DKN and NRMS."""

from mutations.planting import Fault, Group, tests_of

NPA, NRMS, DKN = (f"models/baselines/{name}.py" for name in ("npa", "nrms", "dkn"))

PERSONAL = [
    Fault(
        "no dropout on words",
        NPA,
        "self.convolution(self.dropout(self.words(news.words)), mask)",
        "self.convolution(self.words(news.words), mask)",
    ),
    Fault(
        "no dropout after the convolution",
        NPA,
        "self.dropout(self.convolution(self.dropout(self.words(news.words)), mask))",
        "self.convolution(self.dropout(self.words(news.words)), mask)",
    ),
    Fault("no dropout on the words that are summed", NPA, "words = self.drop_pooled(", "words = ("),
    Fault("no dropout on the stories that are summed", NPA, "clicked = self.drop_pooled(", "clicked = ("),
    Fault("dropout on what is summed without being asked for", NPA, "if self.settings.pooled_dropout else items", ""),
    Fault(
        "user ids are never unknown in training",
        NPA,
        "settings.user_size, settings.id_dropout,",
        "settings.user_size, 0.0,",
    ),
    Fault(
        "the paper's preference without ReLU",
        NPA,
        "torch.relu(self.preference(users))",
        "self.preference(users)",
    ),
    Fault(
        "the paper's preference without bias",
        NPA,
        "torch.relu(self.preference(users))",
        "torch.relu(aligned_linear(users, self.preference.weight))",
    ),
    Fault(
        "the paper's query without tanh",
        NPA,
        "torch.tanh(self.query(preference))",
        "self.query(preference)",
    ),
    Fault(
        "the official code's query with ReLU",
        NPA,
        "query: Tensor = self.query(users)",
        "query: Tensor = torch.relu(self.query(users))",
    ),
    Fault(
        "the official code's keys without tanh",
        NPA,
        "torch.tanh(aligned_linear(items, self.key.weight, self.key.bias))",
        "aligned_linear(items, self.key.weight, self.key.bias)",
    ),
    Fault("the official code's keys without bias", NPA, "self.key.weight, self.key.bias)", "self.key.weight)"),
    Fault(
        "the official code's logits in place of the paper's",
        NPA,
        '{"paper": PaperAttention, "code": CodeAttention}',
        '{"paper": CodeAttention, "code": CodeAttention}',
    ),
    Fault("filters read padding", NPA, "mask = news.words != 0", "mask = news.words >= 0"),
    Fault(
        "padding counts as a word",
        NPA,
        "self.title(query, keys, words, mask)",
        "self.title(query, keys, words, mask | True)",
    ),
    Fault(
        "padding counts as a click", NPA, "profiles.clicked_mask.unsqueeze(1)", "(profiles.clicked >= 0).unsqueeze(1)"
    ),
    Fault("zeros for an empty sequence", NPA, "mask.any(-1), self.nothing)", "mask.any(-1), 0 * self.nothing)"),
    Fault(
        "clicked stories weighed by the query for words",
        NPA,
        "self.clicks.queries(users), self.clicks.keys",
        "query, self.clicks.keys",
    ),
    Fault(
        "candidates read with the query for stories",
        NPA,
        "return NpaReaders(query, ",
        "return NpaReaders(self.clicks.queries(users), ",
    ),
    Fault(
        "every user has the query of unknown users", NPA, "self.users(profiles.users)", "self.users(0 * profiles.users)"
    ),
    Fault(
        "the mean of words in place of attention",
        NPA,
        "dot_per_user(keys.flatten(1, 2), query)",
        "0 * dot_per_user(keys.flatten(1, 2), query)",
    ),
    Fault("user vectors never start at zero", NPA, "zero=settings.zero_users", "zero=False"),
]

SELF_ATTENTION = [
    Fault(
        "no dropout on words",
        NRMS,
        "self.title.project(self.dropout(self.words(words)))",
        "self.title.project(self.words(words))",
    ),
    Fault(
        "no dropout after the self-attention over words",
        NRMS,
        "self.dropout(self.attention(items, mask))",
        "self.attention(items, mask)",
    ),
    Fault(
        "dropout after the self-attention over clicks",
        NRMS,
        "SequenceEncoder(settings.heads * settings.head_size, settings)",
        "SequenceEncoder(settings.heads * settings.head_size, settings, dropout=True)",
    ),
    Fault(
        "dropout after the self-attention without being asked for",
        NRMS,
        "dropout=settings.attention_dropout)",
        "dropout=True)",
    ),
    Fault(
        "the self-attention reads padding", NRMS, "self.attention(items, mask)", "self.attention(items, mask | True)"
    ),
    Fault(
        "padding is part of the weighted sum",
        NRMS,
        "self.aggregate(context, mask)",
        "self.aggregate(context, mask | True)",
    ),
    Fault("zeros for an empty sequence", NRMS, "mask.any(-1), self.nothing)", "mask.any(-1), 0 * self.nothing)"),
    Fault(
        "skipped stories in place of clicked ones",
        NRMS,
        "rows_at(encoded.clicked, profiles.clicked)\n"
        "        user: Aggregated = self.user(clicked, profiles.clicked_mask)",
        "rows_at(encoded.clicked, profiles.skipped)\n"
        "        user: Aggregated = self.user(clicked, profiles.skipped_mask)",
    ),
    Fault(
        "queries and keys swapped outside of training",
        NRMS,
        "self.words.projected(words, self.title.attention.weights())",
        "self.words.projected(words, [self.title.attention.weights()[place] for place in (1, 0, 2)])",
    ),
    Fault(
        "keys in place of values outside of training",
        NRMS,
        "self.words.projected(words, self.title.attention.weights())",
        "self.words.projected(words, [self.title.attention.weights()[place] for place in (0, 1, 1)])",
    ),
]

KNOWLEDGE = [
    Fault(
        "no dropout on channels",
        DKN,
        "self.title(self.dropout(torch.cat(channels, dim=-1)), words != 0)",
        "self.title(torch.cat(channels, dim=-1), words != 0)",
    ),
    Fault(
        "dropout on words alone",
        DKN,
        "self.title(self.dropout(torch.cat(channels, dim=-1)), words != 0)",
        "self.title(torch.cat([self.dropout(channels[0]), *channels[1:]], dim=-1), words != 0)",
    ),
    Fault(
        "padding counts as a word",
        DKN,
        "torch.cat(channels, dim=-1)), words != 0)",
        "torch.cat(channels, dim=-1)), words >= 0)",
    ),
    Fault(
        "filters read padding",
        DKN,
        "masked_max(convolution(items, mask), mask)",
        "masked_max(convolution(items, mask | True), mask)",
    ),
    Fault(
        "the maximum over padding",
        DKN,
        "masked_max(convolution(items, mask), mask)",
        "convolution(items, mask).amax(1)",
    ),
    Fault("zeros for a title without words", DKN, "mask.any(-1), self.nothing)", "mask.any(-1), 0 * self.nothing)"),
    Fault(
        "words without an entity have the vector of padding",
        DKN,
        "self.vectors(entities) * (entities != 0).unsqueeze(-1)",
        "self.vectors(entities)",
    ),
    Fault(
        "entities without tanh",
        DKN,
        "torch.tanh(aligned_linear(vectors, self.transform.weight, self.transform.bias))",
        "aligned_linear(vectors, self.transform.weight, self.transform.bias)",
    ),
    Fault("entities without bias", DKN, "self.transform.weight, self.transform.bias)", "self.transform.weight)"),
    Fault("channels in another order", DKN, "torch.cat(channels, dim=-1)", "torch.cat(channels[::-1], dim=-1)"),
    Fault("the channels of knowledge left out", DKN, "*(channel(*entities) for", "*(0 * channel(*entities) for"),
    Fault(
        "entities in place of contexts",
        DKN,
        "(channel(*entities) for channel in self.knowledge.values())",
        '(self.knowledge["entities"](*entities) for _ in self.knowledge)',
    ),
    Fault(
        "the normalisation without its shift",
        DKN,
        "(candidate - mean) * slope + self.shift)",
        "(candidate - mean) * slope)",
    ),
    Fault(
        "the normalisation without its scale",
        DKN,
        "self.scale * torch.rsqrt(variance + _EPSILON)",
        "torch.rsqrt(variance + _EPSILON)",
    ),
    Fault("the normalisation without the mean", DKN, "(candidate - mean) * slope", "candidate * slope"),
    Fault("divided by the variance", DKN, "torch.rsqrt(variance + _EPSILON)", "torch.reciprocal(variance + _EPSILON)"),
    Fault(
        "statistics over padding",
        DKN,
        "masked_moments(clicked + candidate, mask)",
        "masked_moments(clicked + candidate, mask | True)",
    ),
    Fault("running statistics stay as they are", DKN, "            self._update(mean, variance, mask)\n", ""),
    Fault("running statistics are those of the last batch", DKN, "running), _MOMENTUM)", "running), 1 - _MOMENTUM)"),
    Fault("a batch without pairs changes the statistics", DKN, "torch.where(mask.any(), current, running)", "current"),
    Fault(
        "the statistics of a batch in evaluation",
        DKN,
        "        if self.training:\n            mean, variance = masked",
        "        if True:\n            mean, variance = masked",
    ),
    Fault("without normalisation, no bias", DKN, "clicked + (candidate + self.shift)", "clicked + candidate"),
    Fault("sigmoids in the attention", DKN, "settings.attention, torch.relu,", "settings.attention, torch.sigmoid,"),
    Fault("ReLU in the prediction", DKN, "settings.hidden, torch.sigmoid,", "settings.hidden, torch.relu,"),
    Fault(
        "clicked stories read as candidates",
        DKN,
        "Weight.from_layer(network.clicked)",
        "Weight.from_layer(network.candidate)",
    ),
    Fault(
        "candidates read as clicked stories",
        DKN,
        "Weight.from_layer(network.candidate)",
        "Weight.from_layer(network.clicked)",
    ),
    Fault(
        "padding counts as a click",
        DKN,
        "masked_softmax(logits, clicked_mask.unsqueeze(1))",
        "torch.softmax(logits, dim=-1)",
    ),
    Fault(
        "the mean of clicks in place of attention",
        DKN,
        "masked_softmax(logits, clicked_mask",
        "masked_softmax(0 * logits, clicked_mask",
    ),
    Fault(
        "zeros for a user without clicks",
        DKN,
        "readers.mask.any(-1, keepdim=True), self.nothing)",
        "readers.mask.any(-1, keepdim=True), 0 * self.nothing)",
    ),
    Fault(
        "the user left out of the prediction",
        DKN,
        "self.prediction(user, candidate",
        "self.prediction(0 * user, candidate",
    ),
    Fault(
        "the candidate left out of the prediction",
        DKN,
        "self.prediction(user, candidate.prediction,",
        "self.prediction(user, 0 * candidate.prediction,",
    ),
    Fault(
        "skipped stories in place of clicked ones",
        DKN,
        "gather_rows(encoded.clicked, profiles.clicked), profiles.clicked_mask)",
        "gather_rows(encoded.clicked, profiles.skipped), profiles.skipped_mask)",
    ),
]

GROUPS = [
    Group("NPA", tests_of("npa"), PERSONAL),
    Group("NRMS", tests_of("nrms"), SELF_ATTENTION),
    Group("DKN", tests_of("dkn"), KNOWLEDGE),
]
