"""Faults in the baselines that read features of stories: LibFM, DeepFM, DFN and DEERS."""

from mutations.planting import Fault, Group, tests_of

FACTORS, FIELDS = "models/factorisation.py", "models/fields.py"
LIBFM, DEEPFM, DFN, DEERS = (f"models/baselines/{name}.py" for name in ("libfm", "deepfm", "dfn", "deers"))

FEATURES = [
    Fault(
        "user ids are never unknown in training", FACTORS, "(shape.users, size, id_dropout)", "(shape.users, size, 0.0)"
    ),
    Fault(
        "story ids are never unknown in training",
        FACTORS,
        "(shape.news, 1 + size, id_dropout)",
        "(shape.news, 1 + size, 0.0)",
    ),
    Fault(
        "padding counts as a word",
        FACTORS,
        "share = equal_weights(news.words != 0, words)",
        "share = equal_weights(news.words >= 0, words)",
    ),
    Fault("a repeated word is several features", FACTORS, "(occurrences * share.square()", "(share.square()"),
    Fault(
        "pairs counted twice", FACTORS, "(vector.square().sum(-1) - squares) / 2", "vector.square().sum(-1) - squares"
    ),
    Fault(
        "pairs of a feature with itself",
        FACTORS,
        "(vector.square().sum(-1) - squares) / 2",
        "vector.square().sum(-1) / 2",
    ),
    Fault("weights of features left out", FACTORS, "Factors(weight + pairs, vector)", "Factors(pairs, vector)"),
    Fault("pairs within a story left out", FACTORS, "Factors(weight + pairs, vector)", "Factors(weight, vector)"),
    Fault(
        "vectors of a candidate for a clicked story",
        FACTORS,
        "[field[:, clicked] for field in rows[1:]]",
        "[field[:, candidate] for field in rows[1:]]",
    ),
    Fault(
        "the category in place of the subcategory",
        FACTORS,
        "gather_rows(self.subcategory.weight, news.subcategory)",
        "gather_rows(self.subcategory.weight, news.category)",
    ),
    Fault(
        "the id vector of padding for every story",
        FACTORS,
        "self.ids(news.rows)",
        "self.ids(0 * news.rows)",
    ),
    Fault(
        "padding counts as a click",
        FACTORS,
        "profiles.clicked), profiles.clicked_mask)",
        "profiles.clicked), profiles.clicked >= 0)",
    ),
    Fault(
        "skipped stories in place of clicked ones",
        FACTORS,
        "profiles.clicked), profiles.clicked_mask)",
        "profiles.skipped), profiles.skipped_mask)",
    ),
    Fault(
        "the sum of clicks in place of their mean",
        FACTORS,
        "profiles.clicked), profiles.clicked_mask)",
        "profiles.clicked), profiles.clicked_mask) * profiles.clicked_mask.sum(-1, keepdim=True)",
    ),
    Fault("zeros for a user without clicks", FACTORS, "any(-1), self.nothing)", "any(-1), 0 * self.nothing)"),
    Fault(
        "the user's id left out",
        FACTORS,
        "[self.users(profiles.users), read]",
        "[0 * self.users(profiles.users), read]",
    ),
    Fault(
        "the story's own score left out",
        FACTORS,
        "rows.own_score + dot_scores(rows.vector, users)",
        "dot_scores(rows.vector, users)",
    ),
    Fault(
        "pairs of user and story left out", FACTORS, "rows.own_score + dot_scores(rows.vector, users)", "rows.own_score"
    ),
    Fault("the mean of fields in place of their sum", LIBFM, "profiles).sum(1)", "profiles).mean(1)"),
]

DEEP = [
    Fault(
        "no dropout after the first layer",
        DEEPFM,
        "self.dropout(torch.relu(users + stories))",
        "torch.relu(users + stories)",
    ),
    Fault(
        "no dropout after deeper layers",
        DEEPFM,
        "self.dropout(torch.relu(layer(hidden)))",
        "torch.relu(layer(hidden))",
    ),
    Fault(
        "dropout in the factorisation machine",
        DEEPFM,
        "DeepFmReaders(fields.sum(1),",
        "DeepFmReaders(self.deep.dropout(fields.sum(1)),",
    ),
    Fault("the first layer without ReLU", DEEPFM, "torch.relu(users + stories)", "users + stories"),
    Fault("deeper layers without ReLU", DEEPFM, "torch.relu(layer(hidden))", "layer(hidden)"),
    Fault(
        "the first layer without bias",
        DEEPFM,
        "self.deep.user(fields.flatten(1))",
        "aligned_linear(fields.flatten(1), self.deep.user.weight)",
    ),
    Fault(
        "a story read with the user's half of the first layer",
        DEEPFM,
        "features.fields.flatten(1), self.deep.news.weight",
        "features.fields.flatten(1), self.deep.user.weight",
    ),
    Fault("the deep part left out", DEEPFM, "return machine + deep", "return machine"),
    Fault("the factorisation machine left out", DEEPFM, "return machine + deep", "return deep"),
    Fault(
        "the mean of fields in place of their sum",
        DEEPFM,
        "DeepFmReaders(fields.sum(1),",
        "DeepFmReaders(fields.mean(1),",
    ),
]

STORY_FIELDS = [
    Fault(
        "ids are never unknown in training",
        FIELDS,
        "IdVectors(shape.news, columns, id_dropout)",
        "IdVectors(shape.news, columns, 0.0)",
    ),
    Fault("padding counts as a word", FIELDS, "where_present(masked_mean(words, mask)", "where_present(words.mean(1)"),
    Fault(
        "zeros for a story without a title", FIELDS, "mask.any(-1), self.untitled)", "mask.any(-1), 0 * self.untitled)"
    ),
    Fault(
        "the id vector of padding for every story",
        FIELDS,
        "self.ids(news.rows)",
        "self.ids(0 * news.rows)",
    ),
    Fault(
        "the category in place of the subcategory",
        FIELDS,
        "gather_rows(self.subcategory.weight, news.subcategory)",
        "gather_rows(self.subcategory.weight, news.category)",
    ),
    Fault(
        "weights of words left out",
        FIELDS,
        "gather_rows(self.word_weights.weight, news.words), words]",
        "0 * gather_rows(self.word_weights.weight, news.words), words]",
    ),
]

FEEDBACK_NETWORK = [
    Fault("no dropout on features", DFN, "self.dropout(fields[..., 1:].flatten(1))", "fields[..., 1:].flatten(1)"),
    Fault(
        "dropout on the wide part, too", DFN, "fields = self.fields(news)", "fields = self.dropout(self.fields(news))"
    ),
    Fault(
        "stories read padding",
        DFN,
        "attention_logits(heads.query, heads.key, mask[:, None, None])",
        "attention_logits(heads.query, heads.key)",
    ),
    Fault(
        "the candidate reads padding",
        DFN,
        "attention_logits(query, own.heads.key, own.mask[:, None, None])",
        "attention_logits(query, own.heads.key)",
    ),
    Fault(
        "padding counts in the mean",
        DFN,
        "masked_sum(stories.flatten(0, 1), mask.flatten(0, 1))",
        "stories.flatten(0, 1).sum(1)",
    ),
    Fault("the candidate left out of the mean", DFN, ".view_as(itself) + itself", ".view_as(itself)"),
    Fault(
        "the mean without the candidate in its count",
        DFN,
        "(1 + own.mask.sum(-1))",
        "own.mask.sum(-1).clamp(min=1)",
    ),
    Fault(
        "the candidate's own logit without a scale",
        DFN,
        "dot_rowwise(query, key).unsqueeze(-1) / math.sqrt(query.shape[-1])",
        "dot_rowwise(query, key).unsqueeze(-1)",
    ),
    Fault("the share of the candidate without L_i", DFN, " - own.log_sum.unsqueeze(2))", ")"),
    Fault(
        "query and key swapped between candidate and stories",
        DFN,
        "attention_logits(candidate.key, own.heads.query)",
        "attention_logits(candidate.query, own.heads.key)",
    ),
    Fault("places counted from the oldest story", DFN, "mask.flip(1).cumsum(1).flip(1)", "mask.cumsum(1)"),
    Fault(
        "places left out",
        DFN,
        "gather_rows(encoded, positions) + gather_rows(table, place)",
        "gather_rows(encoded, positions)",
    ),
    Fault("the feed-forward network without ReLU", DFN, "self.widen.bias).relu_()", "self.widen.bias)"),
    Fault(
        "the feed-forward network without its first bias",
        DFN,
        "self.widen.weight, self.widen.bias)",
        "self.widen.weight)",
    ),
    Fault(
        "the feed-forward network without its last bias",
        DFN,
        "self.narrow.weight, self.narrow.bias)",
        "self.narrow.weight)",
    ),
    Fault(
        "the external attention adds where it subtracts, for stories",
        DFN,
        "Weight(item - difference)",
        "Weight(item + difference)",
    ),
    Fault("the external attention subtracts where it adds, for f_c", DFN, "own + difference", "own - difference"),
    Fault("the external attention without products", DFN, "torch.relu(both + half", "torch.relu(0 * both + half"),
    Fault(
        "the external attention without ReLU",
        DFN,
        "torch.relu(both + half.unsqueeze(1) + halves.unsqueeze(2))",
        "both + half.unsqueeze(1) + halves.unsqueeze(2)",
    ),
    Fault("the external attention without bias", DFN, "own + difference, self.hidden.bias)", "own + difference)"),
    Fault("the external attention without a scale", DFN, "transpose(1, 2) / self.scale", "transpose(1, 2)"),
    Fault(
        "the external attention reads padding",
        DFN,
        "masked_softmax(logits, mask.unsqueeze(1))",
        "torch.softmax(logits, dim=-1)",
    ),
    Fault(
        "zeros for the external attention without skips",
        DFN,
        "mask.any(-1, keepdim=True), self.nothing)",
        "mask.any(-1, keepdim=True), 0 * self.nothing)",
    ),
    Fault("f_u in place of f_c as the query", DFN, "self.external(clicked, readers", "self.external(skipped, readers"),
    Fault(
        "clicked stories through the transformer of skipped ones",
        DFN,
        "self.clicked.match(readers.clicked, target.clicked)",
        "self.skipped.match(readers.clicked, target.clicked)",
    ),
    Fault(
        "the candidate's projections of the wrong transformer",
        DFN,
        "self.clicked.match(readers.clicked, target.clicked)",
        "self.clicked.match(readers.clicked, target.skipped)",
    ),
    Fault("f_u left out", DFN, "torch.cat([clicked, skipped, external]", "torch.cat([clicked, 0 * skipped, external]"),
    Fault("pairs counted twice", DFN, "vectors.square().sum(-2)) / 2", "vectors.square().sum(-2))"),
    Fault(
        "pairs of a vector with itself",
        DFN,
        "(vectors.sum(-2).square() - vectors.square().sum(-2))",
        "vectors.sum(-2).square()",
    ),
    Fault("the wide part left out", DFN, "return target.wide + dot(", "return dot("),
    Fault(
        "the deep part left out",
        DFN,
        "torch.cat([pairs, at_least_float32(deep)]",
        "torch.cat([pairs, 0 * at_least_float32(deep)]",
    ),
    Fault("the pairs left out", DFN, "torch.cat([pairs, at_least", "torch.cat([0 * pairs, at_least"),
    Fault(
        "the first deep layer without ReLU",
        DFN,
        "torch.relu(target.half + aligned_linear(feedback, self.deep_feedback.weight))",
        "target.half + aligned_linear(feedback, self.deep_feedback.weight)",
    ),
    Fault("the second deep layer without bias", DFN, "self.deepest.weight, self.deepest.bias)", "self.deepest.weight)"),
    Fault(
        "the first deep layer without bias",
        DFN,
        "Weight.from_layer(self.deep_target)",
        "Weight(self.deep_target.weight)",
    ),
]

PAIRWISE = [
    Fault(
        "no dropout on features", DEERS, "self.dropout(self.fields(news).flatten(1))", "self.fields(news).flatten(1)"
    ),
    Fault("the recurrent network reads padding", DEERS, "self.gru(items, mask)", "self.gru(items, mask | True)"),
    Fault(
        "zeros for the state of an empty sequence",
        DEERS,
        "mask.any(-1), self.nothing)",
        "mask.any(-1), 0 * self.nothing)",
    ),
    Fault("the first layer without bias", DEERS, "self.state.weight, self.state.bias)", "self.state.weight)"),
    Fault(
        "the first layer without ReLU", DEERS, "torch.relu(state.unsqueeze(1) + action)", "state.unsqueeze(1) + action"
    ),
    Fault(
        "the candidate left out",
        DEERS,
        "torch.relu(state.unsqueeze(1) + action)",
        "torch.relu(state.unsqueeze(1) + 0 * action)",
    ),
    Fault(
        "the state left out",
        DEERS,
        "torch.relu(state.unsqueeze(1) + action)",
        "torch.relu(0 * state.unsqueeze(1) + action)",
    ),
    Fault(
        "deeper layers of a side without ReLU",
        DEERS,
        "for layer in self.deeper:\n            hidden = torch.relu(layer(hidden))",
        "for layer in self.deeper:\n            hidden = layer(hidden)",
    ),
    Fault(
        "joined layers without ReLU",
        DEERS,
        "for layer in self.joined:\n            hidden = torch.relu(layer(hidden))",
        "for layer in self.joined:\n            hidden = layer(hidden)",
    ),
    Fault(
        "skipped stories in place of clicked ones",
        DEERS,
        "profiles.clicked), profiles.clicked_mask)",
        "profiles.skipped), profiles.skipped_mask)",
    ),
    Fault(
        "clicked stories in place of skipped ones",
        DEERS,
        "profiles.skipped), profiles.skipped_mask)",
        "profiles.clicked), profiles.clicked_mask)",
    ),
    Fault("the candidate's halves swapped", DEERS, "liked, disliked = gather_at", "disliked, liked = gather_at"),
    Fault(
        "the state of clicks on both sides",
        DEERS,
        "self.skipped.match(readers.skipped, disliked)",
        "self.skipped.match(readers.clicked, disliked)",
    ),
    Fault(
        "the side of skips left out",
        DEERS,
        "self.skipped.match(readers.skipped, disliked)",
        "0 * self.skipped.match(readers.skipped, disliked)",
    ),
]

GROUPS = [
    Group("LibFM", tests_of("libfm"), FEATURES),
    Group("DeepFM", tests_of("deepfm"), DEEP),
    Group("Features of stories in DFN and DEERS", tests_of("deers", "dfn"), STORY_FIELDS),
    Group("DFN", tests_of("dfn"), FEEDBACK_NETWORK),
    Group("DEERS", tests_of("deers"), PAIRWISE),
]
