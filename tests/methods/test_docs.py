from pathlib import Path

from projbank.methods import METHODS


def test_every_method_has_its_paragraph_and_row():
    text = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    for name, cls in METHODS.items():
        assert f"| `{name}` | {cls.distance} |" in text, name
        assert any(line.startswith("**") and f"**`{name}`**" in line for line in text.splitlines()), name
