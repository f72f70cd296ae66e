"""Faults in the baselines."""

from mutations.planting import Fault, Group

FACTORS, FIELDS = "models/factorisation.py", "models/fields.py"
LIBFM, DEEPFM, DFN, DEERS, LSTUR, NAML, GERL = (
    f"models/baselines/{name}.py" for name in ("libfm", "deepfm", "dfn", "deers", "lstur", "naml", "gerl")
)


def tests_of(*names: str) -> tuple[str, ...]:
    """The tests of some models, and those of every model as far as they are about these."""
    own = [f"tests/models/test_{name}.py" for name in names]
    return (*own, "tests/models/test_dropout.py", "tests/models/test_contract.py", "-k", " or ".join(names))


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
        "own vectors for stories that training did not see",
        FACTORS,
        "self.ids(news.rows, news.seen)",
        "self.ids(news.rows, news.seen | True)",
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
        "own vectors for stories that training did not see",
        FIELDS,
        "self.ids(news.rows, news.seen)",
        "self.ids(news.rows, news.seen | True)",
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

LONG_AND_SHORT = [
    Fault("no dropout in titles", LSTUR, "settings.hidden, settings.dropout)", "settings.hidden, 0.0)"),
    Fault("no user is masked", LSTUR, "(shape.users, long, settings.masking)", "(shape.users, long, 0.0)"),
    Fault(
        "a story without a category has the vector of padding",
        LSTUR,
        "gather_rows(self.table.weight, categories) * (categories != 0).unsqueeze(-1)",
        "gather_rows(self.table.weight, categories)",
    ),
    Fault(
        "the category left out",
        LSTUR,
        "title, self.category(news.category),",
        "title, 0 * self.category(news.category),",
    ),
    Fault(
        "the category in place of the subcategory",
        LSTUR,
        "self.subcategory(news.subcategory)",
        "self.subcategory(news.category)",
    ),
    Fault(
        "padding counts as a word",
        LSTUR,
        "self.title(self.words(words), words != 0)",
        "self.title(self.words(words), words >= 0)",
    ),
    Fault(
        "the recurrent network starts at zero", LSTUR, "self.recent(clicked, mask, long)", "self.recent(clicked, mask)"
    ),
    Fault(
        "the recurrent network reads padding",
        LSTUR,
        "self.recent(clicked, mask, long)",
        "self.recent(clicked, mask | True, long)",
    ),
    Fault(
        "with con, the recurrent network reads padding",
        LSTUR,
        "self.recent(clicked, mask), mask.any(-1)",
        "self.recent(clicked, mask | True), mask.any(-1)",
    ),
    Fault(
        "with con, zeros for a user without clicks",
        LSTUR,
        "mask.any(-1), self.nothing)",
        "mask.any(-1), 0 * self.nothing)",
    ),
    Fault("with con, both interests swapped", LSTUR, "torch.cat([short, long]", "torch.cat([long, short]"),
    Fault("with con, the long-term vector left out", LSTUR, "torch.cat([short, long]", "torch.cat([short, 0 * long]"),
    Fault(
        "skipped stories in place of clicked ones",
        LSTUR,
        "gather_rows(encoded.clicked, profiles.clicked)\n"
        "        return self.combine_interests(self.users(profiles.users), clicked, profiles.clicked_mask)",
        "gather_rows(encoded.clicked, profiles.skipped)\n"
        "        return self.combine_interests(self.users(profiles.users), clicked, profiles.skipped_mask)",
    ),
    Fault(
        "the vector of unknown users for everybody",
        LSTUR,
        "self.combine_interests(self.users(profiles.users)",
        "self.combine_interests(self.users(0 * profiles.users)",
    ),
]

VIEWS = [
    Fault("no dropout in texts", NAML, "settings.hidden, settings.dropout)", "settings.hidden, 0.0)"),
    Fault(
        "labels without ReLU",
        NAML,
        "torch.relu(aligned_linear(vectors, self.dense.weight, self.dense.bias))",
        "aligned_linear(vectors, self.dense.weight, self.dense.bias)",
    ),
    Fault("labels without bias", NAML, "self.dense.weight, self.dense.bias)", "self.dense.weight)"),
    Fault(
        "the subcategory in place of the category",
        NAML,
        "self.category(news.category)",
        "self.category(news.subcategory % len(self.category.table.weight))",
    ),
    Fault(
        "subcategories with the vectors of categories",
        NAML,
        "self.subcategory(news.subcategory)",
        "self.category(news.category)",
    ),
    Fault(
        "padding counts as a word of a title",
        NAML,
        "self.title(self.words(words), words != 0)",
        "self.title(self.words(words), words >= 0)",
    ),
    Fault(
        "padding counts as a word of an abstract",
        NAML,
        "self.abstract(self.words(news.abstract), news.abstract != 0)",
        "self.abstract(self.words(news.abstract), news.abstract >= 0)",
    ),
    Fault(
        "the title in place of the abstract",
        NAML,
        "self.abstract(self.words(news.abstract), news.abstract != 0)",
        "self.abstract(self.words(news.words), news.words != 0)",
    ),
    Fault("abstracts through the filters of titles", NAML, "views.append(self.abstract(", "views.append(self.title("),
    Fault(
        "the mean of views in place of attention",
        NAML,
        "combined: Aggregated = self.views(views,",
        "combined: Aggregated = aggregate(0 * self.views.logits(views), views,",
    ),
    Fault(
        "the logits of views for clicked stories",
        NAML,
        "NamlRows(vector, self.user.logits(vector))",
        "NamlRows(vector, self.views.logits(vector))",
    ),
    Fault(
        "the mean of clicks in place of attention", NAML, "aggregate(clicked.logit, ", "aggregate(0 * clicked.logit, "
    ),
    Fault(
        "padding counts as a click",
        NAML,
        "clicked.vector, profiles.clicked_mask)",
        "clicked.vector, profiles.clicked >= 0)",
    ),
    Fault(
        "zeros for a user without clicks",
        NAML,
        "profiles.clicked_mask.any(-1), self.nothing)",
        "profiles.clicked_mask.any(-1), 0 * self.nothing)",
    ),
    Fault(
        "skipped stories in place of clicked ones",
        NAML,
        "gather_at(encoded, profiles.clicked)\n"
        "        # u = sum of alpha_i r_i with alpha_i = softmax over i of q_n^T tanh(W_n r_i + b_n)\n"
        "        user = aggregate(clicked.logit, clicked.vector, profiles.clicked_mask)",
        "gather_at(encoded, profiles.skipped)\n"
        "        user = aggregate(clicked.logit, clicked.vector, profiles.skipped_mask)",
    ),
]

TWO_HOPS = [
    Fault(
        "no dropout on words",
        GERL,
        "self.attention.project(self.dropout(self.words(words)))",
        "self.attention.project(self.words(words))",
    ),
    Fault(
        "no dropout after the self-attention",
        GERL,
        "self.dropout(self.attention(projected, mask))",
        "self.attention(projected, mask)",
    ),
    Fault(
        "user ids are never unknown in training",
        GERL,
        "(shape.users, size, settings.id_dropout)",
        "(shape.users, size, 0.0)",
    ),
    Fault(
        "the self-attention reads padding",
        GERL,
        "self.attention(projected, mask)",
        "self.attention(projected, mask | True)",
    ),
    Fault("padding counts as a word", GERL, "self.aggregate(context, mask)", "self.aggregate(context, mask | True)"),
    Fault(
        "zeros for a story without a title", GERL, "mask.any(-1), self.untitled)", "mask.any(-1), 0 * self.untitled)"
    ),
    Fault(
        "the topic left out",
        GERL,
        "torch.cat([title, cast_like(topic, title)]",
        "torch.cat([title, 0 * cast_like(topic, title)]",
    ),
    Fault("zeros for an empty hop", GERL, "mask.any(-1), self.nothing)", "mask.any(-1), 0 * self.nothing)"),
    Fault(
        "logits of clicked stories and of neighbours swapped",
        GERL,
        "self.clicked.logits(vector),\n            self.neighbour_news.logits(vector),",
        "self.neighbour_news.logits(vector),\n            self.clicked.logits(vector),",
    ),
    Fault(
        "padding counts as an id of a story's neighbour",
        GERL,
        "self.neighbour_ids.logits(ids), news.neighbours != 0)",
        "self.neighbour_ids.logits(ids), news.neighbours >= 0)",
    ),
    Fault(
        "padding counts as a user's neighbour",
        GERL,
        "self.neighbour_users.logits(ids), profiles.neighbours != 0)",
        "self.neighbour_users.logits(ids), profiles.neighbours >= 0)",
    ),
    Fault(
        "padding counts as a story's neighbour",
        GERL,
        "self.neighbour_news(vectors, logits, positions != 0)",
        "self.neighbour_news(vectors, logits, positions >= 0)",
    ),
    Fault(
        "padding counts as a click",
        GERL,
        "self.clicked(vectors, logits, profiles.clicked_mask)",
        "self.clicked(vectors, logits, profiles.clicked >= 0)",
    ),
    Fault(
        "skipped stories in place of clicked ones",
        GERL,
        "encoded.clicked_logit), profiles.clicked)\n"
        "        semantic = self.clicked(vectors, logits, profiles.clicked_mask)",
        "encoded.clicked_logit), profiles.skipped)\n"
        "        semantic = self.clicked(vectors, logits, profiles.skipped_mask)",
    ),
    Fault(
        "the attention of users over neighbour ids of stories",
        GERL,
        "self.neighbour_ids(ids, self.neighbour_ids.logits(ids)",
        "self.neighbour_users(ids, self.neighbour_users.logits(ids)",
    ),
    Fault(
        "the user's id and neighbours swapped",
        GERL,
        "torch.cat([semantic, own, others]",
        "torch.cat([semantic, others, own]",
    ),
    Fault("the user's id left out", GERL, "torch.cat([semantic, own, others]", "torch.cat([semantic, 0 * own, others]"),
    Fault(
        "a user's neighbours left out",
        GERL,
        "torch.cat([semantic, own, others]",
        "torch.cat([semantic, own, 0 * others]",
    ),
    Fault(
        "vectors and ids of a story's neighbours swapped",
        GERL,
        "torch.cat([semantic, neighbours, ids]",
        "torch.cat([semantic, ids, neighbours]",
    ),
    Fault(
        "the vectors of a story's neighbours left out",
        GERL,
        "torch.cat([semantic, neighbours, ids]",
        "torch.cat([semantic, 0 * neighbours, ids]",
    ),
    Fault(
        "ids of neighbours are unknown, too",
        GERL,
        "self.users.of_neighbours(profiles.neighbours)",
        "self.users(profiles.neighbours.flatten()).unflatten(0, profiles.neighbours.shape)",
    ),
]

GROUPS = [
    Group("LibFM", tests_of("libfm"), FEATURES),
    Group("DeepFM", tests_of("deepfm"), DEEP),
    Group("Features of stories in DFN and DEERS", tests_of("deers", "dfn"), STORY_FIELDS),
    Group("DFN", tests_of("dfn"), FEEDBACK_NETWORK),
    Group("DEERS", tests_of("deers"), PAIRWISE),
    Group("LSTUR", tests_of("lstur"), LONG_AND_SHORT),
    Group("NAML", tests_of("naml"), VIEWS),
    Group("GERL", tests_of("gerl"), TWO_HOPS),
]
