"""Something that an editor tries: clicks and skips that are added to a profile, and rules. Nothing of it is stored."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from drpn.errors import SettingsError
from drpn.service.page.forms import Form, field
from drpn.service.requests import RankRequest, Rules
from drpn.store.records import check_id

Kind = Literal["click", "skip", "pin", "bury"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_MOST = 30
"""Changes that can be tried together."""


@dataclass(frozen=True)
class Trial:
    """Changes by kind, and filters."""

    click: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    pin: tuple[str, ...] = ()
    bury: tuple[str, ...] = ()
    without: str = ""
    """Categories to leave out, separated by commas, as the editor typed them."""
    age: str = ""
    """Hours; older stories are left out."""
    share: str = ""
    """Percent of the list that one category may have."""

    @property
    def changes(self) -> list[tuple[Kind, str]]:
        """All changes as kind and story id."""
        return [(kind, news_id) for kind in KINDS for news_id in getattr(self, kind)]

    @property
    def empty(self) -> bool:
        """Whether nothing is tried."""
        return self == Trial()

    def rules(self) -> Rules:
        """The rules; refuses numbers that are none."""
        return Rules(
            pin=self.pin,
            bury=self.bury,
            without_categories=tuple(name.strip() for name in self.without.split(",") if name.strip()),
            max_age_hours=_number("the age", self.age),
            category_share=None if (share := _number("the share", self.share)) is None else share / 100,
        )

    def request(self, user_id: str, count: int) -> RankRequest:
        """The request of a ranking under the rules."""
        return RankRequest(user_id, count=count, rules=self.rules())

    def with_change(self, kind: Kind, news_id: str) -> "Trial":
        """One change more; a story that was clicked is not also skipped, and a pinned one not also buried."""
        check_id("the story", news_id)
        rivals: tuple[Kind, ...] = ("click", "skip") if kind in ("click", "skip") else ("pin", "bury")
        trial = self
        for rival in rivals:
            trial = trial.without_change(rival, news_id)
        if len(trial.changes) >= _MOST:
            raise SettingsError(f"{_MOST} changes can be tried at once; remove one first")
        return _set(trial, **{kind: (*getattr(trial, kind), news_id)})

    def without_change(self, kind: Kind, news_id: str) -> "Trial":
        """One change less."""
        return _set(self, **{kind: tuple(one for one in getattr(self, kind) if one != news_id)})


def read_trial(form: Form) -> Trial:
    """The changes that were tried before the button of a form was pressed."""
    trial = Trial()
    for kind in KINDS:
        for news_id in form.get(kind, []):
            trial = trial.with_change(kind, news_id)
    return trial


def press(trial: Trial, form: Form) -> Trial:
    """The trial after the button of a form was pressed: one more change, one less, new filters, or nothing at all."""
    if "reset" in form:
        return Trial()
    trial = _set(trial, **{name: field(form, name)[:200] for name in ("without", "age", "share")})
    for name, change in (("add", trial.with_change), ("remove", trial.without_change)):
        for button in form.get(name, []):
            named, _, news_id = button.partition(":")
            if kind := _kind(named):
                trial = change(kind, news_id)
    story, kind = field(form, "story"), _kind(field(form, "kind"))
    if story and kind and "apply" in form:
        trial = trial.with_change(kind, story)
    trial.rules()  # checks the numbers
    return trial


def _kind(text: str) -> Kind | None:
    return next((kind for kind in KINDS if kind == text), None)


def _set(trial: Trial, **fields: Any) -> Trial:
    return replace(trial, **fields)


def _number(name: str, text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise SettingsError(f"{name} is “{text[:20]}”; it takes a number") from error
