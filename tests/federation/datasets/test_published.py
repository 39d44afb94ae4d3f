"""Datasets of the sources that nobody can fetch here: small files in their published layouts."""

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unalike import tree
from unalike.errors import DataError
from unalike.federation.build import federate
from unalike.federation.data import TEST
from unalike.federation.datasets import DATASETS
from unalike.federation.datasets.celeba import CelebA
from unalike.federation.datasets.fed_isic import FedIsic
from unalike.federation.datasets.reddit import MARKS, Reddit
from unalike.federation.datasets.speech_commands import SpeechCommands
from unalike.federation.datasets.tiny_imagenet import TinyImageNet
from unalike.federation.partition.natural import Natural
from unalike.kinds import NOT_COUNTED
from unalike.run.configuration.config import parse
from unalike.run.experiment.build import experiment

NEW = {
    "tiny_imagenet": "cs231n.stanford.edu",
    "celeba": "mmlab.ie.cuhk.edu.hk",
    "reddit": "TalwalkarLab/leaf",
    "speech_commands": "download.tensorflow.org",
    "fed_isic": "owkin/FLamby",
}


def picture(path: Path, value: int, size: tuple[int, int] = (64, 64), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, value, value)).save(path)


@pytest.mark.parametrize(("name", "place"), NEW.items())
def test_what_is_missing_and_where_it_is(
    name: str, place: str, tmp_path: Path, monkeypatch: Any, one_sentence: Any
) -> None:
    monkeypatch.delenv("UNALIKE_DATA", raising=False)
    with one_sentence(DataError, name, place, "UNALIKE_DATA"):
        DATASETS[name]().load()
    with one_sentence(DataError, name, place):
        DATASETS[name](folder=str(tmp_path)).load()


def test_the_folder_that_is_not_whole(tmp_path: Path, one_sentence: Any) -> None:
    """The missing file is named, not only the set."""
    root = tmp_path / "tiny-imagenet-200"
    root.mkdir()
    with one_sentence(DataError, "wnids.txt", "cs231n"):
        TinyImageNet(folder=str(tmp_path)).load()
    (root / "wnids.txt").write_text("n01\n")
    with one_sentence(DataError, "train/n01/images", "cs231n"):
        TinyImageNet(folder=str(root)).load()
    (tmp_path / "identity_CelebA.txt").write_text("000001.jpg 7\n")
    with one_sentence(DataError, "list_attr_celeba.txt"):
        CelebA(folder=str(tmp_path)).load()


def tiny(root: Path) -> None:
    (root / "val").mkdir(parents=True)
    (root / "wnids.txt").write_text("n02\nn01\n")
    (root / "words.txt").write_text("n01\tgoldfish, Carassius auratus\nn02\tcrane\nn09\tcrane\n")
    for name, value in (("n01", 40), ("n02", 200)):
        for i in range(3):
            mode = "L" if i == 2 else "RGB"  # a few of the published ones are grey
            picture(root / "train" / name / "images" / f"{name}_{i}.JPEG", value, mode=mode)
        (root / "train" / name / f"{name}_boxes.txt").write_text("")
        picture(root / "val" / "images" / f"val_{name}.JPEG", value)
    lines = "val_n01.JPEG\tn01\t0\t0\t62\t62\nval_n02.JPEG\tn02\t1\t2\t3\t4\n"
    (root / "val" / "val_annotations.txt").write_text(lines)


def test_tiny_imagenet(tmp_path: Path, monkeypatch: Any) -> None:
    tiny(tmp_path / "tiny-imagenet-200")
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    found = TinyImageNet().load()
    assert found.x.shape == (6, 3, 64, 64)
    assert found.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.class_names == ("crane", "goldfish")
    assert found.test_y is not None
    assert found.test_y.tolist() == [1, 0]
    assert float(found.x[0].mean()) == pytest.approx(200 / 255, abs=0.01)
    assert float(found.x[-1].mean()) == pytest.approx(40 / 255, abs=0.01)
    assert TinyImageNet(per_class=1, size=32).load().x.shape == (2, 3, 32, 32)


def celebrities(raw: Path) -> None:
    raw.mkdir(parents=True)
    rows = [(f"{i:06d}.jpg", 7 if i < 5 else 31 if i < 7 else 9, i % 2) for i in range(12)]
    (raw / "identity_CelebA.txt").write_text("".join(f"{n} {who}\n" for n, who, _ in rows))
    head = f"{len(rows)}\nBald Smiling Young\n"
    body = "".join(f"{n} -1  {'1' if s else '-1'} -1\n" for n, _, s in rows)
    (raw / "list_attr_celeba.txt").write_text(head + body)
    for n, _, _ in rows:
        picture(raw / "img_align_celeba" / n, int(n[:6]) * 10, (178, 218))


def test_celeba_from_its_metadata(tmp_path: Path, one_sentence: Any) -> None:
    """31 has two pictures and is left out."""
    celebrities(tmp_path / "celeba" / "data" / "raw")
    found = CelebA(folder=str(tmp_path)).load()
    assert found.x.shape == (10, 3, 84, 84)
    assert found.group_names == ("7", "9")
    assert found.y.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    assert found.kind == "binary"
    assert float(found.x[3].mean()) == pytest.approx(30 / 255, abs=0.01)
    assert CelebA(folder=str(tmp_path), people=1, size=16).load().x.shape == (5, 3, 16, 16)
    with one_sentence(DataError, "'Smile'", "Smiling"):
        CelebA(folder=str(tmp_path), attribute="Smile").load()


def test_celeba_from_leaf(tmp_path: Path, one_sentence: Any) -> None:
    data = tmp_path / "celeba" / "data"
    celebrities(data / "raw")
    (data / "train").mkdir()
    (data / "test").mkdir()
    some = {"7": {"x": ["000001.jpg"], "y": [1.0]}, "9": {"x": ["000008.jpg"], "y": [0.0]}}
    more = {"7": {"x": ["000002.jpg"], "y": [0.0]}}
    for part, users in (("train", some), ("test", more)):
        text = json.dumps({"users": list(users), "num_samples": [1], "user_data": users})
        (data / part / "all_data_niid_0_keep_5_train_9.json").write_text(text)
    found = CelebA(folder=str(tmp_path)).load()
    assert found.y.tolist() == [1, 0, 0]
    assert found.groups is not None
    assert found.groups.tolist() == [0, 1, 0]
    (data / "raw" / "img_align_celeba" / "000008.jpg").unlink()
    with one_sentence(DataError, "000008.jpg", "mmlab"):
        CelebA(folder=str(tmp_path)).load()


def test_fed_isic(tmp_path: Path, one_sentence: Any) -> None:
    root = tmp_path / "fed_isic2019"
    pictures = root / "ISIC_2019_Training_Input_preprocessed"
    rows = [
        ("ISIC_1", 1, 0, "train"),
        ("ISIC_2_downsampled", 0, 4, "test"),
        ("ISIC_3", 7, 0, "test"),
    ]
    rows += [("ISIC_4", 2, 4, "train"), ("ISIC_5", 1, 0, "train"), ("ISIC_6", 1, 4, "train")]
    head = "image,MEL,NV,BCC,AK,BKL,DF,VASC,SCC,UNK,target,center,fold,fold2\n"
    zeros = "0.0," * 9
    root.mkdir()
    lines = [f"{n},{zeros}{y},{c},{fold},{fold}_{c}\n" for n, y, c, fold in rows]
    (root / "train_test_split").write_text(head + "".join(lines))
    for n, y, *_ in rows:
        picture(pictures / f"{n}.jpg", 30 * y, (298, 224))
    found = FedIsic(folder=str(tmp_path), size=20).load()
    assert found.x.shape == (6, 3, 20, 20)
    assert found.y.tolist() == [1, 0, 7, 2, 1, 1]
    assert found.group_names == ("centre 0", "centre 4")
    assert found.classes == 8
    made = federate(FedIsic(folder=str(tmp_path), size=20), Natural(), validation=0.0)
    assert made.sizes(TEST).tolist() == [1, 1]
    assert float(found.x[2].mean()) == pytest.approx(210 / 255, abs=0.01)
    (root / "train_test_split").write_text(head.replace("center", "centre"))
    with one_sentence(DataError, "'center'"):
        FedIsic(folder=str(tmp_path)).load()


def sound(path: Path, values: list[int], rate: int = 16_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(np.array(values, "<i2").tobytes())


def test_speech_commands(tmp_path: Path, one_sentence: Any) -> None:
    """Speaker 0b has too few recordings, 0c is for testing, 0d for validation."""
    root = tmp_path / "speech_commands_v0.02"
    for word in ("no", "yes"):
        for i in range(2):
            sound(root / word / f"0a_nohash_{i}.wav", [16384] * 16_000 if i else [-32768] * 4)
        sound(root / word / "0c_nohash_0.wav", [0, 1])
        sound(root / word / "0d_nohash_0.wav", [0, 1])
    sound(root / "yes" / "0b_nohash_0.wav", [5])
    sound(root / "_background_noise_" / "pink_noise.wav", [1] * 20_000)
    (root / "validation_list.txt").write_text("no/0d_nohash_0.wav\nyes/0d_nohash_0.wav\n")
    (root / "testing_list.txt").write_text("no/0c_nohash_0.wav\nyes/0c_nohash_0.wav\n")
    found = SpeechCommands(folder=str(tmp_path)).load()
    assert found.x.shape == (4, 1, 16_000)
    assert found.group_names == ("0a",)
    assert found.class_names == ("no", "yes")
    assert found.x[0, 0, :6].tolist() == [-1, -1, -1, -1, 0, 0]
    assert float(found.x[1].mean()) == 0.5
    assert found.test_x is not None
    assert found.test_x.shape == (2, 1, 16_000)
    assert SpeechCommands(folder=str(tmp_path), every=4).load().x.shape == (4, 1, 4_000)
    more = SpeechCommands(folder=str(tmp_path), min_clips=1).load()
    assert more.group_names == ("0a", "0b")
    with one_sentence(DataError, "min_clips"):
        SpeechCommands(folder=str(tmp_path), min_clips=9).load()
    sound(root / "yes" / "0a_nohash_0.wav", [5], rate=8_000)
    with one_sentence(DataError, "8000", "16000"):
        SpeechCommands(folder=str(tmp_path)).load()


def comments(root: Path) -> None:
    """Two users; <PAD> follows the end of a comment."""
    a = ["<BOS>", "the", "cat", "sat"]
    b = ["on", "the", "mat", "<EOS>"]
    short = ["<BOS>", "the", "<EOS>", "<PAD>"]

    def said(*texts: list[list[str]]) -> dict[str, Any]:
        after = [[[*t[1:], "<PAD>"] for t in text] for text in texts]
        return {"x": list(texts), "y": [{"target_tokens": t, "subreddit": "aww"} for t in after]}

    users = {"ann": said([a, b], [short]), "bob": said([b], [a], [short])}
    rare = {"ann": said([["<BOS>", "zebra", "<EOS>", "<PAD>"]]), "bob": said([a])}
    for part, some in (("train", users), ("test", rare)):
        (root / "data" / part).mkdir(parents=True)
        text = json.dumps({"users": list(some), "num_samples": [], "user_data": some})
        (root / "data" / part / "part.json").write_text(text)


def test_reddit(tmp_path: Path, one_sentence: Any) -> None:
    comments(tmp_path / "reddit")
    found = Reddit(folder=str(tmp_path)).load()
    assert found.class_names == (*MARKS, "the", "cat", "mat", "on", "sat")
    assert found.classes == 9
    assert found.group_names == ("ann", "bob")
    # Of the rare word's sequence nothing is to be predicted: it is left out.
    assert found.x.tolist()[0] == [2, 4, 5, 8]
    assert found.y.tolist()[0] == [4, 5, 8, NOT_COUNTED]
    assert found.y.tolist()[2] == [4, *[NOT_COUNTED] * 3]
    assert len(found) == 7
    assert found.strata.tolist()[:3] == [8, 6, 4]
    few = Reddit(folder=str(tmp_path), words=8, users=1).load()
    assert few.classes == 8
    assert few.group_names == ("ann",)
    (tmp_path / "reddit" / "data" / "train" / "part.json").write_text("{}")
    with one_sentence(DataError, "target_tokens"):
        Reddit(folder=str(tmp_path)).load()


@pytest.mark.parametrize("inner", ["new_small_data", "data/raw/new_small_data"])
def test_reddit_as_its_archive_has_it(inner: str, tmp_path: Path) -> None:
    """Three files in one folder; some next words are lists of their own; val is not read."""
    comments(tmp_path / "made")
    folder = tmp_path / "reddit" / inner
    folder.mkdir(parents=True)
    for part in ("train", "test"):
        some = json.loads((tmp_path / "made" / "data" / part / "part.json").read_text())
        for data in some["user_data"].values():
            data["y"][0] = data["y"][0]["target_tokens"]
        (folder / f"{part}_data.json").write_text(json.dumps(some))
    (folder / "val_data.json").write_text("not read")
    found = Reddit(folder=str(tmp_path)).load()
    same = Reddit(folder=str(tmp_path / "made")).load()
    assert found.class_names == same.class_names  # of the training file alone
    assert "zebra" not in found.class_names
    assert torch.equal(found.x, same.x)
    assert torch.equal(found.y, same.y)
    assert Reddit(folder=str(folder.parent)).load().x.shape == found.x.shape


def raw(name: str, folder: Path, model: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {
        "rounds": 2,
        "data": {"name": name, "folder": str(folder), **data},
        "partition": {"name": "natural"},
        "split": {"validation": 0.0, "test": 0.3},
        "model": model,
        "local": {"batch_size": 2, "lr": 0.1},
    }


@pytest.mark.parametrize("engine", ["sequential", "vectorized"])
def test_reddit_trains(engine: str, tmp_path: Path) -> None:
    """What does not count has no part in the loss: its logits have no gradient."""
    comments(tmp_path / "reddit")
    lstm = {"name": "stacked_lstm", "embedding": 3, "hidden": 4, "every_step": True, "bias": True}
    config = parse(raw("reddit", tmp_path, lstm) | {"engine": {"kind": engine}})
    made = experiment(config)
    progress = made.course.begin()
    for t in range(2):
        progress, *_ = made.course.advance(progress, t)
    found = made.evaluator(progress.state)
    assert np.isfinite(np.nanmean(found.clients["local"]["loss"]))
    task, w = made.recipe.algorithm.task, made.course.model(progress)
    out = torch.randn(1, 4, 9, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[4, NOT_COUNTED, 5, NOT_COUNTED]])
    loss = task.per_example(out, y)
    want = -(out.log_softmax(2)[0, 0, 4] + out.log_softmax(2)[0, 2, 5]) / 2
    torch.testing.assert_close(loss[0], want)
    loss.sum().backward()
    assert out.grad is not None
    assert not out.grad[0, [1, 3]].any()
    assert all(torch.isfinite(leaf).all() for leaf in tree.leaves(w))


def test_pictures_train(tmp_path: Path) -> None:
    celebrities(tmp_path / "celeba" / "data" / "raw")
    config = parse(raw("celeba", tmp_path, {"name": "leaf_cnn"}, size=32))
    made = experiment(config)
    progress, *_ = made.course.advance(made.course.begin(), 0)
    assert made.course.model(progress) is not None
