"""Faults in rules of a running site and in the steps that several processes take together."""

from mutations.planting import Fault, Group

PUBLISHED, PARTS, SKIPPED, SHARED = (
    "state/publication.py",
    "state/page_views.py",
    "service/skips.py",
    "training/shared.py",
)

PUBLICATION = [
    Fault("a later story does not date the earlier ones", PUBLISHED, "np.minimum.accumulate(", "("),
    Fault("the last appearance counts and not the first", PUBLISHED, "np.minimum.at(first", "np.fmax.at(first"),
    Fault("only the story that is shown was published", PUBLISHED, "= self._waiting[:count], self._waiting[count:]",
          "= self._waiting[count - 1 : count], self._waiting[count:]"),
    Fault("a put story is as new as the newest one", PUBLISHED, "time = self._published[place][1]",
          "time = self._published[-1][1]"),
]  # fmt: skip
LOG_PARTS = [
    Fault("a part runs over midnight", PARTS, "midnight(int(views.times[start])) + DAY",
          "midnight(int(views.times[start])) + 9 * DAY"),
    Fault("a second is cut in two", PARTS, 'views.times[stop - 1], side="right"', 'views.times[stop - 1], side="left"'),
]  # fmt: skip
SKIPS = [
    Fault("a skip raises a story", SKIPPED, "lowered[list(places)] -= ", "lowered[list(places)] += "),
    Fault("skips never fade", SKIPPED, "0.5 ** (", "1.0 ** ("),
    Fault("many skips count as one", SKIPPED, "self.discount * times * faded", "self.discount * faded"),
]
PROCESSES = [
    Fault("every process learns from the whole batch", SHARED, "self.shared.ranks.part(samples.size)", "slice(None)"),
    Fault("parts of different size count the same", SHARED, "return own, own.size / samples.size",
          "return own, 1 / self.shared.ranks.size"),
    Fault("tables keep their own gradients", SHARED, "        self.shared.exchange_tables()\n", ""),
    Fault("gradients of tables are summed, not averaged", SHARED, " / self.ranks.size\n", "\n"),
]  # fmt: skip

GROUPS = [
    Group("Publication", ("tests/state/test_publication.py",), PUBLICATION),
    Group("Parts of a log", ("tests/state/test_page_views.py",), LOG_PARTS),
    Group("Skipped stories", ("tests/service/test_skips.py",), SKIPS),
    Group("Several processes", ("tests/training/test_ranks.py", "-k", "fifty and drpn"), PROCESSES),
]
