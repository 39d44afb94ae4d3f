"""Speech Commands (Warden, 2018, version 0.02): one-second recordings of 35 words.

WORD/SPEAKER_nohash_N.wav               mono, 16 bits, 16,000 samples a second
validation_list.txt, testing_list.txt   WORD/SPEAKER_nohash_N.wav of speakers that do not train

Shorter recordings end in silence. Who speaks is the client; the speakers of testing_list.txt are
the test set, and those of validation_list.txt are not read, as AAggFF does it.
"""

import wave
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from unalike.errors import DataError
from unalike.federation.datasets.base import StoredDataset
from unalike.federation.readers import from_arrays

if TYPE_CHECKING:
    from unalike.federation.data import Examples

_RATE = 16_000


class SpeechCommands(StoredDataset):
    """84,843 recordings of 35 spoken words; the speakers are the clients."""

    title: ClassVar[str] = "speech_commands"
    files: ClassVar[str] = (
        "the folder of http://download.tensorflow.org/data/speech_commands_v0.02.tar.gz as "
        "speech_commands_v0.02"
    )

    every: int = Field(
        default=1, ge=1, le=16, description="keep every n-th sample; 2 halves memory and work"
    )
    min_clips: int = Field(
        default=3, ge=1, description="speakers with fewer recordings are left out"
    )
    speakers: int = Field(
        default=0, ge=0, description="how many speakers to keep, in the order of names; 0: all"
    )

    def load(self) -> "Examples":
        """Waveforms [N, 1, 16000 / every] in -1 to 1; silence follows short ones."""
        name = "speech_commands_v0.02"
        place = self.holding("testing_list.txt", name, f"SpeechCommands/{name}")
        apart = {
            kind: set(self.needed(place / f"{kind}_list.txt").read_text("utf-8").split())
            for kind in ("validation", "testing")
        }
        clips = [p.relative_to(place).as_posix() for p in sorted(place.glob("[!_]*/*.wav"))]
        if not clips:
            raise DataError(f"'{place}' holds no recordings WORD/SPEAKER_nohash_N.wav.")
        words = sorted({clip.partition("/")[0] for clip in clips})
        train = self._kept([c for c in clips if not any(c in some for some in apart.values())])
        test = [clip for clip in clips if clip in apart["testing"]]
        said, heard = ([words.index(c.partition("/")[0]) for c in some] for some in (train, test))
        return from_arrays(
            self._sounds(place, train),
            said,
            [_speaker(clip) for clip in train],
            test=(self._sounds(place, test), heard) if test else None,
            classes=len(words),
            class_names=tuple(words),
            layout="features",
            name=self.title,
            normalise="none",
        )

    def _kept(self, clips: list[str]) -> list[str]:
        """Those of speakers with enough of them."""
        count = Counter(map(_speaker, clips))
        who = sorted(s for s, n in count.items() if n >= self.min_clips)
        if not who:
            raise DataError(f"no speaker has {self.min_clips} recordings; lower min_clips.")
        some = set(who[: self.speakers or None])
        return [clip for clip in clips if _speaker(clip) in some]

    def _sounds(self, place: Path, clips: list[str]) -> np.ndarray:
        length = -(-_RATE // self.every)
        out = np.zeros((len(clips), 1, length), np.float32)
        for row, clip in zip(out, clips, strict=True):
            sound = _wav(place / clip)[: _RATE : self.every]
            row[0, : len(sound)] = sound
        return out


def _speaker(clip: str) -> str:
    """``yes/0a7c2a8d_nohash_0.wav`` is of 0a7c2a8d."""
    return clip.partition("/")[2].partition("_nohash_")[0]


def _wav(path: Path) -> np.ndarray:
    try:
        with wave.open(str(path), "rb") as file:
            form = file.getnchannels(), file.getsampwidth(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError):
        raise DataError(f"'{path}' is not a WAV file, or is damaged.") from None
    if form != (1, 2, _RATE):
        raise DataError(
            f"'{path}' must be mono with 16 bits and {_RATE} samples a second, got {form[0]} "
            f"channels, {8 * form[1]} bits and {form[2]}."
        )
    return np.frombuffer(raw, "<i2").astype(np.float32) / 2**15
