"""State files as editors save them."""

import pytest
from support.status import LITERAL


@pytest.fixture(params=["lf", "crlf", "mark"])
def start(request):
    """Return the file as three editors would save it."""
    text = LITERAL.replace("\n", "\r\n") if request.param == "crlf" else LITERAL
    return (b"\xef\xbb\xbf" if request.param == "mark" else b"") + text.encode()
