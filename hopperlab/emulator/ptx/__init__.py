# SPDX-License-Identifier: Apache-2.0
"""PTX text in, parsed functions and their control flow graph out.

`ir` holds the data, `parser.parse` makes it, `cfg.build` finds blocks and liveness. Nothing here executes anything.
"""
