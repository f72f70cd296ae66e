"""Changes of the store as answers."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import TypeAdapter

from drpn.service.messages.fields import Id
from drpn.service.messages.news import ChangeAnswer
from drpn.store.records import Receipt

Result = TypeVar("Result")


async def resolved(future: Future[Result]) -> Result:
    """The result of a future. If the client goes away or the time is over, the work goes on."""
    loop = asyncio.get_running_loop()
    waiting = loop.create_future()

    def wake() -> None:
        if not waiting.done():
            waiting.set_result(None)

    def done(_: Future[Result]) -> None:
        with suppress(RuntimeError):  # nobody waits if the loop is closed
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(done)
    await waiting
    return future.result()


async def changed(change: Callable[[], Future[Receipt]]) -> ChangeAnswer:
    """The answer to a change, once it is durable."""
    receipt = await resolved(change())
    return ChangeAnswer(sequence=receipt.sequence, repeated=receipt.repeated)


def id_schema(example: str) -> dict[str, Any]:
    """The JSON schema of an id in a path."""
    return TypeAdapter(Id).json_schema() | {"examples": [example]}
