"""Networks from other libraries: what is asked of them, and what is said where they are not there.

The libraries themselves are no dependency; small stand-ins take their place.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from unalike.errors import ConfigError
from unalike.models.pretrained import DistilBert, EfficientNet
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import task


class Body(nn.Sequential):
    num_features = 5


def timm(seen: dict[str, Any]) -> ModuleType:
    def create_model(name: str, **options: Any) -> nn.Module:
        seen.update(name=name, **options)
        return Body(nn.Conv2d(options["in_chans"], 5, 3), nn.BatchNorm2d(5))

    module = ModuleType("timm")
    module.create_model = create_model  # type: ignore[attr-defined]
    return module


def test_efficientnet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its features with AAggFF's head; weights of a whole classifier fill the body."""
    seen: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "timm", timm(seen))
    other = Body(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))
    save_file(
        {**other.state_dict(), "classifier.weight": torch.ones(2)}, tmp_path / "w.safetensors"
    )
    made = EfficientNet(weights=str(tmp_path / "w.safetensors")).build((3, 40, 40), 8)
    assert (seen["name"], seen["pretrained"], seen["num_classes"]) == ("efficientnet_b0", False, 0)
    assert made(torch.zeros(2, 3, 40, 40)).shape == (2, 8)
    assert made.classifier[1].in_features == 49 * 5
    torch.testing.assert_close(made.features[0][0].weight, other[0].weight)
    torch.save({"0.weight": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(ConfigError, match="are not the weights of efficientnet_b0"):
        EfficientNet(weights=str(tmp_path / "other.pth")).build((3, 40, 40), 8)
    with pytest.raises(ConfigError, match="no weights at"):
        EfficientNet(weights=str(tmp_path / "none.pth")).build((3, 40, 40), 8)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(dim=6)
        self.embed = nn.Embedding(9, 6)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor]:
        return (self.embed(input_ids) * attention_mask[..., None],)


def test_distilbert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, asked = ModuleType("transformers"), dict[str, Any]()

    def from_pretrained(place: str, **options: Any) -> nn.Module:
        asked.update(place=place, **options)
        return Encoder()

    module.AutoModel = SimpleNamespace(from_pretrained=from_pretrained)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)
    with pytest.raises(ConfigError, match=r"config\.json"):
        DistilBert(weights=str(tmp_path)).build((4,), 1)
    (tmp_path / "config.json").write_text("{}")
    made = DistilBert(weights=str(tmp_path)).build((4,), 1)
    assert asked == {
        "place": str(tmp_path),
        "local_files_only": True,
        "attn_implementation": "eager",
        "use_safetensors": True,
    }
    assert made(torch.tensor([[3, 4, 0, 0], [5, 1, 2, 8]])).shape == (2, 1)
    assert sum(p.numel() for p in made.classifier.parameters()) == 6 * 6 + 6 + 6 + 1


def test_libraries_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match=r"pip install 'unalike\[pretrained\]'"):
        EfficientNet().build((3, 40, 40), 8)


def test_trained_weights_are_not_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from unalike.federation.datasets.digits import Digits

    monkeypatch.setitem(sys.modules, "timm", timm({}))
    raw = {"data": {"name": "digits"}, "model": {"name": "efficientnet", "weights": "w.pth"}}
    with pytest.raises(ConfigError, match=r"set run\.init = 'given'"):
        task(parse(raw), Digits().load())


def test_tokens_of_question_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tokenizer from disk makes rows of symbols for an encoder of texts."""
    from unalike.errors import DataError
    from unalike.federation.datasets.mqp import Mqp

    (tmp_path / "mqp.csv").write_text(
        "doctor_id,question_1,question_2,label\n1,a b,a,1\n2,b,c d,0\n1,c,c,1\n2,d,a,0\n"
    )
    module = ModuleType("transformers")

    def tokenize(one: list[str], two: list[str], **options: Any) -> dict[str, list[list[int]]]:
        assert options == {"padding": "max_length", "truncation": True, "max_length": 8}
        pairs = [
            [1, *map(ord, a.split()), 2, *map(ord, b.split())]
            for a, b in zip(one, two, strict=True)
        ]
        return {"input_ids": [[*p, *[0] * (8 - len(p))] for p in pairs]}

    found = SimpleNamespace(from_pretrained=lambda place, **options: tokenize)
    module.AutoTokenizer = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)
    made = Mqp(folder=str(tmp_path), tokenizer=str(tmp_path), length=8).load()
    assert made.x.tolist()[0] == [1, 97, 98, 2, 97, 0, 0, 0]
    assert made.y.tolist() == [1, 0, 1, 0]
    assert not made.x.is_floating_point()
    assert made.group_names == ("1", "2")
    with pytest.raises(DataError, match="no tokenizer at"):
        Mqp(folder=str(tmp_path), tokenizer=str(tmp_path / "none")).load()
