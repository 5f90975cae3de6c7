// The host's side is absent; device code needs nothing of it that is not there already.
#pragma once
// SPDX-License-Identifier: Apache-2.0
