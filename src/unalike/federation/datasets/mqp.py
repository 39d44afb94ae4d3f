"""Medical question pairs (McCreery et al., KDD 2020): do two questions mean the same?

Features need no trained model: each question is a unit vector of hashed words, word pairs and
character n-grams, and a pair is described by |a - b| and a * b. A pretrained text encoder reads
more from these 3,048 pairs: with ``tokenizer`` they are rows of its tokens, for model distilbert.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import StoredDataset
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.extras import require
from unalike.federation.readers.table_file import table_file

if TYPE_CHECKING:
    import polars as pl

    from unalike.federation.data import Examples

_COLUMNS = ("doctor_id", "question_1", "question_2", "label")


class Mqp(StoredDataset):
    """3,048 pairs of medical questions, same meaning or not; 11 doctors are the clients."""

    title: ClassVar[str] = "mqp"
    files: ClassVar[str] = "mqp.parquet or mqp.csv (doctor_id, question_1, question_2, label)"
    hub_name: ClassVar[str] = "curaihealth/medical_questions_pairs"

    buckets: int = Field(
        default=512, ge=16, le=65536, description="hash buckets; a pair has twice as many features"
    )

    tokenizer: str = Field(
        default="",
        description="folder of a tokenizer (distilbert-base-uncased): pairs become rows of tokens",
    )
    length: int = Field(default=200, ge=8, le=512, description="tokens of a pair")

    def load(self) -> "Examples":
        """Features [N, 2 * buckets], or tokens [N, length]; label 1 is the same meaning."""
        table = self._table()
        if self.tokenizer:
            return self._tokens(table)
        one = self._vectors(table["question_1"].to_list())
        two = self._vectors(table["question_2"].to_list())
        return from_arrays(
            np.concatenate([np.abs(one - two), one * two], axis=1),
            table["label"].to_numpy(),
            table["doctor_id"].to_numpy(),
            class_names=("different", "same"),
            name=self.title,
            normalise="none",
        )

    def _tokens(self, table: "pl.DataFrame") -> "Examples":
        import torch

        library = require("transformers", "pretrained", "a tokenizer")
        folder = Path(self.tokenizer).expanduser()
        if not folder.is_dir():
            raise DataError(
                f"there is no tokenizer at '{folder}'; fetch distilbert-base-uncased on a "
                "machine with a network and give its folder as data.tokenizer."
            )
        told = library.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        texts = (table[column].to_list() for column in _COLUMNS[1:3])
        options = {"padding": "max_length", "truncation": True, "max_length": self.length}
        tokens = np.array(told(*texts, **options)["input_ids"], np.int64)
        plain = from_arrays(
            np.zeros((len(tokens), 1)),
            table["label"].to_numpy(),
            table["doctor_id"].to_numpy(),
            class_names=("different", "same"),
            name=self.title,
            normalise="none",
        )
        return replace(plain, x=torch.from_numpy(tokens))

    def _vectors(self, texts: list[str]) -> np.ndarray:
        from sklearn.feature_extraction.text import HashingVectorizer

        half = self.buckets // 2
        words = HashingVectorizer(n_features=half, ngram_range=(1, 2), dtype=np.float32)
        letters = HashingVectorizer(
            n_features=self.buckets - half, analyzer="char_wb", ngram_range=(3, 5), dtype=np.float32
        )
        both = [words.transform(texts).toarray(), letters.transform(texts).toarray()]
        unit: np.ndarray = np.concatenate(both, axis=1) / np.float32(np.sqrt(2))
        return unit

    def _table(self) -> "pl.DataFrame":
        found = self.find("mqp.parquet") or self.find("mqp.csv")
        if found:
            table = table_file(found[0])
        else:
            table = self.hub()["train"].to_polars().rename({"dr_id": "doctor_id"})
        if absent := [column for column in _COLUMNS if column not in table.columns]:
            raise DataError(f"mqp has no column '{absent[0]}': it has {', '.join(table.columns)}.")
        return table.select(_COLUMNS)
