# SPDX-License-Identifier: Apache-2.0
"""How far something is that takes long: a bar of tqdm where a terminal reads it, the same words as lines elsewhere."""
from __future__ import annotations

import sys
import time
from typing import Any, TextIO

BLOCKS = ".#"        # of a bar: empty, filled


class Bar:
    """`tell(done)` shows a state, `close()` ends the bar.

    form: tqdm's bar_format. done: of `total`, what an earlier run had finished. unit: of rates. keep: whether the last state stays on the terminal.
    `terminal`: whether states are drawn over one another; where they are lines, a caller tells fewer.
    """

    def __init__(self, form: str, total: int, *, done: int = 0, unit: str = "it", keep: bool = False,
                 stream: TextIO | None = None):
        from tqdm.std import tqdm
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self._form = {"bar_format": form, "total": total, "initial": done, "unit": unit, "ascii": BLOCKS}
        self._line, self._began = tqdm.format_meter, time.monotonic()
        self._bar: Any = tqdm(file=self.stream, leave=keep, dynamic_ncols=True, smoothing=0, mininterval=0, **self._form) if self.terminal else None

    def tell(self, done: int, words: str = "") -> None:
        """`done` of the total are finished; `words` stand where the form says {desc}."""
        if self.terminal:
            self._bar.n = done
            self._bar.set_description_str(words)
        else:
            print(self._line(done, elapsed=time.monotonic() - self._began, prefix=words, **self._form), file=self.stream, flush=True)

    def close(self) -> None:
        """Nothing more is told."""
        if self.terminal:
            self._bar.close()
