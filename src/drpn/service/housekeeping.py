"""Work that a running service does from time to time: close old impressions, delete what is past the retention."""

import asyncio
import gc
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from drpn.errors import DrpnError
from drpn.service.newsroom import Newsroom
from drpn.store.base import Store

_LOG = logging.getLogger("drpn.service.housekeeping")
_TURNS_TO_COLLECT = 60


@asynccontextmanager
async def housekeeping(newsroom: Newsroom, store: Store, *, seconds: float = 60.0) -> AsyncIterator[None]:
    """Keep house every minute while the block runs."""
    task = asyncio.create_task(_repeat(newsroom, store, seconds))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _repeat(newsroom: Newsroom, store: Store, seconds: float) -> None:
    for turn in itertools.count(1):
        await asyncio.sleep(seconds)
        if turn % _TURNS_TO_COLLECT == 0:
            gc.collect()  # see `garbage`
        try:
            await asyncio.to_thread(newsroom.close_stale)
            while await asyncio.wrap_future(store.delete_expired()):
                pass
        except DrpnError as error:  # such as a store that is busy; the next turn tries again
            _LOG.warning("housekeeping failed: %s", type(error).__name__)
