"""Reddit (Caldas et al., LEAF, 2018): every next word of comments of December 2017, by user.

LEAF's JSON files: a row of x is a comment, cut into sequences of ten words with <BOS>, <EOS> and
<PAD>; one of y has the words that follow, ``target_tokens``. The vocabulary is that of the training
files: <PAD>, <UNK>, <BOS> and <EOS>, then words by frequency. These four are never to be predicted
(AAggFF, Hahn et al. 2024): where one follows, nothing is learned and nothing is scored.
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
_UNKNOWN = 1


class Reddit(StoredDataset):
    """Comments of Reddit's users, predicting every next word; the users are the clients."""

    title: ClassVar[str] = "reddit"
    files: ClassVar[str] = (
        "LEAF's reddit/data folder of JSON files (https://github.com/TalwalkarLab/leaf, "
        "data/reddit)"
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
            if files := leaf_files(place):
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
                if path.parent.name != "test":
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


def _sequences(path: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """(user, words, the words after them) of a file."""
    try:
        users = json.loads(path.read_text(encoding="utf-8"))["user_data"]
        for who, data in users.items():
            for comment, target in zip(data["x"], data["y"], strict=True):
                for x, y in zip(comment, target["target_tokens"], strict=True):
                    yield who, x, y
    except (KeyError, TypeError, AttributeError, ValueError):
        raise DataError(
            f"'{path}' is not a LEAF file of Reddit, with 'user_data' of x and target_tokens."
        ) from None


def _coded(texts: list[list[str]], numbers: dict[str, int]) -> np.ndarray:
    if len({len(text) for text in texts}) > 1:
        raise DataError("LEAF's sequences must all be equally long; prepare the files again.")
    return np.array([[numbers.get(word, _UNKNOWN) for word in text] for text in texts], np.int64)
