"""Profiles of users with feedback that came after the log."""

from datetime import UTC, datetime, timedelta

from drpn.bundle.recorded import RecordedProfiles
from drpn.state.profile import Profile

NOW = datetime(2026, 5, 9, 8, 31, tzinfo=UTC)


def skipped(profiles: RecordedProfiles) -> list[str]:
    return [entry.news_id for entry in profiles.profile("anna").skipped]


def test_page_views_of_one_moment_stay_in_the_order_of_recording() -> None:
    profiles = RecordedProfiles(clicked=5, skipped=5)
    profiles.start("anna", Profile(skipped=["old"]), ())
    profiles.record("anna", ["b", "c", "d"], [], NOW)
    profiles.record("anna", ["a"], [], NOW)
    assert skipped(profiles) == ["old", "b", "c", "d", "a"]


def test_a_late_page_view_takes_its_place_in_time() -> None:
    profiles = RecordedProfiles(clicked=5, skipped=5)
    profiles.start("anna", Profile(), ())
    profiles.record("anna", ["b"], [], NOW)
    profiles.record("anna", ["a"], [], NOW - timedelta(seconds=1))
    assert skipped(profiles) == ["a", "b"]
