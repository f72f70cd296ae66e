"""A process that writes to a store until it is killed: `python killed_writer.py URL ROUND`.

Several threads send impressions, clicks and closings with idempotency keys. After each acknowledgement they print one
line that says what was acknowledged.
"""

import os
import sys
import threading

from drpn.store.base import Store
from drpn.store.opening import open_store, server_time
from drpn.store.records import Click, Impression, LoggedRanking, shown_stories

THREADS = 8
STORIES = [f"n{number}" for number in range(40)]


def impression(name: str) -> Impression:
    """The impression of a name ROUND-THREAD-NUMBER; always with the same content."""
    run, thread, number = map(int, name.split("-"))
    first = (run * 7 + thread * 5 + number * 3) % (len(STORIES) - 5)
    shown = STORIES[first : first + 5]
    return Impression(name, f"user{thread}", shown_stories(shown, shown[:1]), complete=number % 3 == 0)


def late_click(name: str) -> Click:
    """The click that follows the impression of that name."""
    of = impression(name)
    return Click(name, of.user_id, of.shown[3].news_id)


def write(store: Store, run: int, thread: int) -> None:
    """Write until the end."""
    number = 0
    while True:
        name = f"{run}-{thread}-{number}"
        store.add_impression(impression(name), key=f"impression {name}").result()
        say(f"impression {name}")
        if number % 2:
            store.add_click(late_click(name), key=f"click {name}").result()
            say(f"click {name}")
        if number % 5 == 4:
            store.close_for(f"user{thread}").result()
            say(f"closed {name}")
        store.append_rankings([LoggedRanking(name, None, server_time(), "b", "A", ("n1",))])
        number += 1


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # one call, so a line is whole or missing


if __name__ == "__main__":
    opened = open_store(sys.argv[1])
    say("opened")
    for number in range(THREADS):
        threading.Thread(target=write, args=(opened, int(sys.argv[2]), number)).start()
