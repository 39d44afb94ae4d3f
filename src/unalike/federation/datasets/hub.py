"""Any dataset of the Hugging Face hub that holds images or a table."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from unalike.errors import UnalikeError
from unalike.federation.datasets.base import LEARN, TableDataset
from unalike.federation.readers.columns import Learn
from unalike.federation.readers.frames import Missing
from unalike.federation.readers.hub import read_hub

if TYPE_CHECKING:
    from unalike.federation.data import Examples
    from unalike.kinds import Kind


class Hub(TableDataset):
    """Any hub dataset with one image column or with table columns, or a folder saved from one."""

    title: ClassVar[str] = "hub"

    repository: str = Field(min_length=1, description="OWNER/NAME on the hub, or a local folder")
    config: str = Field(default="", description="configuration of the dataset, if it has several")
    split: str = Field(default="train", description="split whose rows the clients get")
    test_split: str = Field(default="", description="split for the global test set; empty: none")
    label: str = Field(default="label", description="column to predict")
    client: str = Field(default="", description="column that names each row's client")
    missing: Missing = Field(default="error", description="table: refuse or fill missing values")
    task: Learn = Field(default="auto", description=LEARN)
    size: int = Field(
        default=0, ge=0, le=1024, description="images: side to resize them to; 0: not resized"
    )

    def kind(self) -> "Kind":
        """As set, else as the data say; what cannot be read is complained of when it is used."""
        if self.task != "auto":
            return self.task
        try:
            return self.load().kind
        except UnalikeError:
            return super().kind()

    def load(self) -> "Examples":
        """The examples of the splits that are named."""
        return self.finish(
            read_hub(
                self.repository,
                config=self.config,
                split=self.split,
                test_split=self.test_split,
                label=self.label,
                client=self.client,
                size=self.size,
                missing=self.missing,
                kind=None if self.task == "auto" else self.task,
            )
        )
