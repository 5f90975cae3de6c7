# SPDX-License-Identifier: Apache-2.0
"""Global and constant variables of a module: bytes with their initial values, at addresses in global memory.

Each variable is an allocation of its own, so that an access past its end is named. Constant ones are read-only to kernels.
PTX ISA 5.1.3 (.const), 5.1.4 (.global), 5.4.4 (initialisers).
"""
from __future__ import annotations

import numpy as np

from ..errors import LaunchError
from ..compile.calling import function_addresses
from ..ptx.ir import Module, Relocation

MOST_BYTES = 1 << 30       # of all variables of a module
SPACES = ("global", "const")


class Variables:
    """`arrays`: uint8 bytes of every variable by PTX name; `addresses`: where variables and functions lie. Both last as long as this."""

    def __init__(self, module: Module, memory):
        self.memory = memory
        self.arrays: dict[str, np.ndarray] = {}
        self.writable: dict[str, np.ndarray] = {}              # those that kernels may write
        self.addresses: dict[str, int] = function_addresses(module)
        wanted = [v for v in module.variables.values() if v.space in SPACES and v.count is not None]
        total = sum(v.size for v in wanted)
        if total > MOST_BYTES:
            raise LaunchError(f"the variables of this module take {total:,} bytes, but the emulator gives a module at most {MOST_BYTES:,}")
        for v in wanted:
            array = self.arrays[v.name] = np.zeros(max(v.size, 1), np.uint8)
            allocation = memory.register(array, f"{'constant' if v.space == 'const' else 'variable'} {v.name}")
            allocation.writable = v.space == "global"
            if allocation.writable:
                self.writable[v.name] = array
            self.addresses[v.name] = allocation.address
        for v in wanted:
            self._initialise(v)

    def _initialise(self, v) -> None:
        pieces = [] if v.init is None else [v.init] if isinstance(v.init, bytes) else v.init
        place, target = 0, self.arrays[v.name]
        for piece in pieces:
            raw = self._address(v, piece) if isinstance(piece, Relocation) else piece
            target[place:place + len(raw)] = np.frombuffer(raw, np.uint8)
            place += len(raw)

    def _address(self, v, piece: Relocation) -> bytes:
        """The bytes of an address in an initialiser."""
        base = self.addresses.get(piece.symbol)
        if base is None:
            raise LaunchError(f"variable {v.name} holds the address of {piece.symbol}, which is no function and no global or constant variable")
        value = base + piece.addend
        if piece.mask is not None:
            shift = (piece.mask & -piece.mask).bit_length() - 1
            value = (value & piece.mask) >> shift
        return (value & ((1 << 8 * piece.size) - 1)).to_bytes(piece.size, "little")
