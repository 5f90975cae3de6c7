# SPDX-License-Identifier: Apache-2.0
"""What a panel shows under each of its settings, launched ahead for pages that have no kernel."""
