"""Berka (Berka and Sochorova, PKDD'99 Discovery Challenge): loans of a Czech bank by region.

The label is 1 for a loan that was not paid back or is in debt (status B or D). North Bohemia, with
a single default, is left out, which leaves 621 loans in 7 regions. The 15 inputs are known when the
loan is granted; the transaction figures are of the time before it.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import StoredDataset, TableDataset
from unalike.federation.readers.arrays import from_arrays
from unalike.federation.readers.table_file import table_file

if TYPE_CHECKING:
    from unalike.federation.data import Examples

NUMBERS = (
    "amount",
    "duration",
    "payments",
    "days_account_to_loan",
    "owner_age",
    "order_sum",
    "trans_n",
    "trans_signed_amount_mean",
    "trans_balance_mean",
    "trans_balance_std",
    "trans_balance_min",
    "average_salary",
    "unemployment_96",
)
# The two 0/1 inputs: does the account get monthly statements, is its owner a woman.
DUMMIES = (("frequency", "POPLATEK MESICNE"), ("owner_sex", "F"))
# Those of AAggFF's released code, where figures of two years are averaged. It takes transactions
# after the loan as well, which say how the loan went; here they end before it.
AAGGFF = (
    "amount",
    "duration",
    "payments",
    "days_account_to_loan",
    "inhabitants",
    "average_salary",
    "entrepreneurs_per_1000",
    ("unemployment_95", "unemployment_96"),
    ("crimes_95", "crimes_96"),
    "order_mean",
    "trans_n",
    "trans_amount_mean",
    "trans_balance_mean",
)
AAGGFF_DUMMIES = (("frequency", "POPLATEK TYDNE"), ("frequency", "POPLATEK PO OBRATU"))
INPUTS = {"ours": (NUMBERS, DUMMIES), "aaggff": (AAGGFF, AAGGFF_DUMMIES)}


class Berka(StoredDataset, TableDataset):
    """621 bank loans with 15 inputs, defaulted or not; 7 Czech regions are the clients."""

    title: ClassVar[str] = "berka"
    files: ClassVar[str] = "berka/loan_features.parquet"

    normalise: Literal["auto", "none", "pooled", "client"] = Field(
        default="client",
        description="the 13 numbers to mean 0 and variance 1: over each client's own training rows "
        "(client), or over those of all training clients (pooled)",
    )

    inputs: Literal["ours", "aaggff"] = Field(
        default="ours",
        description="which 15 inputs: ours, or those of AAggFF's released code, as far as they are "
        "known when the loan is granted",
    )

    def load(self) -> "Examples":
        """The 13 numbers, not yet scaled, then the two 0/1 columns."""
        found = self.find("berka/loan_features.parquet") or self.find("loan_features.parquet")
        if not found:
            raise self.absent()
        table = table_file(found[0])
        numbers, dummies = INPUTS[self.inputs]
        years = [(n,) if isinstance(n, str) else n for n in numbers]
        needed = ["default", "region", *(n for of in years for n in of), *(c for c, _ in dummies)]
        if absent := [column for column in needed if column not in table.columns]:
            raise DataError(f"'{found[0]}' has no column '{absent[0]}'.")
        table = table.filter(table["region"] != "north Bohemia")
        columns = [np.nanmean(table.select(of).to_numpy().astype(float), 1) for of in years]
        columns += [table[c].to_numpy() == level for c, level in dummies]
        return self.finish(
            from_arrays(
                np.stack(columns, axis=1),
                table["default"].to_numpy(),
                table["region"].to_numpy(),
                class_names=("paid", "default"),
                name=self.title,
            )
        )
