#pragma once
// For operators written for Paddle: their namespace is the one of proa/extension.h.
#include "proa/extension.h"

namespace paddle = proa::ext;
