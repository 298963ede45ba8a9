"""Real texts: no more than one false alarm a megabyte, and a time beside that of `json.dumps`."""

import importlib.util
from pathlib import Path

import pytest

from tickets.redact import Redactor


@pytest.mark.parametrize("package", ["pydantic", "hypothesis", "mypy"])
def test_the_sources_of_a_well_known_package_hold_hardly_a_secret(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    texts = [
        path.read_bytes() for path in Path(spec.origin).parent.rglob("*") if path.suffix in (".py", ".pyi")
    ]
    megabytes = sum(map(len, texts)) / 1e6
    assert megabytes > 1
    alarms = [one.kind for text in texts for one in Redactor().secrets(text)]
    assert len(alarms) <= megabytes, alarms
