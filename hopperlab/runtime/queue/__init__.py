# SPDX-License-Identifier: Apache-2.0
"""One GPU shared by many learners: server, client, turns, and what travels between them."""
