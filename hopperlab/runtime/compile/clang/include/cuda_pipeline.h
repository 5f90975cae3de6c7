#pragma once
#include "cuda_pipeline_primitives.h"
// SPDX-License-Identifier: Apache-2.0
