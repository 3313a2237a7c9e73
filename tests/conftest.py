"""What tests of several folders need."""

import contextlib
import resource
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job of a shell's background, whose programs inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def full_disk():
    """Give a context in which no file can grow beyond so many bytes, as on a full disk."""

    @contextlib.contextmanager
    def limit(n_bytes):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limit
