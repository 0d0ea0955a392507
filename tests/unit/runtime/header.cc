// Compiled only: fk.h is C++ as well, and has DLPack's layout.
#include "runtime/fk.h"

#include <cstddef>

static_assert(sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8 && sizeof(DLTensor) == 48,
              "DLPack's sizes");
static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 &&
                  offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24 &&
                  offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40,
              "DLPack's layout");
