# SPDX-License-Identifier: Apache-2.0
"""What the Hopper architecture defines, as pure functions over ints and NumPy arrays.

Nothing here runs a kernel, keeps state or imports another room of hopperlab: the emulator, the
figures, the exercises and the checks all call these same formulas.

| module      | holds                                                                        |
|-------------|------------------------------------------------------------------------------|
| `swizzle`   | the 32B, 64B and 128B shared-memory swizzles, one XOR                         |
| `wgmma`     | matrix descriptors, operand addresses, shapes and types of `wgmma.mma_async`  |
| `fragments` | which thread holds which element: wgmma, mma.sync, ldmatrix, stmatrix          |
| `tensormap` | tensor maps: fields, every rule of the encode calls, the 128-byte image        |
| `tile`      | how a tensor map's box lies in shared memory, and what the barrier counts      |
| `mbarrier`  | the arithmetic of the 64-bit barrier word                                     |
| `banks`     | shared-memory wavefronts of one warp access                                   |
| `limits`    | numbers of the H200, and occupancy                                            |
"""
