"""What the tests of data share: the folder of real data, and what an error message must be."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from real_data import FOLDER, MISSING

from unalike.errors import UnalikeError


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests name their folders; the machine's own setting must not decide them."""
    monkeypatch.delenv("UNALIKE_DATA", raising=False)


@pytest.fixture
def shared() -> str:
    if not FOLDER.is_dir():
        pytest.skip(MISSING)
    return str(FOLDER)


@pytest.fixture
def one_sentence() -> Callable[..., AbstractContextManager[None]]:
    """A context that expects an error of one sentence holding all the given words."""

    @contextmanager
    def expect(kind: type[UnalikeError], *words: str) -> Iterator[None]:
        with pytest.raises(kind) as caught:
            yield
        message = str(caught.value)
        assert message.endswith((".", "?"))
        assert "\n" not in message
        assert ". " not in message
        for word in words:
            assert word in message

    return expect
