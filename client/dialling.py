"""Opens a connection within a time."""

from __future__ import annotations

import asyncio

from kavka.client.errors import ConnectFailed, NotLetIn
from kavka.seams import Network, Tasks


async def dial(
    network: Network,
    tasks: Tasks,
    address: tuple[str, int],
    protocol: asyncio.BaseProtocol,
    *,
    within_s: float,
) -> None:
    """Connect `protocol` to a host and port; called in a task. ConnectFailed if that fails or takes
    longer, NotLetIn if the network says so; the protocol may have been connected even so, and is
    the caller's to close."""
    host, port = address
    caller = asyncio.current_task()
    assert caller is not None, "it is called in a task"
    timed_out = False

    def give_up() -> None:
        nonlocal timed_out
        timed_out = caller.cancel()

    timer = tasks.call_later(within_s, give_up)
    try:
        # One address, so that a refusal is seen as one.
        resolved = await network.resolve(host)
        await network.connect(resolved, port, lambda: protocol)
    except NotLetIn:
        raise
    except OSError as failure:
        raise ConnectFailed(
            f"can't connect to {host}:{port}: {failure}",
            refused=isinstance(failure, ConnectionRefusedError),
        ) from failure
    except asyncio.CancelledError:
        if not timed_out:
            raise
        caller.uncancel()
        raise ConnectFailed(
            f"{host}:{port} does not answer within {within_s:g} s", refused=False
        ) from None
    finally:
        timer.cancel()
