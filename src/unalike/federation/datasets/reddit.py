"""Reddit (Caldas et al., LEAF, 2018): every next word of comments of December 2017, by user.

new_small_data/train_data.json, val_data.json, test_data.json    as the published archive has them
data/train/*.json, data/val/*.json, data/test/*.json             as LEAF's scripts want them

A row of x is a comment, cut into sequences of ten words with <BOS>, <EOS> and <PAD>; one of y has
the words that follow, ``target_tokens``, or is the list of them. A user's last comments are in the
test files; they are put together with those for training and split anew, and the files for
validation are not read, as the authors of AAggFF (Hahn et al. 2024) do it. The vocabulary is of the
training files: <PAD>, <UNK>, <BOS> and <EOS>, then words by frequency. These four are never to be
predicted: where one follows, nothing is learned and nothing is scored.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import StoredDataset
from unalike.federation.readers.labels import code_clients
from unalike.federation.readers.leaf import leaf_files
from unalike.kinds import NOT_COUNTED

if TYPE_CHECKING:
    from unalike.federation.data import Examples

MARKS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")
_ARCHIVE = "new_small_data"  # the folder in reddit_subsampled.zip
_UNKNOWN = 1


class Reddit(StoredDataset):
    """Comments of Reddit's users, predicting every next word; the users are the clients."""

    title: ClassVar[str] = "reddit"
    files: ClassVar[str] = (
        "LEAF's reddit_subsampled.zip, unpacked in a folder reddit (the link is in "
        "https://github.com/TalwalkarLab/leaf, data/reddit)"
    )

    words: int = Field(
        default=10_000, ge=8, description="size of the vocabulary, including the four marks"
    )
    users: int = Field(
        default=0, ge=0, description="how many users to keep, in the order of names; 0: all"
    )

    def load(self) -> "Examples":
        """Sequences [N, 10] of words as numbers, and the words after each."""
        for place in self.subfolders("reddit", "leaf/reddit"):
            if files := _files(place):
                return self._examples(files)
        raise self.absent()

    def _examples(self, files: list[Path]) -> "Examples":
        import torch

        from unalike.federation.data import Examples

        texts, after, user = list[list[str]](), list[list[str]](), list[str]()
        count = Counter[str]()
        for path in files:
            for name, one, following in _sequences(path):
                texts.append(one)
                after.append(following)
                user.append(name)
                if not _for_test(path):
                    count.update(one)
        who, numbers = np.array(user), self._numbers(count)
        kept = np.flatnonzero(np.isin(who, np.unique(who)[: self.users or None]))
        x, y = (_coded([some[i] for i in kept], numbers) for some in (texts, after))
        y[y < len(MARKS)] = NOT_COUNTED
        told = (y >= 0).any(1)  # a sequence whose next words are all unknown teaches nothing
        clients = code_clients(who[kept][told])
        return Examples(
            x=torch.from_numpy(x[told].astype(np.int32)),
            y=torch.from_numpy(y[told]),
            classes=len(numbers),
            kind="characters",
            groups=clients.codes,
            group_names=clients.names,
            class_names=tuple(numbers),
            name=self.title,
        )

    def _numbers(self, count: Counter[str]) -> dict[str, int]:
        """Word -> number: the marks, then the most frequent."""
        order = sorted((w for w in count if w not in MARKS), key=lambda w: (-count[w], w))
        return {w: i for i, w in enumerate((*MARKS, *order[: self.words - len(MARKS)]))}


def _files(place: Path) -> list[Path]:
    """Those for training and for testing."""
    for folder in (place / inner / _ARCHIVE for inner in ("", "data", "raw", "data/raw")):
        files = [folder / f"{part}_data.json" for part in ("train", "test")]
        if found := [file for file in files if file.is_file()]:
            return found
    return [path for path in leaf_files(place) if not path.name.startswith("val")]


def _for_test(path: Path) -> bool:
    return path.parent.name == "test" or path.name.startswith("test_data")


def _sequences(path: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """(user, words, the words after them) of a file."""
    try:
        users = json.loads(path.read_text(encoding="utf-8"))["user_data"]
        for who, data in users.items():
            for comment, target in zip(data["x"], data["y"], strict=True):
                after = target if isinstance(target, list) else target["target_tokens"]
                for x, y in zip(comment, after, strict=True):
                    yield who, x, y
    except (KeyError, TypeError, AttributeError, ValueError):
        raise DataError(
            f"'{path}' is not a LEAF file of Reddit, with 'user_data' of x and target_tokens."
        ) from None


def _coded(texts: list[list[str]], numbers: dict[str, int]) -> np.ndarray:
    if len({len(text) for text in texts}) > 1:
        raise DataError("LEAF's sequences must all be equally long; prepare the files again.")
    return np.array([[numbers.get(word, _UNKNOWN) for word in text] for text in texts], np.int64)
