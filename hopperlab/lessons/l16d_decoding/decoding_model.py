# SPDX-License-Identifier: Apache-2.0
"""Lesson 16d: operations a byte of the cache, what a product of too few rows wastes, and who reads which keys, as tables and a picture."""
from __future__ import annotations

from collections.abc import Sequence

from ...measure.launches.decoding_plan import Plan, plan
from ...runtime.tables import text_table
from ...show import style
from ...show.timelines import Span, gantt

READ_TB_S, PRODUCT_TFLOPS = 4.8, 989.4      # H200, data sheet: memory, and dense bf16 products


def intensity_table() -> str:
    """Multiplications and additions for each byte of the cache, by how many query heads share it, beside what the board has to do with a byte."""
    rows = []
    for what, heads, keyed, valued, cached in (("each head its own k and v", 1, 128, 128, 256), ("4 query heads share k and v", 4, 128, 128, 256),
                                               ("8 query heads share k and v", 8, 128, 128, 256),
                                               ("latent, 16 heads", 16, 576, 512, 576), ("latent, 128 heads", 128, 576, 512, 576),
                                               ("prefill: 128 queries of 8 heads", 1024, 128, 128, 256)):
        operations = 2 * heads * (keyed + valued) / (2 * cached)
        rows.append((what, f"{operations:.0f}", f"{READ_TB_S * operations:.0f}", f"{READ_TB_S * operations / PRODUCT_TFLOPS:.1%}"))
    ridge = f"An H200 reads {READ_TB_S} TB/s and multiplies {PRODUCT_TFLOPS:.0f} TFLOP/s (data sheet): {PRODUCT_TFLOPS / READ_TB_S:.0f} operations a byte keep both busy."
    return "\n".join([ridge, *text_table("{:34} {:>16} {:>22} {:>12}", rows, ("", "operations/byte", "TFLOP/s at full speed", "of the peak"))])


def rows_table(heads: int = 8) -> str:
    """What is multiplied where `heads` queries stand in the rows (or columns) of one instruction, and how fast the tensor cores would have to be at memory's speed."""
    rows = []
    for name, many in (("mma.sync m16n8k16, queries as rows", 16), ("wgmma m64nNk16, queries as rows", 64), ("wgmma m64n8k16, keys as rows", 8)):
        padded = -(-heads // many) * many
        rows.append((name, padded, f"{heads / padded:.0%}", f"{READ_TB_S * padded:.0f}", f"{READ_TB_S * padded / PRODUCT_TFLOPS:.0%}"))
    return "\n".join(text_table("{:36} {:>14} {:>8} {:>22} {:>12}", rows, (f"{heads} query heads", "multiplied for", "in use", "TFLOP/s at full speed", "of the peak")))


def plan_table(cases: Sequence[tuple[str, Sequence[int]]], heads: int = 8, blocks: int = 132, splits: Sequence[int] = (0, 1, 4, 16)) -> str:
    """For each list of lengths and each number of splits: the tiles of the busiest CTA, how evenly they lie, and how many parts have to be combined."""
    rows = []
    for name, lengths in cases:
        for count in splits:
            made = plan(lengths, heads, blocks, count)
            rows.append((name, "in a line" if count == 0 else f"{count} a row", made.blocks, max(made.tiles), f"{made.balance * made.blocks / blocks:.0%}", made.slots))
    return "\n".join(text_table("{:34} {:>10} {:>6} {:>18} {:>14} {:>8}", rows, (f"{heads} KV heads, {blocks} SMs", "splits", "CTAs", "tiles of busiest",
                                                                                 "SMs at work", "parts")))


def spans(made: Plan) -> list[Span]:
    """A row a CTA, a bar a piece, coloured by sequence; `*`: a part that has to be combined."""
    found = []
    for block in range(made.blocks):
        at = 0
        for sequence, head, first, end, slot in made.pieces[made.starts[block]:made.starts[block + 1]].tolist():
            tiles = -(-(end - first) // made.tile)
            found.append(Span(f"CTA {block}", at, at + tiles, f"sequence {sequence}", f"h{head}{'*' if slot >= 0 else ''}"))
            at += tiles
    return found


def plan_picture(lengths: Sequence[int], heads: int, blocks: int, splits: int, heading: str = "", note: str = "") -> style.Picture:
    """Who reads which keys: the pieces of each CTA in tiles of 64 keys."""
    made = plan(lengths, heads, blocks, splits)
    told = heading or f"{'all tiles in a line' if splits == 0 else f'{splits} pieces a row'}: {max(made.tiles)} tiles at most, {made.slots} parts to combine"
    return gantt(spans(made), told, "tiles of 64 keys, in the order in which a CTA reads them (h: head of k and v; *: a part)" + (f"\n{note}" if note else ""))
