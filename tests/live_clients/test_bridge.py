"""The answer of a live client target when something other than the client fails."""

import asyncio

import pytest

from conformance.live_clients.__main__ import _answered
from conformance.live_clients.driver_process import DriverError


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (DriverError("the driver ended"), {"crash": "the driver did not start again: the driver ended"}),
        (TimeoutError(), {"crash": "the driver did not start again: TimeoutError"}),
        (KeyError("hex"), {"targetUnavailable": "a defect of the suite, in judging it live: KeyError: 'hex'"}),
    ],
    ids=["the driver", "its start", "the suite"],
)
def test_an_error_outside_the_client_is_reported_and_is_no_timeout(error, answer):
    async def answered():
        async def fails():
            raise error

        return await _answered(asyncio.ensure_future(fails()))

    assert asyncio.run(answered()) == answer
