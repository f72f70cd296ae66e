"""Faults in the baselines that read titles, categories and neighbours: LSTUR, NAML and GERL."""

from mutations.planting import Fault, Group, tests_of

LSTUR, NAML, GERL = (f"models/baselines/{name}.py" for name in ("lstur", "naml", "gerl"))

LONG_AND_SHORT = [
    Fault("no dropout in titles", LSTUR, "hidden, settings.dropout)", "hidden, 0.0)"),
    Fault("no user is masked", LSTUR, "(shape.users, long, settings.masking,", "(shape.users, long, 0.0,"),
    Fault(
        "a story without a category has the vector of padding",
        LSTUR,
        "gather_rows(self.table.weight, categories) * (categories != 0).unsqueeze(-1)",
        "gather_rows(self.table.weight, categories)",
    ),
    Fault(
        "the category left out",
        LSTUR,
        "[vector, self.category(news.category),",
        "[vector, 0 * self.category(news.category),",
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
    Group("LSTUR", tests_of("lstur"), LONG_AND_SHORT),
    Group("NAML", tests_of("naml"), VIEWS),
    Group("GERL", tests_of("gerl"), TWO_HOPS),
]
