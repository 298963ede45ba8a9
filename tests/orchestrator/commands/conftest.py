"""A project with a plan."""

import pytest
from support.plans import PLAN


@pytest.fixture
def planned(lab):
    lab.commit({"STATUS.md": PLAN})
    return lab
