# SPDX-License-Identifier: Apache-2.0
"""Lesson 19 without its recording: what probes measured of the link between two H200s, and what follows from it by arithmetic alone.

What follows is a bound: bytes, ways over the link and the product's own rate, and nothing that copies and products take from each other.
"""
from __future__ import annotations

from dataclasses import dataclass

from ... import measure
from ...measure.suites.two_gpus import GATHERED, SCATTERED
from ...runtime.tables import text_table
from ...show import charts, style

PULLED = {8: 307, 16: 369, 32: 375}                         # GB/s from the other device, by CTAs that copy
PUSHED = (350, 371)                                         # GB/s to it: least and most
COPY_ENGINE = 395                                           # GB/s, cudaMemcpyPeer
ROUND_TRIP = 5122                                           # cycles of a flag to and fro
CLOCK_MHZ = 1980                                            # the highest SM clock, at which so many cycles take the least time
WGMMA_CYCLES = 128                                          # of one m64n256k16 (lesson 08)
SOURCE = "measured by probes on two H200s of one host (NVLink, 18 links); no recording of this lesson's suite"
MEASURES = "`hopperlab bench two_gpus --out hopperlab/recordings` on a host with two Hopper GPUs measures what is computed here."
SIZES = (4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)    # bytes of a vector
WAYS = {"one-shot": (1, 3), "one-shot, words": (2, 1), "two-shot": (1, 6)}                         # vectors that each of two devices sends, ways in line


@dataclass(frozen=True)
class Bound:
    """Microseconds: the product alone, the link, one after the other, and the product with the link under it at best."""

    product: float
    link: float
    under: float

    @property
    def apart(self) -> float:
        """First the one, then the other."""
        return self.product + self.link


def bound(shape: tuple[int, int, int], suite: str = "gather", pieces: int = 2) -> Bound:
    """Of m x n x k on each of two devices. gather: half of A comes over the link first, then the tiles of its last piece are multiplied; scatter: half of the sums
    leave, the last piece of them after its tiles. The product's rate is that of `final` at 8192^3, as recorded."""
    m, n, k = shape
    rate = measure.load("ladder").one(kernel="final", shape=(8192,) * 3, note="").tflops
    product = 2 * m * n * k / rate / 1e6
    link = m // 2 * k * 2 / (PULLED[32] * 1e3) if suite == "gather" else m // 2 * n * 2 / (PUSHED[0] * 1e3)
    last = product / 2 / pieces if suite == "gather" else 0.0
    return Bound(product, link, max(product, link + last))


def bounds_table(suite: str = "gather") -> str:
    """A line for each shape that the suite times: microseconds, and shares of the product alone."""
    rows = []
    for shape in GATHERED if suite == "gather" else SCATTERED:
        b = bound(shape, suite)
        rows.append(("x".join(map(str, shape)), f"{b.product:.0f}", f"{b.link:.0f}", f"{b.product / b.apart:.3f}", f"{b.product / b.under:.3f}"))
    what = "all-gather, then the product" if suite == "gather" else "the product, then reduce-scatter"
    return "\n".join([f"computed, us and shares of the product alone; link as {SOURCE}", *text_table("{:22} {:>14} {:>10} {:>34} {:>12}", rows,
                                                                  ("m x n x k on each", "product alone", "link", what, "at once, most"))])


def copied_first() -> float:
    """The least share of the product alone, in per cent, that is left where the rows are gathered first."""
    return round(min(100 * b.product / b.apart for b in map(bound, GATHERED)), 1)


def at_once() -> float:
    """The least share, in per cent, that the link allows where the rows come under the product."""
    return round(min(100 * b.product / b.under for b in map(bound, GATHERED)), 1)


def link_picture() -> style.Picture:
    """GB/s pulled by the CTAs that copy, between what was pushed at least and at most, and the copy engine."""
    counts = list(PULLED)
    flat = {"push, least": PUSHED[0], "push, most": PUSHED[1], "copy engine": COPY_ENGINE}
    series = {"pull": list(PULLED.values()), **{name: [value] * len(counts) for name, value in flat.items()}}
    return charts.lines(counts, series, "CTAs that copy", "over the link (GB/s)", "How few CTAs fill a link", SOURCE)


def flag_words() -> str:
    """The round trip of a flag, and what the tensor cores of an SM could have done meanwhile."""
    return (f"a flag to and fro: {ROUND_TRIP} cycles, {ROUND_TRIP / CLOCK_MHZ:.1f} us at {CLOCK_MHZ} MHz; one SM's tensor cores could finish "
            f"{ROUND_TRIP // WGMMA_CYCLES} wgmma m64n256k16 meanwhile; {SOURCE}")


def reduce_bounds() -> str:
    """Microseconds of an all-reduce on two devices by size, at best: its bytes over the link and its ways in line, each half a flag's round trip."""
    way, rows = ROUND_TRIP / 2 / CLOCK_MHZ, []
    for size in SIZES:
        times = {how: sent * size / (PULLED[32] * 1e3) + ways * way for how, (sent, ways) in WAYS.items()}
        best = min(times, key=lambda how: times[how])
        rows.append((f"{size // 1024} KiB", *(f"{times[how]:.1f}" for how in WAYS), best))
    return "\n".join([f"computed, us at best on two devices: bytes and ways; link as {SOURCE}",
                      *text_table("{:>10} {:>12} {:>18} {:>12}   {:18}", rows, ("vector", *WAYS, "least"))])
