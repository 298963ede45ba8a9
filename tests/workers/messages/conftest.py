"""A folder of messages for each test."""

import pytest
from support.mail import Post


@pytest.fixture
def post(tmp_path):
    return Post(tmp_path)
