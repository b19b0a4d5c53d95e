"""The guard in conftest.py guards: a test that leaves this machine fails."""

import os
import socket

import pytest


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_no_connection_leaves_this_machine(method):
    """192.0.2.1 is reserved for documentation (RFC 5737): without the guard this times out."""
    with socket.socket() as outward:
        outward.settimeout(0.5)
        with pytest.raises(Exception, match=r"a connection to 192\.0\.2\.1"):
            getattr(outward, method)(("192.0.2.1", 80))


def test_no_name_is_looked_up():
    """Libraries that would call home fail at the look-up already."""
    with pytest.raises(Exception, match=r"a look-up of example\.org"):
        socket.create_connection(("example.org", 80), timeout=0.5)


def test_loopback_works():
    """Tests may run servers of their own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()


def test_hub_libraries_are_told_to_stay_offline():
    """Subprocesses, which the guard does not reach, inherit these."""
    assert os.environ["HF_HUB_OFFLINE"] == os.environ["TRANSFORMERS_OFFLINE"] == "1"
